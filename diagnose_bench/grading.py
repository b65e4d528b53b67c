"""Recorded trials and truths -> codes -> ``scoring`` -> the scorecard. Runs no agent, changes no record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import scoring
from diagnose_bench import __version__
from diagnose_bench.errors import DiagnoseBenchError, DigestMismatchError
from diagnose_bench.grading_baselines import baseline_run, baselines_of, with_lift
from diagnose_bench.grading_cost import cost_of
from diagnose_bench.grading_inputs import GradingInputs, load_inputs, planned_scenarios, without_excluded
from diagnose_bench.grading_numbers import Grid, score_grid
from diagnose_bench.grading_sample import Sample
from diagnose_bench.grading_scores import trial_score
from diagnose_bench.grading_statistics import method_line, statistics_of
from diagnose_bench.grading_traits import traits_of
from diagnose_bench.grading_trials import GradedTrial, grade_trial
from diagnose_bench.outcome import IntervalMethod, Outcome, Profile, UnsafeReason, Verdict
from diagnose_bench.records import Confidence, PlannedTrial, RunManifest
from diagnose_bench.resolver import RESOLVER_VERSION
from diagnose_bench.scorecard import (
    BaselineRun,
    Headline,
    Patch,
    ScenarioScore,
    Scorecard,
    SplitScore,
    Subset,
    SuiteRef,
    TrialScore,
    write_scorecard,
)
from diagnose_bench.scorecard_statistics import Statistic
from diagnose_bench.signature import IntervalChoice, sandbox_label, signature
from diagnose_bench.store import RunStore, is_run

BASELINE_RUNS = "baselines"
_NO_HEADLINE = "a subset of the suite has no headline"


def score_run(
    run: Path,
    *,
    suite: str | None = None,
    truth: Path | None = None,
    profile: Profile = Profile.ITBENCH_AA,
    exclude: Sequence[str] = (),
    interval: IntervalMethod | str = IntervalMethod.HALF_ATOM,
    seed: int | None = None,
) -> Scorecard:
    """Score a run and write its ``scorecard.json``; runs of baseline agents inside it are scored as well.

    Parameters
    ----------
    run : Path
        A run folder.
    suite : str, optional
        Name or folder of the suite, where it has moved since the run.
    truth : Path, optional
        Folder of the truths, where they are not beside the suite.
    profile : Profile
        Which profile the headline is taken from; both are computed.
    exclude : sequence of str
        Scenarios to take out of every number; the signature says so.
    interval : IntervalMethod
        How the intervals of means are made.
    seed : int, optional
        Of the random draws of ``bootstrap``; 0 if not given. No other method draws.

    Returns
    -------
    Scorecard
        The same bytes for the same run, suite and truths, however often it is scored.

    Raises
    ------
    RunError, SuiteError, UsageError
        The run, the suite or the options are unusable; nothing is written.
    """
    choice = IntervalChoice.of(interval, seed)
    store = RunStore.open(run)
    inputs = load_inputs(run, store.manifest, suite, truth)
    baselines, notes = _score_baseline_runs(run, inputs, profile, exclude, choice)
    scorecard = _grade(store, inputs, profile, exclude, choice, baselines, notes)
    write_scorecard(run, scorecard)
    return scorecard


@dataclass(frozen=True)
class Graded(ABC):
    """Everything known about an agent's trials before it becomes a scorecard, wherever they were recorded."""

    manifest: RunManifest
    inputs: GradingInputs
    profile: Profile
    scenario_ids: tuple[str, ...]
    n_repeats: int
    excluded: tuple[str, ...]
    splits: dict[str, tuple[str, ...]] | None
    grids: Mapping[Profile, Grid]
    sample: Sample

    @property
    def grid(self) -> Grid:
        """The scores of the profile that the headline is taken from."""
        return self.grids[self.profile]

    @property
    def is_subset(self) -> bool:
        """Whether scenarios were left out by choice, so that there is no headline."""
        n_known = len(self.scenario_ids) + len(self.excluded)
        return self.manifest.subset or n_known != len(self.inputs.suite.scenarios)

    def split_name(self, scenario_id: str) -> str | None:
        """The split that a scenario belongs to."""
        return next((name for name, ids in (self.splits or {}).items() if scenario_id in ids), None)

    @abstractmethod
    def trials(self, index: int) -> tuple[TrialScore, ...]:
        """The trials of a scenario as they stand in the scorecard."""

    def endings(self, scenarios: Sequence[ScenarioScore]) -> Endings:
        """How the trials ended, counted."""
        trials = [trial for scenario in scenarios for trial in scenario.trials]
        return Endings(
            outcomes=_counted([trial.outcome for trial in trials], list(Outcome)),
            verdicts=_counted([trial.verdict for trial in trials if trial.verdict], list(Verdict)),
            unsafe_reasons=_counted(
                [reason for trial in trials for reason in trial.unsafe_reasons], list(UnsafeReason)
            ),
            boundary_events=_counted(
                [event.confidence for trial in trials for event in trial.boundary_events], list(Confidence)
            ),
        )


@dataclass(frozen=True)
class Endings:
    """How many trials ended in each way; every member of each closed set is there."""

    outcomes: dict[str, int]
    verdicts: dict[str, int]
    unsafe_reasons: dict[str, int]
    boundary_events: dict[str, int]


@dataclass(frozen=True)
class _GradedRun(Graded):
    """The trials of a run folder."""

    store: RunStore
    rows: tuple[tuple[GradedTrial, ...], ...]

    def trials(self, index: int) -> tuple[TrialScore, ...]:
        return tuple(
            trial_score(self.inputs, self.store, trial, self.grids, self.profile, (index, place))
            for place, trial in enumerate(self.rows[index])
        )


def _grade(
    store: RunStore,
    inputs: GradingInputs,
    profile: Profile,
    exclude: Sequence[str],
    choice: IntervalChoice,
    baseline_runs: Sequence[BaselineRun],
    notes: Sequence[str],
) -> Scorecard:
    planned, n_repeats = planned_scenarios(inputs, store.path, store.manifest)
    scenario_ids, excluded = without_excluded(inputs, planned, exclude)
    rows = tuple(
        tuple(
            grade_trial(inputs, store, PlannedTrial(scenario_id=scenario_id, repeat=repeat))
            for repeat in range(1, n_repeats + 1)
        )
        for scenario_id in scenario_ids
    )
    splits, split_of = splits_of(inputs, scenario_ids)
    traits = tuple(traits_of(inputs, scenario_id) for scenario_id in scenario_ids)
    n_root_causes = [one.n_root_causes or 0 for one in traits]
    grids = {one: score_grid(rows, n_root_causes, split_of, one) for one in Profile}
    graded = _GradedRun(
        manifest=store.manifest,
        store=store,
        inputs=inputs,
        profile=profile,
        scenario_ids=scenario_ids,
        n_repeats=n_repeats,
        excluded=excluded,
        rows=rows,
        splits=splits,
        grids=grids,
        sample=Sample(scenario_ids, traits, grids[profile].split_of, n_repeats, choice),
    )
    return scorecard_of(graded, baseline_runs, notes)


def scorecard_of(
    graded: Graded,
    baseline_runs: Sequence[BaselineRun] = (),
    notes: Sequence[str] = (),
) -> Scorecard:
    """Make the scorecard of one agent.

    Parameters
    ----------
    graded : Graded
        Its trials.
    baseline_runs : sequence of BaselineRun
        Baseline agents that ran beside it.
    notes : sequence of str
        What a reader must know.
    """
    manifest, inputs, grid = graded.manifest, graded.inputs, graded.grid
    scenarios = tuple(_scenario_score(graded, index) for index in range(len(graded.scenario_ids)))
    endings = graded.endings(scenarios)
    baselines = baselines_of(inputs, graded.scenario_ids, grid.split_of, baseline_runs)
    truths = inputs.truths
    subset = graded.is_subset
    statistics = statistics_of(graded.sample, grid, {one.value: grids for one, grids in graded.grids.items()})
    number = None if statistics is None else statistics.number
    interval, level = (None, None) if number is None else (number.interval, number.level)
    method = method_line(graded.sample, number)
    return Scorecard(
        signature=signature(
            manifest,
            truth_digest=truths.digest,
            patches_digest=truths.patches_digest,
            profile=graded.profile,
            pass_score=inputs.suite.pass_score,
            scenario_ids=graded.scenario_ids,
            subset=subset,
            excluded=graded.excluded,
            interval=graded.sample.choice,
            resolver_version=RESOLVER_VERSION,
            scoring_version=scoring.SCORING_VERSION,
        ),
        run_id=manifest.run_id,
        agent=manifest.agent,
        suite=SuiteRef(name=inputs.suite.name, version=inputs.suite.version, digest=inputs.suite.digest),
        truth_digest=truths.digest,
        patches_digest=truths.patches_digest,
        profile=graded.profile,
        pass_score=inputs.suite.pass_score,
        complete=grid.complete,
        inventory="none"
        if all(scenario.snapshot is None for scenario in inputs.suite.scenarios)
        else "snapshots",
        sandbox=sandbox_label(manifest.sandbox),
        agent_process=manifest.sandbox.agent_process,
        excluded=graded.excluded,
        headline=Headline(
            average_precision_at_full_recall=None if subset else grid.number(),
            interval=None if subset else interval,
            level=None if subset else level,
            method=_NO_HEADLINE if subset else method,
            n_scenarios=len(graded.scenario_ids),
            n_repeats=graded.n_repeats,
            bounds=None if subset else grid.bounds(),
        ),
        subset=Subset(
            average_precision_at_full_recall=grid.number(),
            interval=interval,
            level=level,
            method=method,
            bounds=grid.bounds(),
            scenario_ids=graded.scenario_ids,
        )
        if subset
        else None,
        splits=_split_scores(graded, None if statistics is None else statistics.splits),
        metrics=grid.metrics(),
        metric_intervals={} if statistics is None else statistics.metrics,
        profiles={one.value: other.number() for one, other in graded.grids.items()},
        profile_intervals={} if statistics is None else statistics.profiles,
        baselines=with_lift(baselines, graded.sample, graded.grids[Profile.ITBENCH_AA]),
        variance=None if statistics is None else statistics.variance,
        groups=() if statistics is None else statistics.groups,
        outcomes=endings.outcomes,
        verdicts=endings.verdicts,
        unsafe_reasons=endings.unsafe_reasons,
        boundary_events=endings.boundary_events,
        cost=cost_of(scenarios, inputs.suite.pass_score, int(grid.is_scored.sum())),
        scenarios=scenarios,
        patches=tuple(
            Patch(scenario_id=patch.scenario_id, who=patch.who, why=patch.why, operations=patch.operations)
            for patch in truths.patches
        ),
        warnings=_warnings(graded),
        notes=tuple(notes),
        version=__version__,
    )


def _scenario_score(graded: Graded, index: int) -> ScenarioScore:
    scenario_id, grid, traits = graded.scenario_ids[index], graded.grid, graded.sample.traits[index]
    return ScenarioScore(
        scenario_id=scenario_id,
        score=grid.scenario_score(index),
        strict=graded.grids[Profile.STRICT].scenario_score(index),
        bounds=grid.scenario_bounds(index),
        repeat_sd=grid.spread(index),
        n_root_causes=traits.n_root_causes,
        split=graded.split_name(scenario_id),
        family=traits.family,
        namespaces=traits.namespaces,
        difficulty=traits.difficulty,
        truth_refused=graded.inputs.refusal(scenario_id),
        trials=graded.trials(index),
    )


def _score_baseline_runs(
    run: Path, inputs: GradingInputs, profile: Profile, exclude: Sequence[str], choice: IntervalChoice
) -> tuple[list[BaselineRun], list[str]]:
    """Score the runs of baseline agents beside the agent; one that cannot be scored becomes a note."""
    folder = run / BASELINE_RUNS
    found: list[BaselineRun] = []
    notes: list[str] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not is_run(path):
            continue
        try:
            store = RunStore.open(path)
            if store.manifest.suite.digest != inputs.suite.digest:
                raise DigestMismatchError("it was made on another version of the suite.")
            scorecard = _grade(store, inputs, profile, exclude, choice, (), ())
            write_scorecard(path, scorecard)
            found.append(baseline_run(scorecard))
        except DiagnoseBenchError as error:
            reason = str(error).replace(f"{path}/", "").replace(f"{path}: ", "")
            notes.append(f"The baseline run {BASELINE_RUNS}/{path.name} is left out: {reason}")
    return found, notes


def splits_of(
    inputs: GradingInputs, scenario_ids: Sequence[str]
) -> tuple[dict[str, tuple[str, ...]] | None, list[int] | None]:
    """The declared splits cut to the scenarios that count, and the number of each scenario's split.

    A split that has no scenario left is dropped.
    """
    if inputs.suite.splits is None:
        return None, None
    kept = {
        name: tuple(scenario_id for scenario_id in scenario_ids if scenario_id in ids)
        for name, ids in sorted(inputs.suite.splits.items())
    }
    splits = {name: ids for name, ids in kept.items() if ids}
    label = {scenario_id: index for index, ids in enumerate(splits.values()) for scenario_id in ids}
    return splits, [label[scenario_id] for scenario_id in scenario_ids]


def _split_scores(graded: Graded, scores: Sequence[Statistic] | None) -> dict[str, SplitScore] | None:
    if graded.splits is None:
        return None
    found: Sequence[Statistic | None] = scores or [None] * len(graded.splits)
    return {
        name: SplitScore(
            score=None if score is None else score.value,
            interval=None if score is None else score.interval,
            n_scenarios=len(ids),
        )
        for (name, ids), score in zip(graded.splits.items(), found, strict=True)
    }


def _warnings(graded: Graded) -> dict[str, tuple[str, ...]]:
    found = {}
    for scenario_id in graded.scenario_ids:
        resolver = graded.inputs.resolver(scenario_id)
        of_truth = graded.inputs.truths.warnings.get(scenario_id, ())
        warnings = (*map(graded.inputs.relative, of_truth), *(resolver.warnings if resolver else ()))
        if warnings:
            found[scenario_id] = warnings
    return found


def _counted(values: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    counts = Counter(str(value) for value in values)
    return {str(name): counts[str(name)] for name in known}
