"""run.json of a run that is about to begin: who, on what, under which policy and isolation. Writes none."""

from __future__ import annotations

import secrets
from pathlib import Path

from diagnose_bench import __version__
from diagnose_bench.agents.base import Agent, ProgramAgent
from diagnose_bench.records import PlannedTrial, Policy, RunManifest, SandboxInfo, SuiteInfo
from diagnose_bench.run_options import RunOptions
from diagnose_bench.run_shells import RunShells, host_facts
from diagnose_bench.suite import Suite
from diagnose_bench.task import task_digest
from diagnose_bench.trial_session import now


def run_manifest(
    suite: Suite,
    agent: Agent,
    options: RunOptions,
    plan: tuple[PlannedTrial, ...],
    shells: RunShells | None,
    hidden: tuple[Path, ...],
) -> RunManifest:
    """What the run's folder says of it before its first trial."""
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
        jobs=options.jobs,
        retries=options.retries,
        version=__version__,
        started_at=now(),
    )


def _isolation(agent: Agent, hidden: tuple[Path, ...]) -> str:
    if agent.kind in ("hosted", "person"):
        return agent.kind
    if not isinstance(agent, ProgramAgent):
        return "builtin"
    if not agent.try_to_confine(hidden):
        return "unconfined"
    return "landlock" if agent.cover == "landlock" else "confined"
