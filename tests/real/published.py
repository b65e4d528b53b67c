"""What published numbers are about: the 40 public scenarios, their truths, and the commands that score."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PATCHES = HERE / "itbench_patches"

# The public scenarios of ITBench-AA, by their ITBench numbers: the 35 of ITBench-Lite and five more.
LITE = (1, 2, *range(4, 10), *range(11, 26), 29, 31, 33, 34, 35, 38, 80, 81, 83, 91, 102, 105)
PUBLIC = tuple(sorted((*LITE, 3, 26, 27, 37, 40)))
# Those whose only root cause is the ConfigMap of the feature flags.
FLAG_SCENARIOS = (2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15)
CONSTANT = "otel-demo/ConfigMap/flagd-config"
FILTERED_KINDS = ("Pod", "Service", "Deployment", "ReplicaSet", "ConfigMap")


def scenario_id(number: int) -> str:
    return f"scenario-{number:03d}"


def diagnose_bench(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does; anything but the expected exit code fails with what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "diagnose_bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"exit {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
    return done


def published_truths(shared_data: Path) -> dict[int, dict[str, Any]]:
    """The v1 truths of the 40 as plain documents: 39 from the evaluations list, 40 from its own file."""
    folder = shared_data / "itbench" / "ground_truth"
    entries = json.loads((folder / "ground_truths_evaluations.json").read_text())
    truths = {int(entry["id"]): entry for entry in entries if int(entry["id"]) in PUBLIC}
    last = yaml.safe_load((folder / "itbench_main" / "scenario_40" / "groundtruth_v1.yaml").read_text())
    return truths | {40: last["spec"]}


def write_dataset(shared_data: Path, folder: Path, *, patched: bool) -> Path:
    """Write the 40 truths as ITBench-AA publishes them: ``data.jsonl``, a truth's YAML in each row."""
    folder.mkdir(parents=True)
    source = shared_data / "itbench" / "ground_truth" / "itbench_main" / "scenario_40" / "groundtruth_v1.yaml"
    texts = {number: json.dumps(truth) for number, truth in published_truths(shared_data).items()}
    texts[40] = source.read_text()
    rows = [
        {
            "id_aa": f"it-bench-sre-public-scenario-{number}",
            "scenario_id": f"Scenario-{number}",
            "category": "sre",
            "source_split": "public",
            "ground_truth_yaml": texts[number],
        }
        for number in PUBLIC
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if patched:
        shutil.copyfile(PATCHES / "ground_truths_evaluations.yaml", folder / "patches.yaml")
    return folder


def write_answers(path: Path, answers: Iterable[tuple[int, int, Sequence[str]]]) -> Path:
    """Write recorded answers: (scenario's number, repeat, entities)."""
    rows = [
        {"scenario_id": scenario_id(number), "repeat": repeat, "entities": list(entities)}
        for number, repeat, entities in answers
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored(run: Path, *options: object, code: int = 0) -> dict[str, Any]:
    """Score a run on the command line: the scorecard on stdout is the one in the file."""
    done = diagnose_bench("score", run, "--format", "json", *options, code=code)
    scorecard: dict[str, Any] = json.loads(done.stdout)
    assert json.loads((run / "scorecard.json").read_text()) == scorecard
    return scorecard


def trial_values(scorecard: dict[str, Any], name: str) -> dict[tuple[str, int], Any]:
    """One value of every trial, by scenario and repeat."""
    return {
        (scenario["scenario_id"], trial["repeat"]): trial[name]
        for scenario in scorecard["scenarios"]
        for trial in scenario["trials"]
    }


def recorded_pods(shared_data: Path) -> dict[str, list[str]]:
    """The shop's 21 workloads in Scenario-2 with the names of their Pods, from the snapshot's listing."""
    listing = (shared_data / "itbench" / "snapshots" / "Scenario-2" / "LISTING.txt").read_text()
    pods: dict[str, list[str]] = {}
    for pod in re.findall(r"pod_(\S+)_raw\.tsv", listing):
        pods.setdefault(re.sub(r"-[0-9a-f]{8,10}-[a-z0-9]{5}$", "", pod), []).append(pod)
    return pods


def scenario_two(shared_data: Path, folder: Path) -> Path:
    """Copy the partial snapshot of Scenario-2, its reconstructed objects under their real name, writable."""
    copy = folder / "Scenario-2"
    source = shared_data / "itbench" / "snapshots" / "Scenario-2"
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (copy / "k8s_objects_raw.reconstructed.tsv").rename(copy / "k8s_objects_raw.tsv")
    return copy


def write_listed_objects(shared_data: Path, folder: Path) -> Path:
    """Write a snapshot's objects: the 21 workloads and their Pods, all that the listing tells of them."""
    folder.mkdir()
    lines = []
    for workload, pods in recorded_pods(shared_data).items():
        for api_version, kind, name in [
            ("apps/v1", "Deployment", workload),
            *(("v1", "Pod", pod) for pod in pods),
        ]:
            metadata = {"namespace": "otel-demo", "name": name}
            lines.append(json.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata}) + "\n")
    (folder / "objects.jsonl").write_text("".join(lines))
    return folder


def imported(source: Path, suite: Path, run: Path) -> Path:
    diagnose_bench("import", "diagnoses", source, "--agent", "recorded", "--suite", suite, "--out", run)
    return run
