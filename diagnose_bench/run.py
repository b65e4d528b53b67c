"""A run: scenarios x repeats of one agent on one suite, planned, checked, run one after another, resumed.

Opens no truth: it knows the truths' folders only as paths to hide. What a trial is belongs to `trial`, what
is on disk to `store`.
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from diagnose_bench import __version__
from diagnose_bench.agents.base import Agent, CheckedAgent, ClosedAgent
from diagnose_bench.agents.command import CommandAgent
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.errors import IncompleteRunError, UsageError
from diagnose_bench.layout import truth_folder_of
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial, Policy, RunManifest, SandboxInfo, SuiteInfo, TrialRecord
from diagnose_bench.run_shells import RunShells, hidden_folders, host_facts, require_visible
from diagnose_bench.sandbox.agent_process import agent_hidden_paths
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.opening import BACKENDS, is_known
from diagnose_bench.snapshot import SnapshotManifest
from diagnose_bench.store import RunStore, check_free
from diagnose_bench.suite import Scenario, Suite, verify_scenario
from diagnose_bench.task import render_task, task_digest
from diagnose_bench.trial import TrialSetting, run_trial
from diagnose_bench.trial_session import TrialLimits, now

BASELINES = ("alerting", "loudest", "upstream", "recent-change")
"""The agents that are run beside any other, each once a scenario."""
_MOST_REPEATS = 10_000
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_FIRST_TRIALS = 3
"""So many trials in which an agent only failed are a sign that it cannot start."""


@dataclass(frozen=True)
class RunOptions:
    """What can be chosen about a run; checked at once.

    Attributes
    ----------
    repeats, max_turns, time_limit_s, forced_final, repair
        The policy: part of the signature.
    scenarios : tuple of str
        Ids or numbers to narrow the plan to; such a run has no suite headline.
    sandbox : str
        One of ``sandbox.BACKENDS``.
    limits : Limits
        Of every command in the sandbox.
    resume : bool
        Go on with the run that is there.
    dry_run : bool
        Check and plan, run nothing, write nothing.
    baselines : bool
        Run the baseline agents beside an agent that is none itself.
    hide : tuple of Path
        More folders that neither the agent's own process nor its shell may see, such as other truths.
    audit : bool
        Report system calls that try to leave the sandbox.
    toolbox : Path or None
        A folder of data tools for the shell; part of the signature.
    null_snapshot : bool
        Give the task with an empty snapshot; part of the signature. No baselines run beside.
    """

    repeats: int = 3
    max_turns: int = 100
    time_limit_s: float = 1800.0
    forced_final: bool = False
    repair: bool = True
    scenarios: tuple[str, ...] = ()
    sandbox: str = "auto"
    limits: Limits = field(default_factory=Limits)
    resume: bool = False
    dry_run: bool = False
    baselines: bool = True
    hide: tuple[Path, ...] = ()
    audit: bool = False
    toolbox: Path | None = None
    null_snapshot: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= _MOST_REPEATS:
            raise UsageError(f"--repeats {self.repeats}: give a number from 1 to {_MOST_REPEATS}.")
        if self.max_turns < 1:
            raise UsageError(f"--max-turns {self.max_turns}: give a number from 1.")
        if not (math.isfinite(self.time_limit_s) and self.time_limit_s > 0):
            raise UsageError(f"--time-limit {self.time_limit_s}: give a number of seconds above 0.")
        if not is_known(self.sandbox):
            raise UsageError(f"--sandbox {self.sandbox}: unknown. Known are {', '.join(BACKENDS)}.")
        for path in self.hide:
            if not path.exists():
                raise UsageError(f"--hide {path}: does not exist. What is to be hidden must be there.")


class Progress(Protocol):
    """Who is told how a run goes."""

    def begin(self, label: str, n_trials: int, n_done: int) -> None:
        """A run, or a baseline beside it, starts; so many trials are finished already."""

    def trial_started(self, trial: PlannedTrial) -> None:
        """A trial starts."""

    def trial_ended(self, record: TrialRecord) -> None:
        """A trial has ended and is on disk."""

    def note(self, message: str) -> None:
        """Something a person should know."""


class _Silent:
    def begin(self, label: str, n_trials: int, n_done: int) -> None: ...

    def trial_started(self, trial: PlannedTrial) -> None: ...

    def trial_ended(self, record: TrialRecord) -> None: ...

    def note(self, message: str) -> None: ...


SILENT: Progress = _Silent()


@dataclass(frozen=True)
class RunSummary:
    """What a run left, or with ``dry_run`` would do.

    Attributes
    ----------
    path : Path
        The run's folder.
    manifest : RunManifest
        Its run.json.
    outcomes : Counter
        Of the trials that are on disk.
    n_resumed : int
        Trials that were finished before.
    baselines : tuple of RunSummary
        The runs beside it.
    """

    path: Path
    manifest: RunManifest
    outcomes: Counter[str] = field(default_factory=Counter)
    n_resumed: int = 0
    baselines: tuple[RunSummary, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every planned trial has a score to come."""
        n_scored = sum(n for outcome, n in self.outcomes.items() if Outcome(outcome).is_scored)
        return n_scored == len(self.manifest.plan)


def default_out(suite: Suite, agent: str, parent: Path = Path("runs")) -> Path:
    """A new run's folder when none is given: ``runs/<suite>-<agent>-<time>``."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", agent).strip("-.")[:40] or "agent"
    return parent / f"{suite.name}-{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def run_suite(
    suite: Suite, agent: Agent, options: RunOptions, out: Path, progress: Progress = SILENT
) -> RunSummary:
    """Run an agent on a suite.

    Parameters
    ----------
    suite : Suite
        What to diagnose.
    agent : Agent
        Who diagnoses.
    options : RunOptions
        How.
    out : Path
        The run's folder: new, or with ``options.resume`` the one to go on with.
    progress : Progress
        Told how it goes.

    Raises
    ------
    SuiteError
        The suite has no snapshots, or they differ from their digests; nothing was started.
    SandboxUnavailableError
        No isolation on this machine; nothing was started.
    RunError
        The folder is unusable, differs from what is asked for, or cannot be written any more.
    IncompleteRunError
        Interrupted. Finished trials are kept.
    """
    scenarios = _chosen(suite, options)
    plan = tuple(
        PlannedTrial(scenario_id=scenario.id, repeat=repeat)
        for scenario in scenarios
        for repeat in range(1, options.repeats + 1)
    )
    if not options.resume:
        check_free(out)
    has_shell = agent.kind != "replay"
    if not has_shell:
        _refuse_shell_options(options)
    windows = {scenario.id: verify_scenario(scenario, progress.note) for scenario in scenarios if has_shell}
    with ExitStack() as stack:
        stack.enter_context(_ending_as_interrupt())
        if isinstance(agent, ClosedAgent):
            stack.callback(agent.close)
        if isinstance(agent, CheckedAgent):
            agent.check()
        shells, hidden = None, hidden_folders(suite.path, out, options.hide)
        if has_shell:
            shells = stack.enter_context(
                RunShells(
                    options.sandbox,
                    options.limits,
                    hidden,
                    audit=options.audit,
                    toolbox=options.toolbox,
                    null_snapshot=options.null_snapshot,
                )
            )
            argv = agent.argv if isinstance(agent, CommandAgent) else ()
            truths = [truth_folder_of(suite.path)]
            hidden = (*hidden, shells.folder, *agent_hidden_paths(suite.path, truths, out, argv))
            require_visible(argv, hidden)
            for message in shells.check(scenarios[0]):
                progress.note(message)
        manifest = _manifest(suite, agent, options, plan, shells, hidden)
        if options.dry_run:
            return RunSummary(out, manifest)
        with RunStore.resume(out, manifest) if options.resume else RunStore.create(out, manifest) as store:
            work = _Work(scenarios, windows, options, shells, hidden)
            with _interruptible(store):
                summary = _run_trials(store, agent, work, agent.info.name, progress)
                beside_it = options.baselines and not options.null_snapshot
                if shells is not None and agent.kind != "builtin" and beside_it:
                    beside = _run_baselines(store, suite, work, progress)
                    summary = replace(summary, baselines=beside)
            return summary


def _refuse_shell_options(options: RunOptions) -> None:
    asked = {
        "--audit": options.audit,
        "--toolbox": options.toolbox is not None,
        "--null-snapshot": options.null_snapshot,
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise UsageError(f"{name}: a replay has no shell, so this option means nothing. Leave it out.")


@dataclass(frozen=True)
class _Work:
    scenarios: Sequence[Scenario]
    windows: dict[str, SnapshotManifest]
    options: RunOptions
    shells: RunShells | None
    hidden: tuple[Path, ...]


def _chosen(suite: Suite, options: RunOptions) -> tuple[Scenario, ...]:
    if not options.scenarios:
        return suite.scenarios
    wanted = {suite.scenario(name).id for name in options.scenarios}
    return tuple(scenario for scenario in suite.scenarios if scenario.id in wanted)


def _manifest(
    suite: Suite,
    agent: Agent,
    options: RunOptions,
    plan: tuple[PlannedTrial, ...],
    shells: RunShells | None,
    hidden: tuple[Path, ...],
) -> RunManifest:
    if shells is None:
        sandbox, host = SandboxInfo(backend=None), host_facts()
    else:
        host = shells.host()
        sandbox = SandboxInfo(
            backend=shells.backend,
            limits=options.limits.as_dict(),
            agent_process=_isolation(agent, hidden),
            null_snapshot=options.null_snapshot,
            toolbox=None if shells.toolbox is None else shells.toolbox.digest,
            detection=tuple(layer.value for layer in shells.layers),
        )
    observed = shells is not None
    return RunManifest(
        run_id=secrets.token_hex(8),
        agent=agent.info,
        suite=SuiteInfo(name=suite.name, version=suite.version, digest=suite.digest, path=str(suite.path)),
        policy=Policy(
            repeats=options.repeats,
            max_turns=options.max_turns if observed else None,
            time_limit_s=options.time_limit_s if observed else None,
            forced_final=options.forced_final and observed,
            repair=options.repair,
            task_digest=task_digest() if observed else None,
        ),
        sandbox=sandbox,
        plan=plan,
        subset=len({trial.scenario_id for trial in plan}) < len(suite.scenarios),
        host=host,
        version=__version__,
        started_at=now(),
    )


def _isolation(agent: Agent, hidden: tuple[Path, ...]) -> str:
    if not isinstance(agent, CommandAgent):
        return "hosted" if agent.kind == "hosted" else "builtin"
    if not agent.try_to_confine(hidden):
        return "unconfined"
    return "landlock" if agent.cover == "landlock" else "confined"


def _run_trials(store: RunStore, agent: Agent, work: _Work, label: str, progress: Progress) -> RunSummary:
    outcomes: Counter[str] = Counter()
    waiting: dict[str, list[PlannedTrial]] = {}
    for trial, record in store.trials():
        if record is not None and record.outcome.is_scored:
            outcomes[record.outcome.value] += 1
        else:
            waiting.setdefault(trial.scenario_id, []).append(trial)
    n_resumed = outcomes.total()
    progress.begin(label, len(store.manifest.plan), n_resumed)
    first: list[TrialRecord] = []
    for scenario in work.scenarios:
        if scenario.id not in waiting:
            continue
        with _setting(scenario, work) as setting:
            for trial in waiting[scenario.id]:
                progress.trial_started(trial)
                record = run_trial(trial, agent, setting, store)
                outcomes[record.outcome.value] += 1
                progress.trial_ended(record)
                if len(first) < _FIRST_TRIALS:
                    first.append(record)
                    if len(first) == _FIRST_TRIALS and all(map(_did_nothing, first)):
                        progress.note(_never_starts(label, record))
                if record.outcome is Outcome.HARNESS_ERROR:
                    progress.note(
                        f"{trial.scenario_id}, repeat {trial.repeat}: harness_error: {record.reason}"
                    )
    return RunSummary(store.path, store.manifest, outcomes, n_resumed)


def _did_nothing(record: TrialRecord) -> bool:
    return record.outcome is Outcome.AGENT_ERROR and not record.n_commands


def _never_starts(label: str, record: TrialRecord) -> str:
    return (
        f"{label}: the first {_FIRST_TRIALS} trials all ended in agent_error without a single command, as if "
        f"the agent cannot start. The last time: {record.reason} The run goes on; interrupt it to mend that."
    )


@contextmanager
def _setting(scenario: Scenario, work: _Work) -> Iterator[TrialSetting]:
    options = work.options
    limits = TrialLimits(options.max_turns, options.time_limit_s, options.forced_final)
    if work.shells is None:
        yield TrialSetting("", limits, options.repair, open_sandbox=None)
        return
    shells, window = work.shells, work.windows[scenario.id].window
    task = render_task(
        detected_at=str(window.detected_at),
        window_start=str(window.start),
        window_end=str(window.end),
        max_turns=options.max_turns,
        time_limit_s=options.time_limit_s,
        command_s=options.limits.command_s,
        max_command_s=options.limits.max_command_s,
    )
    with shells.staged(scenario) as copy:
        yield TrialSetting(task, limits, options.repair, lambda: shells.opened(copy), work.hidden)


def _run_baselines(store: RunStore, suite: Suite, work: _Work, progress: Progress) -> tuple[RunSummary, ...]:
    summaries = []
    options = replace(work.options, repeats=1)
    plan = tuple(PlannedTrial(scenario_id=scenario.id, repeat=1) for scenario in work.scenarios)
    for name in BASELINES:
        agent = make_agent(f"baseline:{name}")
        out = store.path / "baselines" / name
        manifest = _manifest(suite, agent, options, plan, work.shells, work.hidden)
        there = (out / "run.json").is_file()
        with RunStore.resume(out, manifest) if there else RunStore.create(out, manifest) as beside:
            summaries.append(
                _run_trials(beside, agent, replace(work, options=options), agent.info.name, progress)
            )
    return tuple(summaries)


@contextmanager
def _interruptible(store: RunStore) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a lost terminal end the current trial, which is discarded; finished ones stay."""
    try:
        yield
    except KeyboardInterrupt as error:
        records = [record for _, record in store.trials() if record is not None]
        n_finished = sum(record.outcome.is_scored for record in records)
        raise IncompleteRunError(
            f"{store.path}: interrupted; {n_finished} of {len(store.manifest.plan)} trials are finished and "
            f"kept. Go on with the same command, --out {shlex.quote(str(store.path))} and --resume."
        ) from error


@contextmanager
def _ending_as_interrupt() -> Iterator[None]:
    """SIGTERM and the end of the terminal clean up as Ctrl-C does, from the first copy of a snapshot on."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
