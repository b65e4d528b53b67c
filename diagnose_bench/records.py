"""What a run leaves on disk: run.json, trial.json, commands.jsonl as models.

Shared by the run side, which writes them, and the score side, which reads them. Nothing but validation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from diagnose_bench.outcome import Limit, Outcome

RUN_FORMAT_VERSION = 1


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentInfo(_Record):
    """Who was measured."""

    name: str
    version: str | None = None
    model: str | None = None
    config_digest: str | None = None
    config: dict[str, Any] | None = None
    """Settings behind the digest that a person can read; never a key."""


class SuiteInfo(_Record):
    """What it was measured on."""

    name: str
    version: str
    digest: str
    path: str


class Policy(_Record):
    """Settings that can change a score; None where they do not apply (imports)."""

    repeats: int
    max_turns: int | None
    time_limit_s: float | None
    forced_final: bool = False
    repair: bool = True
    task_digest: str | None


class SandboxInfo(_Record):
    """Isolation of the shell and of the agent's own process.

    ``backend`` is None where no shell exists (imports, replays); ``agent_process`` is ``builtin`` for
    agents of ours and loops of ours around a model, which run in the harness, ``confined`` (by bubblewrap),
    ``landlock`` (confined by it; names of hidden files can be seen), ``unconfined``, ``hosted`` (runs
    elsewhere and never sees a file), ``person`` (sits at a machine that may hold truths), or None where no
    agent process exists.
    """

    backend: str | None
    limits: dict[str, Any] = Field(default_factory=dict)
    agent_process: str | None = None
    null_snapshot: bool = False
    """True where agents got an empty snapshot: a pass of such a run has used something else."""
    toolbox: str | None = None
    """Digest of the toolbox that the shell had."""
    detection: tuple[str, ...] = ()
    """Which layers watched the boundary during the run."""


class PlannedTrial(_Record):
    """One cell of the plan."""

    scenario_id: str
    repeat: int


class RunManifest(_Record):
    """run.json."""

    format_version: int = RUN_FORMAT_VERSION
    run_id: str
    agent: AgentInfo
    suite: SuiteInfo
    policy: Policy
    sandbox: SandboxInfo
    plan: tuple[PlannedTrial, ...]
    subset: bool = False
    """True when ``--scenario`` narrowed the plan: such a run has no suite headline."""
    imported: bool = False
    """True for recorded answers: an absent trial is ``no_diagnosis``, not ``pending``."""
    host: dict[str, Any] = Field(default_factory=dict)
    jobs: int | None = None
    """Trials that went on at the same time. Not signed: each has its own sandbox, clock and limits, but on a
    busy machine their seconds grow. None where no trial ran here."""
    retries: int | None = None
    """How often a trial that failed through our fault was run again at once."""
    version: str
    """diagnose_bench version that wrote the run."""
    started_at: str


class Usage(_Record):
    """Tokens and cost, where the agent reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    """With the reasoning tokens among them."""
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the input tokens, those that the model's server had kept from before."""
    n_model_calls: int | None = None
    n_model_retries: int | None = None
    cost_usd: float | None = None
    reported_by_agent: bool = False
    """True where a program said so itself; False where we made the model calls and counted."""
    problem: str = ""
    """Why what a program reported is left out."""


Count = Annotated[int, Field(strict=True, ge=0, le=10**12)]


class ReportedUsage(_Record):
    """What a program may write into the file that DIAGNOSE_BENCH_USAGE names, once its trial is done."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    input_tokens: Count | None = None
    """Tokens that its models were given, with the cached ones among them."""
    output_tokens: Count | None = None
    """Tokens that its models wrote, with the reasoning tokens among them."""
    reasoning_tokens: Count | None = None
    """Of the output tokens, those spent on reasoning."""
    cached_tokens: Count | None = None
    """Of the input tokens, those that the model's server had kept from before."""
    n_model_calls: Count | None = None
    """Calls of a model."""
    cost_usd: Annotated[float, Field(strict=True, ge=0, le=10**9, allow_inf_nan=False)] | None = None
    """What all of it cost, in US dollars."""


class EventLayer(StrEnum):
    """Who saw a boundary event: during the run, but ``truth``, which reads the records."""

    DECOY = "decoy"
    AUDIT = "audit"
    TEXT = "text"
    LIMIT = "limit"
    TRUTH = "truth"


class EventKind(StrEnum):
    """What a boundary event is about."""

    PATH = "path"
    WRITE = "write"
    NETWORK = "network"
    SYSCALL = "syscall"
    DECOY = "decoy"
    SECRET = "secret"
    LIMIT = "limit"


class Confidence(StrEnum):
    """How surely a boundary event is more than clumsiness; only ``high`` makes a pass unsafe."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class BoundaryEvent(_Record):
    """One thing seen at the sandbox's boundary."""

    time: str
    command: int | None
    """Number of the command; None for the answer, and for what belongs to no command."""
    layer: EventLayer
    kind: EventKind
    detail: str
    confidence: Confidence


class TrialRecord(_Record):
    """trial.json, written last: a trial folder without it is unfinished."""

    format_version: int = RUN_FORMAT_VERSION
    scenario_id: str
    repeat: int
    outcome: Outcome
    reason: str = ""
    """One sentence for a person: why the outcome is what it is."""
    limit_hit: Limit | None = None
    repairs: tuple[str, ...] = ()
    n_turns: int = 0
    n_commands: int = 0
    observed: bool = False
    """Whether a command record exists (False for imports and replays)."""
    started_at: str = ""
    seconds: float = 0.0
    usage: Usage = Usage()
    boundary_events: tuple[BoundaryEvent, ...] = ()
    n_submissions: int = 0
    """How often the agent handed something in; ``submissions.jsonl`` has each."""
    counted_submission: int | None = None
    """Number of the submission that counts; None where none was accepted."""
    n_redactions: int = 0
    """Places in the trial's files where a secret was replaced."""


class SubmissionRecord(_Record):
    """One line of submissions.jsonl: what was handed in, whether it was accepted or not."""

    n: int
    at: str
    seconds: float
    """Of the trial's clock, at its arrival."""
    accepted: bool
    message: str
    """What the agent was answered."""
    n_bytes: int
    sha256: str
    """Of all its bytes."""
    file: str | None
    """Where its bytes are kept, at most the first 1 MiB; None for those that came after many others."""


class CommandRecord(_Record):
    """One line of commands.jsonl, recorded by the harness and not by the agent."""

    n: int
    started_at: str
    seconds: float
    command: str
    exit_code: int
    n_bytes: int
    output: str
    """What the agent was shown (head and tail where cut), decoded with replacement."""
    sha256: str
    """Of the whole output, also of what was cut."""
    limit_hit: str | None = None
    answered: bool = True
    """False where the trial was over before the command ended, so that the agent never got its output."""
    n_redactions: int = 0
    """Places in the command's own text where a secret was replaced: what it wrote there is unknown."""
