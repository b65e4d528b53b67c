"""What works on this machine: ways of isolating, the shell's tools, what to type where one is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox import agent_process
from diagnose_bench.sandbox.attack_ground import AttackGround
from diagnose_bench.sandbox.attacks import ATTACK_LIMITS, AttackResult, attempt_all
from diagnose_bench.sandbox.cgroup import delegated_folder
from diagnose_bench.sandbox.container import ENGINES, engine_problem
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.opening import open_sandbox
from diagnose_bench.sandbox.self_check import self_check
from diagnose_bench.sandbox.store import SnapshotStore, private_folder
from diagnose_bench.sandbox.tools import ToolReport, probe_tools
from diagnose_bench.sandbox.user import dropped_id

_ISOLATING = ("bwrap", "landlock")


@dataclass(frozen=True, slots=True)
class BackendReport:
    """One way of isolating.

    Attributes
    ----------
    name : str
        ``bwrap``, ``landlock``, ``docker`` and ``podman`` (the shell), ``agent process`` (the cover around an
        agent's own process), ``cgroup v2`` or ``none``.
    works : bool
        Whether it does, here and now.
    detail : str
        What was checked, or why it does not work and what to do.
    """

    name: str
    works: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Examination:
    """All of it.

    Attributes
    ----------
    backends : tuple of BackendReport
        Each tried.
    tools : ToolReport or None
        What the shell has; None where there is no shell, or an essential tool is missing.
    tools_problem : str
        Why there are no tools.
    attacks : mapping
        Backend to how each attack went; empty unless they were asked for.
    """

    backends: tuple[BackendReport, ...]
    tools: ToolReport | None
    tools_problem: str = ""
    attacks: Mapping[str, Sequence[AttackResult]] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether agents can be measured here with isolation."""
        usable = any(backend.works for backend in self.backends if backend.name in _ISOLATING)
        return usable and self.tools is not None

    @property
    def open_doors(self) -> list[str]:
        """Attacks that got through."""
        return [
            f"{name}: {result.attack.door}: {result.attack.name}: {result.detail}"
            for name, results in self.attacks.items()
            for result in results
            if result.is_open
        ]

    def as_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "works": self.works,
            "backends": [dataclasses.asdict(backend) for backend in self.backends],
            "tools": self.tools and self.tools.versions,
            "tools_digest": self.tools and self.tools.digest,
            "tools_problem": self.tools_problem,
            "warnings": list(self.tools.warnings) if self.tools else [],
            "attacks": {name: len(results) for name, results in self.attacks.items()},
            "open_doors": self.open_doors,
        }

    def text(self) -> str:
        """For a person."""
        lines = [
            f"{backend.name:<14} {'works' if backend.works else 'does not work'}: {backend.detail}"
            for backend in self.backends
        ]
        for name, results in self.attacks.items():
            n_open = sum(result.is_open for result in results)
            lines.append(f"{'attacks':<14} {name}: {len(results) - n_open} of {len(results)} doors held")
        lines += [f"  OPEN {door}" for door in self.open_doors]
        if self.tools is None:
            return "\n".join([*lines, f"{'tools':<14} {self.tools_problem}"])
        lines += [f"  {name:<12} {version or 'missing'}" for name, version in self.tools.versions.items()]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.tools.warnings)])


def examine(*, deep: bool = False) -> Examination:
    """Try every backend, and ask the one that a run would take for its tools.

    Parameters
    ----------
    deep : bool
        Try every door of every backend that works, too: about half a minute.
    """
    backends = tuple(sandbox_report())
    usable = [backend.name for backend in backends if backend.works and backend.name in _ISOLATING]
    if not usable:
        return Examination(backends, None, "cannot be asked for without a sandbox.")
    attacks = {name: try_doors(name) for name in usable} if deep else {}
    snapshot = private_folder(uid=dropped_id())
    try:
        with open_sandbox(usable[0], snapshot) as sandbox:
            return Examination(backends, probe_tools(sandbox), attacks=attacks)
    except SandboxError as error:
        return Examination(backends, None, str(error), attacks)
    finally:
        remove_claimed(snapshot)


def sandbox_report() -> list[BackendReport]:
    """Try every backend."""
    shells = [_shell_report(name) for name in _ISOLATING]
    engines = [
        BackendReport(engine, problem is None, problem or f"answers: --sandbox {engine}:IMAGE")
        for engine in ENGINES
        for problem in (engine_problem(engine),)
    ]
    cover = agent_process.confine(["true"], hidden=[])
    if cover is None:
        detail = f"{agent_process.why_not()} (on record as `unconfined`, and no pass is safe)"
    else:
        detail = f"covered by {cover.layer}; an agent keeps network, home and PATH"
    return [
        *shells,
        *engines,
        BackendReport("agent process", cover is not None, detail),
        BackendReport("cgroup v2", *_cgroup()),
        BackendReport("none", True, "no isolation: only as --sandbox none, and no pass is safe"),
    ]


def _shell_report(name: str) -> BackendReport:
    try:
        n_checks = len(self_check(name))
    except SandboxError as error:
        return BackendReport(name, False, str(error))
    return BackendReport(name, True, f"{n_checks} checks passed in a real sandbox{_form(name)}")


def _form(name: str) -> str:
    if name != "landlock":
        return ""
    snapshot = private_folder(uid=dropped_id())
    try:
        with open_sandbox(name, snapshot) as sandbox:
            if sandbox.backend == name:
                return ", with a file tree of its own (/snapshot, /scratch)"
            return f"; as {sandbox.backend}: user namespaces are forbidden, the snapshot is $SNAPSHOT"
    finally:
        remove_claimed(snapshot)


def _cgroup() -> tuple[bool, str]:
    folder = delegated_folder()
    if folder is not None:
        return True, f"the kernel keeps memory and number of processes of each command, in groups in {folder}"
    return False, (
        "memory and pids are not delegated to this user: a watcher adds up the memory of a command's "
        'processes (under systemd: "systemd-run --user --scope diagnose-bench ...")'
    )


def try_doors(backend: str) -> list[AttackResult]:
    """Run the whole list of attacks in one sandbox."""
    uid = dropped_id()
    snapshot = private_folder(uid=uid)
    try:
        snapshot.chmod(0o755)
        (snapshot / "events.jsonl").write_text('{"reason": "evidence"}\n')
        with (
            AttackGround() as ground,
            SnapshotStore(uid=uid) as store,
            open_sandbox(backend, store.stage(snapshot), limits=ATTACK_LIMITS) as sandbox,
        ):
            return attempt_all(sandbox, ground)
    finally:
        remove_claimed(snapshot)
