"""A run with its scorecard, as every exporter needs it. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnose_bench.errors import RunFormatError
from diagnose_bench.records import PlannedTrial, TrialRecord
from diagnose_bench.scorecard import ScenarioScore, Scorecard, TrialScore, load_scorecard
from diagnose_bench.store import RunStore

HEADLINE = "average_precision_at_full_recall"


@dataclass(frozen=True)
class ScoredTrial:
    """One trial: how it was judged, and its record where it has run."""

    scenario: ScenarioScore
    score: TrialScore
    record: TrialRecord | None

    @property
    def planned(self) -> PlannedTrial:
        """Its cell of the plan."""
        return PlannedTrial(scenario_id=self.scenario.scenario_id, repeat=self.score.repeat)


@dataclass(frozen=True)
class ScoredRun:
    """A run and its scorecard."""

    store: RunStore
    scorecard: Scorecard

    def trials(self) -> Iterator[ScoredTrial]:
        """Every planned trial, scenario by scenario."""
        for scenario in self.scorecard.scenarios:
            for score in scenario.trials:
                planned = PlannedTrial(scenario_id=scenario.scenario_id, repeat=score.repeat)
                yield ScoredTrial(scenario, score, self.store.record(planned))

    @property
    def label(self) -> str:
        """What the number is: of the suite, or of chosen scenarios only."""
        return HEADLINE if self.scorecard.subset is None else f"{HEADLINE} (subset)"

    @property
    def averaged_over(self) -> str:
        """What the number is averaged over, as a sentence without a full stop."""
        headline = self.scorecard.headline
        parts = "" if self.scorecard.splits is None else f", mean of {len(self.scorecard.splits)} split means"
        return (
            f"mean over {_count(headline.n_scenarios, 'scenario')}, each the mean over "
            f"{_count(headline.n_repeats, 'planned repeat')}{parts}"
        )


def load_scored(run: Path) -> ScoredRun:
    """Load a run and its scorecard.

    Raises
    ------
    RunError
        There is no run, it has not been scored, or a file is damaged.
    """
    store, scorecard = RunStore.open(run), load_scorecard(run)
    if scorecard.run_id != store.manifest.run_id:
        raise RunFormatError(
            f"{run}: scorecard.json is of another run ({scorecard.run_id}). Score this one: "
            f"diagnose-bench score {run}"
        )
    return ScoredRun(store, scorecard)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
