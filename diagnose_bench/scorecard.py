"""The scorecard: the numbers of one run as they stand in scorecard.json. Computes none of them.

Full precision, null where there is no number, never NaN.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from diagnose_bench import __version__
from diagnose_bench.errors import DiagnoseBenchError, RunError, RunFormatError
from diagnose_bench.evidence import Found
from diagnose_bench.files import pretty_json, read_json, write_atomic
from diagnose_bench.grounding import Sight
from diagnose_bench.outcome import Limit, Outcome, Profile, UnsafeReason, Verdict
from diagnose_bench.records import AgentInfo, BoundaryEvent
from diagnose_bench.scorecard_cost import CostMeasure
from diagnose_bench.scorecard_statistics import Ends, GroupTable, LiftOverBlind, Statistic, Variance

SCORECARD = "scorecard.json"
SCORECARD_FORMAT_VERSION = 1
EXIT_INCOMPLETE = 3


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class CitationScore(_Model):
    """A piece of evidence that an agent cited for an entity, and whether the snapshot has it."""

    file: str | None
    line: int | None
    quote: str | None
    """Its beginning."""
    found: Found | None
    """Null where nothing can be said: no snapshot, no file named, a file without text."""


class EntityScore(_Model):
    """One submission and how it was judged."""

    raw: str
    entity: str | None
    rule: str | None
    group: str | None
    via_alias: bool
    class_: str = Field(alias="class")
    distance: int | None
    """Hops along the propagation from the nearest root cause, for victims."""
    code: int
    """Which logical entity it is within its trial; equal codes are one."""
    message: str
    sight: Sight | None = None
    """Whether an output of a command had shown its name before the submission; null where no commands are on
    record, and for what is no name."""
    first_seen: int | None = None
    """Number of the first command that showed it."""
    evidence: tuple[CitationScore, ...] = ()


class TrialScore(_Model):
    """One trial; measures are null where the trial is unscored."""

    repeat: int
    outcome: Outcome
    reason: str
    limit_hit: Limit | None
    verdict: Verdict | None
    """Null for a trial that has not run, or whose truth was refused."""
    unsafe_reasons: tuple[UnsafeReason, ...]
    repairs: tuple[str, ...]
    precision_at_full_recall: float | None
    ranked_precision_at_full_recall: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    strict: float | None
    """`precision_at_full_recall` under the profile ``strict``."""
    n_correct: int | None
    n_wrong: int | None
    missed: tuple[str, ...]
    """A group of each root cause that was not named."""
    entities: tuple[EntityScore, ...]
    n_turns: int
    n_commands: int
    seconds: float
    cost_usd: float | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_by_agent: bool = False
    """True where tokens and cost are what the agent, a program, reported of itself."""
    observed: bool = False
    """Whether the harness ran the trial, so that turns, commands and seconds are known; else they are 0."""
    boundary_events: tuple[BoundaryEvent, ...] = ()
    """What was seen at the sandbox's boundary, during the run and against the truth."""


class ScenarioScore(_Model):
    """One scenario: the mean over its planned repeats."""

    scenario_id: str
    score: float | None
    strict: float | None
    bounds: Ends | None
    """Unscored trials as 0, and as 1; null where all are scored."""
    repeat_sd: float | None
    """Sample standard deviation over the repeats; null with one repeat."""
    n_root_causes: int | None
    split: str | None
    family: str | None
    """Fault family, namespaces of the root causes and difficulty as the truth gives them."""
    namespaces: tuple[str, ...]
    difficulty: int | None
    truth_refused: str | None
    trials: tuple[TrialScore, ...]


class Headline(_Model):
    """The one number, and what it is averaged over."""

    average_precision_at_full_recall: float | None
    interval: Ends | None
    """Where the mean over other scenarios like these may lie; null while the run is incomplete."""
    level: float | None
    method: str
    """What is averaged, what the interval is about, how it is made, its unit and their number."""
    n_scenarios: int
    n_repeats: int
    bounds: Ends | None


class Subset(_Model):
    """The number of a run over chosen scenarios only: never a headline."""

    average_precision_at_full_recall: float | None
    interval: Ends | None
    level: float | None
    method: str
    bounds: Ends | None
    scenario_ids: tuple[str, ...]


class SplitScore(_Model):
    """One part of the suite; the headline is the mean of the parts."""

    score: float | None
    interval: Ends | None
    n_scenarios: int


class ConstantBaseline(_Model):
    """The best single name, chosen for each scenario by looking at the other ones."""

    score: float | None
    entities: dict[str, str | None]


class BaselineRun(_Model):
    """A heuristic of ours that ran beside the agent, in the same sandbox."""

    name: str
    score: float | None
    interval: Ends | None
    bounds: Ends | None
    strict: float | None
    full_recall_rate: float | None
    exact_rate: float | None
    n_repeats: int
    lift_interval: Ends | None
    """Of its lift over blind; null while its run is incomplete."""
    scenarios: dict[str, float | None]
    outcomes: dict[str, int]
    verdicts: dict[str, int]


class Baselines(_Model):
    """What a score must beat to mean anything."""

    constant: ConstantBaseline
    empty: float | None
    blind: float | None
    """The larger of constant and empty: no look at the snapshot is needed for it."""
    blind_scenarios: dict[str, float]
    """Scenario scores of the better of the two; empty while a truth is refused."""
    lift: float | None
    """The run's number minus ``blind``."""
    lift_over_blind: LiftOverBlind | None
    """The same with its interval, and as a share of what blind leaves."""
    agents: tuple[BaselineRun, ...]


class SuiteRef(_Model):
    """Which suite."""

    name: str
    version: str
    digest: str


class Patch(_Model):
    """A mend of a truth that was applied."""

    scenario_id: str
    who: str
    why: str
    operations: tuple[str, ...]


class Scorecard(_Model):
    """scorecard.json."""

    format_version: int = SCORECARD_FORMAT_VERSION
    signature: str
    run_id: str
    agent: AgentInfo
    suite: SuiteRef
    truth_digest: str
    patches_digest: str | None
    profile: Profile
    pass_score: float
    complete: bool
    inventory: str
    """``snapshots``, or ``none`` for a suite of truths alone."""
    sandbox: str
    agent_process: str | None = None
    """How the agent's own process was covered, as in run.json."""
    excluded: tuple[str, ...]
    headline: Headline
    subset: Subset | None
    splits: dict[str, SplitScore] | None
    metrics: dict[str, float | None]
    metric_intervals: dict[str, Statistic]
    """The same numbers with their intervals; empty while the run is incomplete."""
    profiles: dict[str, float | None]
    profile_intervals: dict[str, Statistic]
    baselines: Baselines
    variance: Variance | None
    """Null while the run is incomplete."""
    groups: tuple[GroupTable, ...]
    """By fault family, namespace of the root causes, number of root causes and difficulty, where stated."""
    outcomes: dict[str, int]
    verdicts: dict[str, int]
    unsafe_reasons: dict[str, int]
    boundary_events: dict[str, int] = Field(default_factory=dict)
    """How many of each confidence."""
    cost: dict[str, CostMeasure] = Field(default_factory=dict)
    """What the scored trials took: turns, commands, tokens, money, seconds; in all, per trial, per pass, per
    correct diagnosis."""
    scenarios: tuple[ScenarioScore, ...]
    patches: tuple[Patch, ...]
    warnings: dict[str, tuple[str, ...]]
    """Of the truths and of name resolution, by scenario."""
    notes: tuple[str, ...]
    version: str

    @property
    def number(self) -> float | None:
        """The headline, or the number of a subset; None where the run is incomplete."""
        chosen = self.headline if self.subset is None else self.subset
        return chosen.average_precision_at_full_recall

    @property
    def bounds(self) -> Ends | None:
        """Bounds of the number where the run is incomplete."""
        return (self.headline if self.subset is None else self.subset).bounds

    @property
    def interval(self) -> Ends | None:
        """Interval of the number; None where the run is incomplete."""
        return (self.headline if self.subset is None else self.subset).interval

    @property
    def method(self) -> str:
        """What the number and its interval are about, in one line."""
        return (self.headline if self.subset is None else self.subset).method

    @property
    def exit_code(self) -> int:
        """0, or 3 where unscored trials leave the number open."""
        return 0 if self.complete else EXIT_INCOMPLETE

    def to_dict(self) -> dict[str, Any]:
        """The JSON value of scorecard.json."""
        return self.model_dump(mode="json", by_alias=True)


def write_scorecard(run: Path, scorecard: Scorecard) -> Path:
    """Write ``<run>/scorecard.json``, whole or not at all, and return its path."""
    path = run / SCORECARD
    write_atomic(path, pretty_json(scorecard.to_dict()))
    return path


def load_scorecard(run: Path) -> Scorecard:
    """Read ``<run>/scorecard.json``, or a scorecard's file itself.

    Raises
    ------
    RunError
        The run has not been scored.
    RunFormatError
        The scorecard is damaged, or another version wrote it.
    """
    path = run if run.is_file() else run / SCORECARD
    if not path.exists():
        raise RunError(f"{run}: this run has no {SCORECARD}. Score it first: diagnose-bench score {run}")
    again = f"Score the run again: diagnose-bench score {run}"
    try:
        value = read_json(path, "scorecard")
    except DiagnoseBenchError as error:
        raise RunFormatError(f"{error} {again}") from error
    found = value.get("format_version") if isinstance(value, dict) else None
    if found != SCORECARD_FORMAT_VERSION:
        raise RunFormatError(
            f"{path}: format_version is {json.dumps(found)}; this diagnose-bench ({__version__}) reads "
            f"{SCORECARD_FORMAT_VERSION}. {again}"
        )
    try:
        return Scorecard.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise RunFormatError(f"{path}: $.{place}: {fault['msg']}. {again}") from error
