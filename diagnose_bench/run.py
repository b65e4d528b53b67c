"""A run: scenarios x repeats of one agent on one suite, planned, checked, run, interrupted, resumed.

Opens no truth: it knows the truths' folders only as paths to hide. What a trial is belongs to `trial`, what
is on disk to `store`.
"""

from __future__ import annotations

import re
import shlex
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diagnose_bench.agents.base import Agent, CheckedAgent, ProgramAgent
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.errors import IncompleteRunError, UsageError
from diagnose_bench.layout import truth_folder_of
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import PlannedTrial, RunManifest
from diagnose_bench.run_manifest import run_manifest
from diagnose_bench.run_options import SILENT, Progress, RunOptions
from diagnose_bench.run_shells import RunShells, hidden_folders, require_visible
from diagnose_bench.run_trials import Work, run_trials
from diagnose_bench.sandbox.agent_process import agent_hidden_paths
from diagnose_bench.store import RunStore, check_free
from diagnose_bench.suite import Scenario, Suite, verify_scenario

__all__ = [
    "BASELINES",
    "SILENT",
    "Progress",
    "RunOptions",
    "RunSummary",
    "default_out",
    "run_suite",
]

BASELINES = ("alerting", "loudest", "upstream", "recent-change")
"""The agents that are run beside any other, each once a scenario."""
_ENDING = (signal.SIGTERM, signal.SIGHUP)


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
    UsageError
        The agent cannot work as it was named (a wrong key, an unknown model); nothing was started.
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
    if agent.kind == "person" and options.jobs > 1:
        raise UsageError(f"--jobs {options.jobs}: a person works on one trial at a time. Leave it out.")
    if not has_shell:
        _refuse_shell_options(options)
    windows = {scenario.id: verify_scenario(scenario, progress.note) for scenario in scenarios if has_shell}
    with ExitStack() as stack:
        stack.enter_context(_ending_as_interrupt())
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
            argv = agent.argv if isinstance(agent, ProgramAgent) else ()
            truths = [truth_folder_of(suite.path)]
            hidden = (*hidden, shells.folder, *agent_hidden_paths(suite.path, truths, out, argv))
            require_visible(argv, hidden)
            for message in shells.check(scenarios[0]):
                progress.note(message)
        if isinstance(agent, CheckedAgent):
            agent.check()
        manifest = run_manifest(suite, agent, options, plan, shells, hidden)
        if options.dry_run:
            return RunSummary(out, manifest)
        with RunStore.resume(out, manifest) if options.resume else RunStore.create(out, manifest) as store:
            work = Work(scenarios, windows, options, shells, hidden)
            with _interruptible(store):
                summary = _run_trials(store, agent, work, progress)
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


def _chosen(suite: Suite, options: RunOptions) -> tuple[Scenario, ...]:
    if not options.scenarios:
        return suite.scenarios
    wanted = {suite.scenario(name).id for name in options.scenarios}
    return tuple(scenario for scenario in suite.scenarios if scenario.id in wanted)


def _run_trials(store: RunStore, agent: Agent, work: Work, progress: Progress) -> RunSummary:
    outcomes, n_resumed = run_trials(store, agent, work, agent.info.name, progress)
    return RunSummary(store.path, store.manifest, outcomes, n_resumed)


def _run_baselines(store: RunStore, suite: Suite, work: Work, progress: Progress) -> tuple[RunSummary, ...]:
    summaries = []
    options = replace(work.options, repeats=1)
    plan = tuple(PlannedTrial(scenario_id=scenario.id, repeat=1) for scenario in work.scenarios)
    for name in BASELINES:
        agent = make_agent(f"baseline:{name}")
        out = store.path / "baselines" / name
        manifest = run_manifest(suite, agent, options, plan, work.shells, work.hidden)
        there = (out / "run.json").is_file()
        with RunStore.resume(out, manifest) if there else RunStore.create(out, manifest) as beside:
            summaries.append(_run_trials(beside, agent, replace(work, options=options), progress))
    return tuple(summaries)


@contextmanager
def _interruptible(store: RunStore) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a lost terminal end the current trials, which are discarded; finished ones stay."""
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
