"""Small suites, truths and recorded runs on disk, for the tests of grading and reporting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from diagnose_bench.files import canonical_json, sha256_of_bytes
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import (
    AgentInfo,
    CommandRecord,
    PlannedTrial,
    Policy,
    RunManifest,
    SandboxInfo,
    SuiteInfo,
    TrialRecord,
)
from diagnose_bench.snapshot import Window, build_manifest, manifest_digest
from diagnose_bench.store import RunStore
from diagnose_bench.suite import load_suite

WORKLOADS = ("cart", "checkout", "frontend", "valkey")


def manifest_of(
    kind: str, name: str, namespace: str = "shop", owner: tuple[str, str] | None = None
) -> dict[str, Any]:
    """A Kubernetes object as `kubectl get -o json` would give it."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": "u", "controller": True}
        ]
    api = "apps/v1" if kind in ("Deployment", "ReplicaSet") else "v1"
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


def objects() -> list[dict[str, Any]]:
    """Four Deployments, each with a ReplicaSet and a Pod, and a Service of the same name."""
    found = []
    for name in WORKLOADS:
        replica_set, pod = f"{name}-5d8f7c9b6d", f"{name}-5d8f7c9b6d-x2v5z"
        found += [
            manifest_of("Deployment", name),
            manifest_of("ReplicaSet", replica_set, owner=("Deployment", name)),
            manifest_of("Pod", pod, owner=("ReplicaSet", replica_set)),
            manifest_of("Service", name),
        ]
    return found


def truth_of(scenario_id: str, roots: Sequence[str], victims: Sequence[str] = ()) -> dict[str, Any]:
    """A truth whose groups are Deployments of the namespace shop; the first root leads to every victim."""
    groups = [{"id": name, "entities": [f"shop/Deployment/{name}"], "root_cause": True} for name in roots]
    groups += [{"id": name, "entities": [f"shop/Deployment/{name}"]} for name in victims]
    return {
        "format_version": 1,
        "scenario_id": scenario_id,
        "title": f"The incident {scenario_id}",
        "groups": groups,
        "propagation": [{"source": roots[0], "target": name, "effect": "errors"} for name in victims],
        "no_fault": not roots,
    }


def write_suite(
    root: Path,
    truths: Mapping[str, Mapping[str, Any] | str],
    *,
    splits: Mapping[str, Sequence[str]] | None = None,
    pass_score: float = 1.0,
    with_snapshots: bool = True,
) -> Path:
    """Write …/snapshots/small and …/ground_truth/small; return the suite's folder."""
    suite, answers = root / "snapshots" / "small", root / "ground_truth" / "small"
    suite.mkdir(parents=True)
    answers.mkdir(parents=True)
    entries: list[dict[str, Any]] = []
    for scenario_id, truth in truths.items():
        text = truth if isinstance(truth, str) else yaml.safe_dump(dict(truth))
        (answers / f"{scenario_id}.yaml").write_text(text)
        digest = None
        if with_snapshots:
            folder = suite / scenario_id
            folder.mkdir()
            (folder / "objects.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects()))
            (folder / "alerts.jsonl").write_text("")
            window = Window(
                start="2025-01-01T00:00:00Z", detected_at="2025-01-01T00:30:00Z", end="2025-01-01T00:45:00Z"
            )
            manifest = build_manifest(folder, window)
            (folder / "snapshot.json").write_text(json.dumps(manifest.model_dump(mode="json")))
            digest = manifest_digest(manifest)
        entries.append({"id": scenario_id, "digest": digest})
    document = {
        "format_version": 1,
        "name": "small",
        "version": "1",
        "pass_score": pass_score,
        "scenarios": entries,
    }
    if splits is not None:
        document["splits"] = {name: list(ids) for name, ids in splits.items()}
    (suite / "suite.json").write_text(json.dumps(document))
    return suite


@dataclass(frozen=True)
class Trial:
    """What one trial of a sample run looks like on disk; ``entities`` None leaves no diagnosis."""

    entities: Sequence[str] | None = ()
    outcome: Outcome = Outcome.DIAGNOSED
    outputs: Sequence[str] | None = ("cart checkout frontend valkey",)
    """What its commands showed; None for a trial that nobody observed."""
    changes: Mapping[str, Any] = field(default_factory=dict)


def write_run(
    out: Path,
    suite: Path,
    trials: Mapping[tuple[str, int], Trial],
    *,
    repeats: int = 1,
    plan: Sequence[str] | None = None,
    agent: str = "sample",
    sandbox: SandboxInfo | None = None,
    **changes: Any,
) -> Path:
    """Write a run folder through the store; trials of the plan that are not given stay unwritten."""
    loaded = load_suite(str(suite))
    ids = list(plan) if plan is not None else [scenario.id for scenario in loaded.scenarios]
    manifest = RunManifest(
        run_id="run-1",
        agent=AgentInfo(name=agent),
        suite=SuiteInfo(name=loaded.name, version=loaded.version, digest=loaded.digest, path=str(suite)),
        policy=Policy(repeats=repeats, max_turns=100, time_limit_s=1800.0, task_digest="a" * 64),
        sandbox=sandbox or SandboxInfo(backend="bwrap", agent_process="confined"),
        plan=tuple(PlannedTrial(scenario_id=one, repeat=k) for one in ids for k in range(1, repeats + 1)),
        version="0.1.0",
        started_at="2025-01-01T00:00:00Z",
    ).model_copy(update={"subset": plan is not None, **changes})
    with RunStore.create(out, manifest) as store:
        for (scenario_id, repeat), trial in trials.items():
            _write_trial(store, PlannedTrial(scenario_id=scenario_id, repeat=repeat), trial)
    return out


def _write_trial(store: RunStore, planned: PlannedTrial, trial: Trial) -> None:
    store.begin_trial(planned)
    log = store.command_log(planned)
    for number, output in enumerate(trial.outputs or (), start=1):
        log.append(
            CommandRecord(
                n=number,
                started_at="2025-01-01T00:00:00Z",
                seconds=0.5,
                command=f"cat file-{number}",
                exit_code=0,
                n_bytes=len(output.encode("utf-8", "surrogatepass")),
                output=output,
                sha256=sha256_of_bytes(output.encode("utf-8", "surrogatepass")),
            )
        )
    log.close()
    diagnosis = None
    if trial.entities is not None:
        diagnosis = canonical_json({"root_causes": [{"entity": entity} for entity in trial.entities]})
    record = TrialRecord(
        scenario_id=planned.scenario_id,
        repeat=planned.repeat,
        outcome=trial.outcome,
        n_turns=3,
        n_commands=len(trial.outputs or ()),
        observed=trial.outputs is not None,
        seconds=12.5,
    ).model_copy(update=dict(trial.changes))
    store.write_trial(record, diagnosis)
