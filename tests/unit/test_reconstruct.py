"""The generator's parts: draws, time line, specification, Pods, request flow; expectations worked by hand."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_spec import make_pod, small_spec

from diagnose_bench.errors import SuiteError
from diagnose_bench.reconstruct.__main__ import main
from diagnose_bench.reconstruct.admission import admit
from diagnose_bench.reconstruct.clock import Clock, Curve, parse_moment
from diagnose_bench.reconstruct.draws import Draws, safe_encode
from diagnose_bench.reconstruct.engine import reconstruct
from diagnose_bench.reconstruct.flow import simulate
from diagnose_bench.reconstruct.pods import cores, mebibytes
from diagnose_bench.reconstruct.requests import draw_requests
from diagnose_bench.reconstruct.spec import Specification, load_specification
from diagnose_bench.reconstruct.spec_workload import Resources, Workload
from diagnose_bench.reconstruct.suite import write_suite
from diagnose_bench.reconstruct.world import build_world
from diagnose_bench.suite import load_suite


def write(path: Path, document: Any) -> Path:
    path.write_text(yaml.safe_dump(document))
    return path


def folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


# draws


def test_draws_are_the_uniforms_of_a_pcg64_seeded_by_the_names() -> None:
    key = hashlib.sha256(b"5\x00a\x00b").digest()[:16]
    expected = np.random.Generator(np.random.PCG64(int.from_bytes(key, "big"))).random(3).tolist()
    draws = Draws(5, "a", "b")
    assert [draws.random() for _ in range(3)] == expected


def test_streams_of_other_names_differ() -> None:
    assert Draws(5, "a", "b").hex(16) != Draws(5, "ab").hex(16)


def test_template_hash_uses_the_ten_characters_that_digits_become() -> None:
    # "0".."9" are code points 48..57; modulo 27 they are 21..26 and 0..3 of Kubernetes' alphabet.
    assert safe_encode("0123456789") == "456789bcdf"


def test_count_keeps_the_mean() -> None:
    draws = Draws(1, "count")
    mean = sum(draws.count(2.25) for _ in range(4000)) / 4000
    assert mean == pytest.approx(2.25, abs=5 * math.sqrt(0.25 * 0.75 / 4000))


def test_uuid_is_version_four() -> None:
    text = Draws(1, "uuid").uuid()
    assert text[14] == "4"
    assert text[19] in "89ab"


# time line


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [("23:50", 0), ("23:59:30", 570), ("00:10", 1200), ("2024-01-02T00:00:00Z", 600)],
)
def test_clock_strings_belong_to_the_day_nearest_the_window(clock: str, seconds: float) -> None:
    start = parse_moment("2024-01-01T23:50:00Z")
    line = Clock(start, start, parse_moment("2024-01-02T00:35:00Z"))
    assert line.seconds(clock) == seconds


def test_curve_is_linear_between_its_points_and_constant_outside() -> None:
    curve = Curve([(10, 1.0), (20, 3.0)])
    assert [curve(time) for time in (0, 10, 15, 20, 99)] == [1.0, 1.0, 2.0, 3.0, 3.0]


def test_moments_need_a_zone() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_moment("2024-01-01T00:00:00")


# quantities and back-off


@pytest.mark.parametrize(
    ("quantity", "expected"), [("100Mi", 100.0), ("2Gi", 2048.0), ("1048576", 1.0), ("512Ki", 0.5)]
)
def test_memory_quantities(quantity: str, expected: float) -> None:
    assert mebibytes(quantity) == expected


def test_cpu_quantities() -> None:
    assert (cores("250m"), cores("2"), cores(None)) == (0.25, 2.0, None)


def test_back_off_doubles_and_resets_after_a_long_life() -> None:
    pod = make_pod()
    delays = []
    at = 0.0
    for life in (30, 30, 30, 700, 30):
        restart = pod.kill(at, "OOMKilled", 137)
        delays.append(restart.back_at - restart.at)
        at = restart.back_at + life
    assert delays == pytest.approx([1.5, 11.0, 22.0, 43.0, 1.5])


def test_pod_is_ready_only_after_its_start() -> None:
    pod = make_pod()
    restart = pod.kill(100.0, "Error", 1)
    assert pod.ready(99)
    assert not pod.ready(100.5)
    assert not pod.ready(restart.back_at + 4)
    assert pod.ready(restart.back_at + 5)
    assert (pod.n_restarts(100.5), pod.n_restarts(200)) == (0, 1)


# admission


def test_limit_range_fills_in_only_what_is_missing() -> None:
    item = {
        "type": "Container",
        "default": {"cpu": "500m", "memory": "256Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
    }
    workload = Workload(namespace="a", name="b", image="c", limits=Resources(memory="1Gi"))
    admitted = admit(workload, [{"spec": {"limits": [item, {"type": "Pod", "max": {"cpu": "4"}}]}}])
    assert admitted.limits == Resources(cpu="500m", memory="1Gi")
    assert admitted.requests == Resources(cpu="100m", memory="128Mi")
    expected = "LimitRanger plugin set: cpu, memory request for container b; cpu limit for container b"
    assert admitted.annotation == expected
    assert admit(workload, []).annotation == ""


def test_only_pods_younger_than_the_limit_range_have_its_limits() -> None:
    limit_range = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"namespace": "shop", "name": "l", "created": 7},
        "spec": {"limits": [{"type": "Container", "default": {"memory": "256Mi"}}]},
    }
    document = small_spec(objects=[limit_range])
    document["workloads"][0]["pods_days_ago"] = [9, 3]
    pods = build_world(Specification.model_validate(document)).pods["shop/front"]
    assert [pod.limits.memory for pod in pods] == [None, "256Mi"]


# specification


def test_unknown_field_is_named_with_its_path(tmp_path: Path) -> None:
    document = small_spec()
    document["workloads"][1]["imagee"] = "x"
    with pytest.raises(SuiteError, match=r"\$\.workloads\.1\.imagee"):
        load_specification(write(tmp_path / "s.yaml", document))


@pytest.mark.parametrize("text", [b"a: [", b"- 1\n", b"\xff\xfe", b""])
def test_no_specification_is_one_message(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(text)
    with pytest.raises(SuiteError, match=r"s\.yaml"):
        load_specification(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"kills": [{"workload": "shop/none", "at": ["10:10"]}]},
            r"kills\[0\]: unknown workload 'shop/none'",
        ),
        ({"drains": [{"node": "n9", "at": "10:10"}]}, r"drains\[0\]: unknown node 'n9'"),
        (
            {"cluster": {"nodes": [{"name": "n1"}], "platform": ["corends"]}},
            "unknown standard workload 'corends'",
        ),
    ],
)
def test_what_does_not_exist_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        build_world(Specification.model_validate(small_spec(**changed)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": {"start": "2024-05-01T10:00:00Z", "detected_at": "2024-05-01T11:20:00Z",
                     "end": "2024-05-01T10:45:00Z"}}, "detected_at"),
        ({"window": {"start": "2024-05-01T10:00:00", "detected_at": "2024-05-01T10:20:00Z",
                     "end": "2024-05-01T10:45:00Z"}}, "no time zone"),
        ({"kills": [{"workload": "shop/back", "at": ["10.30"]}]}, "HH:MM"),
        ({"kills": [{"workload": "shop/back", "at": [630]}]}, r"kills\.0\.at\.0: .*string"),
    ],
)  # fmt: skip
def test_times_that_are_none_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        load_specification(write(tmp_path / "s.yaml", small_spec(**changed)))


def test_points_out_of_order_are_refused() -> None:
    document = small_spec()
    document["operations"][1]["errors"] = [["10:10", 0.1], ["10:05", 0.2]]
    with pytest.raises(SuiteError, match="'10:05' of a curve is not later"):
        simulate(build_world(Specification.model_validate(document)))


def test_log_line_about_an_unknown_workload_is_refused(tmp_path: Path) -> None:
    logs = [{"workload": "shop/front", "texts": ["peer {ip:shop/none}"], "every_s": 60}]
    with pytest.raises(SuiteError, match=r"\{ip:shop/none\} names no workload"):
        reconstruct(Specification.model_validate(small_spec(logs=logs, rules=rules())), tmp_path / "a")


def test_unknown_operation_is_refused() -> None:
    document = small_spec()
    document["operations"][0]["calls"][0]["to"] = "back.put"
    with pytest.raises(SuiteError, match=r"unknown operation 'back\.put'"):
        build_world(Specification.model_validate(document))


def test_cycle_of_calls_is_refused() -> None:
    document = small_spec()
    document["operations"][1]["calls"] = [{"to": "front.get"}]
    with pytest.raises(SuiteError, match="Break the cycle"):
        simulate(build_world(Specification.model_validate(document)))


# flow


def test_failures_and_retries_follow_the_arithmetic() -> None:
    flow = simulate(build_world(Specification.model_validate(small_spec())))
    # An attempt fails with 0.2, both attempts with 0.04; half of the requests call: 0.02 fail.
    assert flow.failure["front.get"][10] == pytest.approx(0.02)
    # 10/s, half of them call, each call makes 1 + 0.2 attempts: 6/s.
    assert flow.rate["back.get"][10] == pytest.approx(6.0)


def test_drawn_requests_fail_as_often_as_the_flow_says() -> None:
    flow = simulate(build_world(Specification.model_validate(small_spec())))
    traces = draw_requests(flow)
    failed = sum(trace.spans[0].error for trace in traces) / len(traces)
    assert failed == pytest.approx(0.02, abs=4 * math.sqrt(0.02 * 0.98 / len(traces)))
    backs = [span for trace in traces for span in trace.spans if span.service == "back"]
    share = sum(span.error for span in backs) / len(backs)
    assert share == pytest.approx(0.2, abs=4 * math.sqrt(0.2 * 0.8 / len(backs)))


def test_memory_beyond_the_limit_kills_every_resolver_again_and_again() -> None:
    cluster = {
        "nodes": [{"name": "n1"}],
        "platform": ["coredns"],
        "override": {
            "coredns": {
                "limits": {"memory": "100Mi"},
                "memory": {"base": 20, "per_rps": 0.1, "started": 20, "noise": 0},
            }
        },
    }
    # 2 resolvers: 1200/s are 80 MiB each; 2400/s are 140 MiB, beyond the limit of 100.
    dns = {"background_rps": 1200, "extra": [["10:20", 0], ["10:20:01", 1200]]}
    world = build_world(Specification.model_validate(small_spec(cluster=cluster, dns=dns)))
    flow = simulate(world)
    for pod in world.pods["kube-system/coredns"]:
        assert pod.memory[40] == pytest.approx(80, abs=3)
        assert len(pod.restarts) >= 4
        assert all(one.at >= 1200 and one.reason == "OOMKilled" for one in pod.restarts)
    assert flow.dns_failure[40] == 0
    assert max(flow.dns_failure) == 1.0


# the whole


def rules() -> list[dict[str, Any]]:
    errors = 'rate(traces_span_metrics_calls_total{status_code="STATUS_CODE_ERROR"}[5m])'
    expr = f"sum by (service_name) ({errors}) > 0.5"
    rule = {"alert": "Errors", "expr": expr, "for": "2m", "labels": {"severity": "critical"}}
    return [{"object": "monitoring/own", "group": "own", "rules": [rule]}]


def test_same_seed_same_bytes_and_other_seed_other_bytes(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a", "b", "c"))
    reconstruct(Specification.model_validate(small_spec(rules=rules())), first)
    reconstruct(Specification.model_validate(small_spec(rules=rules())), second)
    reconstruct(Specification.model_validate(small_spec(rules=rules(), seed=8)), third)
    assert folder_digest(first) == folder_digest(second) != folder_digest(third)


def test_truth_does_not_reach_the_snapshot(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    reconstruct(Specification.model_validate(small_spec()), one)
    changed = small_spec(truth={"title": "changed"}, canary="diagnose-bench:ffff")
    reconstruct(Specification.model_validate(changed), other)
    assert folder_digest(one) == folder_digest(other)


def test_failed_reconstruction_leaves_the_old_snapshot_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots" / "scenario-090"
    reconstruct(Specification.model_validate(small_spec()), folder)
    before = folder_digest(folder)
    bad = small_spec(rules=rules())
    bad["rules"][0]["rules"][0]["expr"] = "rate(a["
    with pytest.raises(SuiteError, match=r"Errors.*not understood"):
        reconstruct(Specification.model_validate(bad), folder)
    assert folder_digest(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == ["scenario-090"]


def test_canaries_must_differ(tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    write(specs / "scenario-090.yaml", small_spec())
    write(specs / "scenario-091.yaml", small_spec(scenario_id="scenario-091"))
    with pytest.raises(SuiteError, match="same canary"):
        write_suite(specs, tmp_path / "snapshots" / "own", tmp_path / "ground_truth" / "own")


def test_specification_must_be_named_like_its_scenario(tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    write(specs / "scenario-001.yaml", small_spec())
    with pytest.raises(SuiteError, match="not the file's name"):
        write_suite(specs, tmp_path / "snapshots" / "own", tmp_path / "ground_truth" / "own")


def test_command_writes_a_suite_and_prints_its_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    write(specs / "scenario-090.yaml", small_spec())
    suite, truths = tmp_path / "snapshots" / "own", tmp_path / "ground_truth" / "own"
    assert main([str(specs), str(suite), str(truths)]) == 0
    assert capsys.readouterr().out.strip() == load_suite(str(suite)).digest
    assert yaml.safe_load((truths / "scenario-090.yaml").read_text())["canary"].endswith("90")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage"),
        (["none", "a", "b"], "no specifications"),
        (["specs", "a", "b", "x"], "no specification 'x'"),
    ],
)
def test_command_says_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    write(tmp_path / "specs" / "scenario-090.yaml", small_spec())
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
