"""How the generator lays out a cluster: ages, nodes, history, pulls, versions, lines; worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_spec import make_pod, small_spec

from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.events import build_events
from diagnose_bench.reconstruct.flow import missing_share, simulate
from diagnose_bench.reconstruct.history import earlier_template, older_tag
from diagnose_bench.reconstruct.kubelet import kubelet_lines
from diagnose_bench.reconstruct.logs import build_logs
from diagnose_bench.reconstruct.objects import build_objects
from diagnose_bench.reconstruct.requests import draw_requests
from diagnose_bench.reconstruct.spec import Specification
from diagnose_bench.reconstruct.spec_workload import Workload
from diagnose_bench.reconstruct.world import World, build_world


def world_of(**more: Any) -> World:
    return build_world(Specification.model_validate(small_spec(**more)))


ROLLOUT = {"workload": "shop/back", "at": "10:10", "pace_s": 60, "previous": {"image": "back:0"}}


# history


@pytest.mark.parametrize(
    ("tag", "older"),
    [("v1.9.3", "v1.9.2"), ("7.31.2-alpine", "7.31.1-alpine"), ("2025.01", ("2024.12", "2024.11")),
     ("latest", "latest"), ("1", "1")],
)  # fmt: skip
def test_older_tag_is_the_release_before(tag: str, older: str | tuple[str, ...]) -> None:
    assert older_tag(tag, Draws(1, "tag")) in ((older,) if isinstance(older, str) else older)


def test_older_tag_of_a_zero_counts_the_place_before_down() -> None:
    assert older_tag("0.17.0", Draws(1, "tag")).startswith("0.16.")


def test_dated_tag_goes_back_by_days() -> None:
    assert older_tag("2025-03-20-085514", Draws(1, "tag")) < "2025-03-20-085514"


def test_template_without_an_older_tag_was_restarted() -> None:
    workload = Workload(namespace="a", name="b", image="c:latest")
    assert earlier_template(workload, Draws(1, "x")) == (workload, True)


def test_history_keeps_no_more_than_its_limit_and_ends_before_the_window() -> None:
    world = world_of(rollouts=[ROLLOUT])
    for key, kept in world.history.items():
        present = world.revisions[key]
        assert len(kept) + len(present) - 1 <= world.history_limit[key]
        numbers = [one.number for one in (*kept, *present)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert world.created[key] < min([one.created for one in kept], default=present[0].created)
        assert all(one.created < present[0].created < 0 for one in kept)


# placement


def test_no_pod_is_older_than_its_node() -> None:
    nodes = [{"name": "n1", "days_ago": 2}, {"name": "n2", "days_ago": 900}]
    world = world_of(cluster={"nodes": nodes, "platform": ["coredns", "kube-proxy"]})
    ages = {node.name: world.placement.created(node) for node in world.nodes}
    assert all(pod.created > ages[pod.node] for pod in world.all_pods())


def test_cordoned_node_takes_no_pod_until_it_is_opened_again() -> None:
    drain = {"node": "n1", "at": "10:05", "uncordon_at": "10:30"}
    scales = [
        {"workload": "shop/front", "at": "10:15", "to": 8},
        {"workload": "shop/back", "at": "10:35", "to": 8},
    ]
    world = world_of(drains=[drain], scales=scales)
    assert {pod.node for pod in world.pods["shop/front"] if pod.created > 300} == {"n2"}
    assert {pod.node for pod in world.pods["shop/back"] if pod.created > 2000} == {"n1", "n2"}


def test_pod_of_a_stateful_set_comes_back_after_the_old_one_is_gone() -> None:
    document = small_spec(drains=[{"node": "n1", "at": "10:05"}])
    document["workloads"][1]["kind"] = "StatefulSet"
    world = build_world(Specification.model_validate(document))
    by_name: dict[str, list[Any]] = {}
    for pod in world.pods["shop/back"]:
        by_name.setdefault(pod.name, []).append(pod)
    moved = [pods for pods in by_name.values() if len(pods) == 2]
    assert moved
    assert all(old.deleted < new.created for old, new in moved)


def test_scaled_pods_have_the_template_of_their_time() -> None:
    scales = [{"workload": "shop/back", "at": "10:05", "to": 3}]
    world = world_of(rollouts=[ROLLOUT], scales=scales)
    first = world.revisions["shop/back"][0].number
    scaled = [pod for pod in world.pods["shop/back"] if 300 <= pod.created < 302]
    assert [pod.revision for pod in scaled] == [first]


def test_node_that_spells_its_address_has_it() -> None:
    world = world_of(cluster={"nodes": [{"name": "ip-10-0-12-44"}], "platform": ["coredns"]})
    assert world.node_addresses == {"ip-10-0-12-44": "10.0.12.44"}


# images


def test_new_image_is_pulled_once_on_each_node() -> None:
    rollout = {**ROLLOUT, "workload": "shop/front", "previous": {"image": "front:0"}}
    document = small_spec(rollouts=[rollout])
    document["workloads"][0]["replicas"] = 4
    world = build_world(Specification.model_validate(document))
    made = [pod for pod in world.pods["shop/front"] if pod.created > 0]
    pulls = [(pod.node, bool(pod.pulls)) for pod in made]
    assert sorted(node for node, pulled in pulls if pulled) == ["n1", "n2"]
    texts = [one.message for one in build_events(world) if one.reason == "Pulled"]
    assert sum("Successfully pulled" in text for text in texts) == 2
    assert len({text.rpartition(" in ")[2] for text in texts if "Successfully" in text}) == 2


# rollouts


def test_blocked_rollout_makes_a_replica_set_and_no_pod() -> None:
    world = world_of(
        rollouts=[{"workload": "shop/back", "at": "10:10", "why": "restart", "blocked": "no answer"}]
    )
    assert all(pod.created < 0 for pod in world.pods["shop/back"])
    failed = [one for one in build_events(world) if one.reason == "FailedCreate"]
    assert [(one.kind, one.message) for one in failed] == [("ReplicaSet", "Error creating: no answer")]
    newest = f"back-{world.current('shop/back').hash}"
    manifest = next(one for one in build_objects(world) if one["metadata"]["name"] == newest)
    assert (manifest["spec"]["replicas"], manifest["status"]["replicas"]) == (1, 0)


def test_call_of_the_new_template_alone_grows_with_the_rollout() -> None:
    document = small_spec(rollouts=[{**ROLLOUT, "workload": "shop/front", "previous": {"image": "front:0"}}])
    document["operations"][0]["calls"][0] = {"to": "back.get", "timeout_ms": 100000, "revision": "new"}
    flow = simulate(build_world(Specification.model_validate(document)))
    # One call for each of 10 requests a second, as soon as both Pods are new.
    assert flow.rate["back.get"][10] == 0
    assert flow.rate["back.get"][-1] == pytest.approx(10.0)
    traces = draw_requests(flow)
    callers = {
        span.pod.revision
        for trace in traces
        for span in trace.spans
        if span.kind == "SPAN_KIND_CLIENT" and span.pod
    }
    assert callers == {flow.world.current("shop/front").number}


def test_trouble_of_the_new_template_spares_the_old() -> None:
    document = small_spec(rollouts=[ROLLOUT])
    document["operations"][1] |= {"trouble_of": "new", "errors": [["10:00", 0.0], ["10:01", 1.0]]}
    flow = simulate(build_world(Specification.model_validate(document)))
    assert flow.failure["back.get"][20] == 0
    assert flow.failure["back.get"][-1] == pytest.approx(1.0)


# names and numbers


@pytest.mark.parametrize(
    ("host", "share"),
    [(None, 0.0), ("a", 0.0), ("a.b", 0.5), ("a.b.svc.cluster.local", 0.75), ("a.b.svc.cluster.local.", 0.0),
     ("api.example.net", 0.8)],
)  # fmt: skip
def test_search_path_wastes_queries_of_names_with_few_dots(host: str | None, share: float) -> None:
    assert missing_share(host) == share


@pytest.mark.parametrize("expected", [0.3, 4.0, 900.0])
def test_arrivals_have_the_mean_and_the_spread_of_a_poisson_count(expected: float) -> None:
    draws = Draws(1, "arrivals")
    values = [draws.arrivals(expected) for _ in range(4000)]
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    assert mean == pytest.approx(expected, abs=5 * (expected / len(values)) ** 0.5)
    assert variance == pytest.approx(expected, rel=0.15)


def test_resource_versions_are_in_the_order_of_the_writes() -> None:
    change = {"at": "10:12", "entity": "kube-system/ConfigMap/coredns", "who": "x",
              "patch": [{"op": "replace", "path": "/data/Corefile", "value": "."}]}  # fmt: skip
    objects = build_objects(world_of(changes=[change], rollouts=[ROLLOUT]))
    version = {
        (one["kind"], one["metadata"]["name"]): int(one["metadata"]["resourceVersion"]) for one in objects
    }
    assert len(set(version.values())) == len(version)
    assert version["Deployment", "back"] > version["Deployment", "front"]
    assert version["ConfigMap", "coredns"] > version["Deployment", "front"] > version["Service", "front"]


def test_kubelet_lines_name_pods_that_are_there_and_one_process_for_each_node() -> None:
    kill = {"workload": "shop/back", "at": ["10:10", "10:11"], "reason": "Error", "exit_code": 1}
    world = world_of(kills=[kill])
    lines = [line for _, line in kubelet_lines(world)]
    names = {pod.name for pod in world.all_pods()}
    assert lines
    assert all(any(name in line for name in names) for line in lines)
    processes = {line.split(": ")[0] for line in lines}
    assert len(processes) == 2


def test_health_checks_of_a_pod_that_is_down_fail() -> None:
    log = {
        "workload": "shop/front",
        "watches": "shop/back",
        "texts": ["{ip} up {up}"],
        "down_texts": ["{ip} down {up}"],
        "every_s": 30,
    }
    world = world_of(logs=[log], kills=[{"workload": "shop/back", "at": ["10:10"], "pods": [0]}])
    lines = [line for _, line in build_logs(world, []).lines["shop/front"]]
    down = [line for line in lines if " down " in line]
    address = next(pod.ip for pod in world.pods["shop/back"] if pod.restarts)
    assert down
    assert all(line == f"{address} down 1/2" for line in down)


def test_last_words_come_before_the_end() -> None:
    kill = {"workload": "shop/back", "at": ["10:10"], "pods": [0], "reason": "Error", "exit_code": 1,
            "last_words": "level=fatal pod={pod}"}  # fmt: skip
    world = world_of(kills=[kill])
    pod = next(one for one in world.pods["shop/back"] if one.restarts)
    lines = build_logs(world, []).lines["shop/back"]
    assert any(line == f"level=fatal pod={pod.name}" and time < pod.restarts[0].at for time, line in lines)


def test_pod_told_to_end_is_there_but_serves_no_more() -> None:
    pod = make_pod()
    pod.end(100.0, 20.0)
    pod.end(150.0, 90.0)
    assert (pod.serves(99), pod.serves(100), pod.exists(119), pod.exists(120)) == (True, False, True, False)
