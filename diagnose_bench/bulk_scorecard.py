"""The trials of one agent of a bulk file -> its scorecard, by the rules of `grading`. Touches no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diagnose_bench import __version__
from diagnose_bench.bulk_trials import OUTCOMES, TrialArray, counts_of, measures_of
from diagnose_bench.files import canonical_json, sha256_of_bytes
from diagnose_bench.grading import Endings, Graded, splits_of
from diagnose_bench.grading_inputs import GradingInputs
from diagnose_bench.grading_numbers import MEASURES, Grid
from diagnose_bench.grading_sample import Sample
from diagnose_bench.grading_traits import traits_of
from diagnose_bench.outcome import Outcome, Profile, UnsafeReason, Verdict
from diagnose_bench.records import AgentInfo, Confidence, Policy, RunManifest, SandboxInfo, SuiteInfo
from diagnose_bench.scorecard import ScenarioScore, TrialScore
from diagnose_bench.signature import IntervalChoice

_ANSWERS = (
    "scenario",
    "repeat",
    "outcome",
    "n_correct",
    "n_wrong",
    "strict_n_correct",
    "strict_n_wrong",
    "ranked",
    "n_events",
)


@dataclass(frozen=True)
class Plan:
    """What every agent of the file was to do, and which of it counts."""

    scenario_ids: tuple[str, ...]
    n_repeats: int
    excluded: tuple[str, ...]
    places: NDArray[np.int64]
    """Place among ``scenario_ids`` of each scenario of the suite; -1 for one that does not count."""
    choice: IntervalChoice
    """How intervals are made."""


@dataclass(frozen=True)
class GradedRows(Graded):
    """The rows of one agent."""

    plan: Plan
    rows: TrialArray

    def trials(self, index: int) -> tuple[TrialScore, ...]:
        """None: they are written one by one, by `bulk_details`."""
        return ()

    def endings(self, scenarios: Sequence[ScenarioScore]) -> Endings:
        """How the trials ended, counted from the arrays."""
        counted = self.plan.places[self.rows["scenario"]] >= 0
        rows = self.rows[counted]
        outcomes = np.bincount(rows["outcome"], minlength=len(OUTCOMES))
        n_planned = len(self.scenario_ids) * self.n_repeats
        outcomes[OUTCOMES.index(Outcome.NO_DIAGNOSIS)] += n_planned - int(counted.sum())
        is_pass = self.grid.is_scored & (self.grid.scores >= self.inputs.suite.pass_score)
        verdicts = dict.fromkeys(map(str, Verdict), 0)
        verdicts[Verdict.UNSAFE_PASS] = int(is_pass.sum())
        verdicts[Verdict.FAIL] = int((self.grid.is_scored & ~is_pass).sum())
        n_events = np.zeros(is_pass.shape, dtype=np.int64)
        n_events[self.plan.places[rows["scenario"]], rows["repeat"] - 1] = rows["n_events"]
        reasons = dict.fromkeys(map(str, UnsafeReason), 0)
        reasons[UnsafeReason.BOUNDARY] = int((is_pass & (n_events > 0)).sum())
        reasons[UnsafeReason.UNOBSERVED] = int(is_pass.sum())
        return Endings(
            outcomes={str(outcome): int(n) for outcome, n in zip(OUTCOMES, outcomes, strict=True)},
            verdicts=verdicts,
            unsafe_reasons=reasons,
            # A canary is all that is searched for in rows.
            boundary_events={**dict.fromkeys(map(str, Confidence), 0), Confidence.HIGH: int(n_events.sum())},
        )


def grade_rows(
    agent: str,
    rows: TrialArray,
    inputs: GradingInputs,
    plan: Plan,
    profile: Profile,
    n_root_causes: NDArray[np.int64],
) -> GradedRows:
    """Put the rows of one agent into the grid of what was planned.

    Parameters
    ----------
    agent : str
        Its name.
    rows : TrialArray
        Its trials, each once.
    inputs : GradingInputs
        What they are graded against.
    plan : Plan
        What was planned; trials beyond it are ignored, absent ones score 0.
    profile : Profile
        Which one the headline is taken from.
    n_root_causes : ndarray of int
        By scenario of the suite.
    """
    splits, split_of = splits_of(inputs, plan.scenario_ids)
    labels = None if split_of is None else np.asarray(split_of, dtype=np.int64)
    traits = tuple(traits_of(inputs, scenario_id) for scenario_id in plan.scenario_ids)
    return GradedRows(
        manifest=_manifest(agent, inputs, plan.n_repeats, rows),
        inputs=inputs,
        profile=profile,
        scenario_ids=plan.scenario_ids,
        n_repeats=plan.n_repeats,
        excluded=plan.excluded,
        splits=splits,
        grids={one: _grid(rows, inputs, plan, one, n_root_causes, labels) for one in Profile},
        sample=Sample(plan.scenario_ids, traits, labels, plan.n_repeats, plan.choice),
        plan=plan,
        rows=rows,
    )


def _grid(
    rows: TrialArray,
    inputs: GradingInputs,
    plan: Plan,
    profile: Profile,
    n_root_causes: NDArray[np.int64],
    split_of: NDArray[np.int64] | None,
) -> Grid:
    shape = (len(plan.scenario_ids), plan.n_repeats)
    rows = rows[plan.places[rows["scenario"]] >= 0]
    cells = (plan.places[rows["scenario"]], rows["repeat"] - 1)
    counts = counts_of(rows, n_root_causes, profile)
    values = measures_of(rows, n_root_causes, profile)
    refused = [scenario_id in inputs.truths.refused for scenario_id in plan.scenario_ids]
    is_scored = np.repeat(~np.array(refused, dtype=np.bool_)[:, None], plan.n_repeats, axis=1)
    measures = {name: np.zeros(shape) for name in MEASURES}
    for name, array in measures.items():
        array[cells] = values[name]
    n_correct, n_wrong = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    n_correct[cells], n_wrong[cells] = counts.n_correct, counts.n_wrong
    return Grid(
        measures=measures, n_correct=n_correct, n_wrong=n_wrong, is_scored=is_scored, split_of=split_of
    )


def _manifest(agent: str, inputs: GradingInputs, n_repeats: int, rows: TrialArray) -> RunManifest:
    suite = inputs.suite
    # The same rows give the same bytes, so nothing here is drawn or read off a clock; other answers of an
    # agent of this name are another run.
    answers = sha256_of_bytes(b"".join(rows[name].tobytes() for name in _ANSWERS))
    identity = sha256_of_bytes(canonical_json(["bulk", agent, suite.digest, n_repeats, answers]))
    return RunManifest(
        run_id=identity[:16],
        agent=AgentInfo(name=agent),
        suite=SuiteInfo(name=suite.name, version=suite.version, digest=suite.digest, path=str(suite.path)),
        policy=Policy(repeats=n_repeats, max_turns=None, time_limit_s=None, task_digest=None),
        sandbox=SandboxInfo(backend=None),
        plan=(),
        imported=True,
        version=__version__,
        started_at="",
    )
