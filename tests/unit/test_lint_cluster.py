"""Each rule about what can exist together is broken on purpose, on a copy of a bundled scenario."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diagnose_bench.layout import snapshots_root
from diagnose_bench.lint_cluster import check_cluster
from diagnose_bench.lint_files import SnapshotFiles
from diagnose_bench.lint_finding import LintFinding
from diagnose_bench.lint_lines import check_lines

SCENARIO = "scenario-001"
"""It has a rollout, kills for memory and several kubelets."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A snapshot that may be damaged."""
    target = tmp_path / SCENARIO
    shutil.copytree(snapshots_root() / "postmortems" / SCENARIO, target)
    return target


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        change(record)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def found(folder: Path, check: str) -> LintFinding:
    files = SnapshotFiles(folder)
    findings = [*check_cluster(SCENARIO, files), *check_lines(SCENARIO, files)]
    return next(one for one in findings if one.check == check)


def named(kind: str, start: str) -> Callable[[dict[str, Any]], bool]:
    return lambda one: one["kind"] == kind and one["metadata"]["name"].startswith(start)


def test_untouched_snapshot_is_possible(folder: Path) -> None:
    files = SnapshotFiles(folder)
    findings = [*check_cluster(SCENARIO, files), *check_lines(SCENARIO, files)]
    assert [one.line() for one in findings if one.ok is not True] == []


@pytest.mark.parametrize(
    ("kind", "start", "owner"),
    [
        ("Pod", "cms-api-", "Node/kube"),
        ("Pod", "cms-web-", "ReplicaSet/cms-web-"),
        ("Service", "cms-api", "Namespace/cms"),
    ],
)
def test_object_older_than_what_carries_it_is_noticed(
    folder: Path, kind: str, start: str, owner: str
) -> None:
    chosen = named(kind, start)

    def age(one: dict[str, Any]) -> None:
        if chosen(one):
            one["metadata"]["creationTimestamp"] = "2019-01-01T00:00:00Z"

    rewrite(folder / "objects.jsonl", age)
    finding = found(folder, "ages")
    assert finding.ok is False
    assert owner.split("/")[0] in finding.detail


def test_pod_on_a_cordoned_node_is_noticed(folder: Path) -> None:
    cordon = {"time": "2025-03-20T09:00:00Z", "who": "x", "entity": "Node/kube1023",
              "patch": [{"op": "add", "path": "/spec/unschedulable", "value": True}]}  # fmt: skip
    with (folder / "changes.jsonl").open("a") as file:
        file.write(json.dumps(cordon) + "\n")
    finding = found(folder, "placement")
    assert finding.ok is False
    assert "is placed on kube1023, which is cordoned" in finding.detail


def test_pod_on_an_unknown_node_is_noticed(folder: Path) -> None:
    def move(event: dict[str, Any]) -> None:
        event["message"] = event["message"].replace(" to kube1023", " to kube9999")

    rewrite(folder / "events.jsonl", move)
    assert "kube9999, which is not there" in found(folder, "placement").detail


def test_version_lower_than_that_of_an_older_write_is_noticed(folder: Path) -> None:
    def lower(one: dict[str, Any]) -> None:
        if named("Deployment", "cms-web")(one):
            one["metadata"]["resourceVersion"] = "1"

    rewrite(folder / "objects.jsonl", lower)
    finding = found(folder, "versions")
    assert finding.ok is False
    assert "cms/Deployment/cms-web has an older resourceVersion" in finding.detail


def test_version_that_two_objects_share_is_noticed(folder: Path) -> None:
    def same(one: dict[str, Any]) -> None:
        if one["kind"] == "Node":
            one["metadata"]["resourceVersion"] = "99999999"

    rewrite(folder / "objects.jsonl", same)
    assert "two objects have one resourceVersion" in found(folder, "versions").detail


@pytest.mark.parametrize(("port", "message"), [("nothing", "names no port"), (4711, "asks port 4711")])
def test_probe_of_a_port_that_is_not_there_is_noticed(folder: Path, port: int | str, message: str) -> None:
    def aim(one: dict[str, Any]) -> None:
        if named("Pod", "session-store")(one):
            one["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] = port

    rewrite(folder / "objects.jsonl", aim)
    finding = found(folder, "probes")
    assert finding.ok is False
    assert message in finding.detail


def test_failed_probe_of_another_address_is_noticed(folder: Path) -> None:
    def readdress(event: dict[str, Any]) -> None:
        if 'probe failed: Get "http' in event["message"]:
            event["message"] = 'Readiness probe failed: Get "http://10.9.9.9:9181/status": refused'

    rewrite(folder / "events.jsonl", readdress)
    finding = found(folder, "probes")
    assert finding.ok is False
    assert "is not one of its own" in finding.detail


def test_kubelet_line_about_no_pod_is_noticed(folder: Path) -> None:
    with (folder / "logs" / "kube-system_kubelet.log").open("a") as file:
        file.write('2025-03-20T09:30:00.000Z kube1012 kubelet[1]: I0320 x] "y" pod="cms/cms-web-0"\n')
    assert found(folder, "kubelet").detail == "no Pod cms/cms-web-0"


def test_mount_without_a_volume_is_noticed(folder: Path) -> None:
    def forget(one: dict[str, Any]) -> None:
        if named("Pod", "prometheus-0")(one):
            one["spec"]["volumes"] = []

    rewrite(folder / "objects.jsonl", forget)
    assert (
        "monitoring/Pod/prometheus-0 mounts data, which is no volume of it" in found(folder, "mounts").detail
    )


def test_volume_of_nothing_is_noticed(folder: Path) -> None:
    def rename(one: dict[str, Any]) -> None:
        if named("PersistentVolumeClaim", "data-prometheus-0")(one):
            one["metadata"]["name"] = "data-prometheus-9"

    rewrite(folder / "objects.jsonl", rename)
    assert "no PersistentVolumeClaim data-prometheus-0" in found(folder, "mounts").detail


def test_address_inside_the_pod_network_is_noticed(folder: Path) -> None:
    def readdress(one: dict[str, Any]) -> None:
        if one["kind"] == "Node":
            one["status"]["addresses"][0]["address"] = "10.67.1.9"

    rewrite(folder / "objects.jsonl", readdress)
    assert "lies in the Pod network 10.67.1.0/24" in found(folder, "addresses").detail


def test_name_that_spells_another_address_is_noticed(folder: Path) -> None:
    def rename(one: dict[str, Any]) -> None:
        if named("Node", "kube1012")(one):
            one["metadata"]["name"] = "ip-10-1-2-3"

    rewrite(folder / "objects.jsonl", rename)
    assert "Node/ip-10-1-2-3 has the address" in found(folder, "addresses").detail


def test_history_of_the_changed_alone_is_noticed(folder: Path) -> None:
    def forget(one: dict[str, Any]) -> None:
        if one["kind"] == "ReplicaSet" and not named("ReplicaSet", "cms-web-")(one):
            one["metadata"]["ownerReferences"] = []

    rewrite(folder / "objects.jsonl", forget)
    finding = found(folder, "history")
    assert finding.ok is False
    assert finding.detail.startswith("only 1 of ")


def test_replica_set_with_the_template_of_another_is_noticed(folder: Path) -> None:
    def same(one: dict[str, Any]) -> None:
        if named("ReplicaSet", "cms-web-")(one):
            one["spec"]["template"] = {"metadata": {}, "spec": {"containers": []}}

    rewrite(folder / "objects.jsonl", same)
    assert "has the template of cms/ReplicaSet/cms-web-" in found(folder, "history").detail


def test_new_image_that_nobody_pulled_is_noticed(folder: Path) -> None:
    def there(event: dict[str, Any]) -> None:
        if event["message"].startswith("Successfully pulled"):
            image = event["message"].split('"')[1]
            event["message"] = f'Container image "{image}" already present on machine'

    rewrite(folder / "events.jsonl", there)
    finding = found(folder, "pulls")
    assert finding.ok is False
    assert "before anybody pulled it" in finding.detail


def test_pulls_of_one_length_are_noticed(folder: Path) -> None:
    def same(event: dict[str, Any]) -> None:
        if event["message"].startswith("Successfully pulled"):
            event["message"] = event["message"].rpartition(" in ")[0] + " in 1630ms"

    rewrite(folder / "events.jsonl", same)
    assert "pulls take exactly as long as one another" in found(folder, "pulls").detail


# lines


def test_line_with_the_value_of_another_template_is_noticed(folder: Path) -> None:
    old = next(
        line["metadata"]["name"]
        for line in map(json.loads, (folder / "objects.jsonl").read_text().splitlines())
        if line["kind"] == "ReplicaSet"
        and '"127.0.0.1:11213"' in json.dumps(line)
        and "cms-web" in line["metadata"]["name"]
    )
    with (folder / "logs" / "cms_cms-web.log").open("a") as file:
        file.write(f"2025-03-20T09:30:00.000Z {old}-x2v5z cache-router.cache.svc.cluster.local:11213\n")
    finding = found(folder, "configuration")
    assert finding.ok is False
    assert f"a Pod of {old} names 'cache-router.cache.svc.cluster.local:11213'" in finding.detail


@pytest.mark.parametrize(
    ("line", "message"),
    [('[INFO] 10.67.1.4:40000 - 7 "A IN a. udp 5 false 512" NOERROR', "without the log plug-in"),
     ("half a {choice:line|word}", "was not filled in")],
)  # fmt: skip
def test_line_that_its_component_does_not_write_is_noticed(folder: Path, line: str, message: str) -> None:
    with (folder / "logs" / "kube-system_coredns.log").open("a") as file:
        file.write(f"2025-03-20T09:30:00.000Z {line}\n")
    finding = found(folder, "writers")
    assert finding.ok is False
    assert message in finding.detail


def test_kill_far_below_the_limit_is_noticed(folder: Path) -> None:
    def shrink(event: dict[str, Any]) -> None:
        head, found_it, tail = event["message"].partition("anon-rss:")
        if found_it:
            event["message"] = f"{head}anon-rss:64000kB{tail[tail.index(',') :]}"

    rewrite(folder / "events.jsonl", shrink)
    finding = found(folder, "kills")
    assert finding.ok is False
    assert "of its limit" in finding.detail


def test_kill_that_no_sample_announces_is_noticed(folder: Path) -> None:
    path = folder / "metrics" / "container_memory_working_set_bytes.csv"
    header, *rows = path.read_text().splitlines()
    flat = [",".join([row.split(",")[0], "1000000", *row.split(",")[2:]]) for row in rows]
    path.write_text("\n".join([header, *flat]) + "\n")
    finding = found(folder, "kills")
    assert finding.ok is False
    assert "no sample before is above 1% of its limit" in finding.detail or "above 0%" in finding.detail


def test_snapshot_without_objects_is_not_checked(folder: Path) -> None:
    (folder / "objects.jsonl").unlink()
    files = SnapshotFiles(folder)
    assert [one.ok for one in (*check_cluster(SCENARIO, files), *check_lines(SCENARIO, files))] == [
        None,
        None,
    ]
