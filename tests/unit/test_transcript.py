"""A trial as a time line: what each command revealed, when the root cause came into sight, the answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.entity import Entity
from diagnose_bench.errors import GroundTruthError, SuiteError, UsageError
from diagnose_bench.inventory import Inventory
from diagnose_bench.outcome import Outcome
from diagnose_bench.timeline import Revealing, seconds_between
from diagnose_bench.transcript import Transcript, transcript_of
from diagnose_bench.transcript_text import clock, transcript_text

POD = "cart-5d8f7c9b6d-x2v5z"
OUTPUTS = (
    "alerts.jsonl events.jsonl objects.jsonl",
    '{"pod":"valkey-5d8f7c9b6d-x2v5z","log":"start\\nfrontend is slow"}',
    f"OOMKilled {POD}",
    f"OOMKilled {POD} and cart and checkout.shop.svc",
)


def sample(tmp_path: Path, **changes: object) -> Path:
    suite = write_suite(tmp_path, {"scenario-001": truth_of("scenario-001", ["cart"], ["checkout"])})
    trial = Trial(["shop/Deployment/cart", "shop/Service/checkout"], outputs=OUTPUTS, changes=dict(changes))
    return write_run(tmp_path / "run", suite, {("scenario-001", 1): trial})


def revealed(transcript: Transcript) -> list[list[str]]:
    return [[one.entity for one in command.revealed] for command in transcript.commands]


def test_each_command_reveals_what_no_earlier_output_names(tmp_path: Path) -> None:
    assert revealed(transcript_of(sample(tmp_path), "scenario-001", 1)) == [
        [],
        ["shop/Deployment/valkey", "shop/Deployment/frontend", "shop/Service/frontend"],
        ["shop/Deployment/cart"],
        ["shop/Service/cart", "shop/Deployment/checkout", "shop/Service/checkout"],
    ]


def test_a_workload_is_revealed_by_the_name_of_its_pod(tmp_path: Path) -> None:
    (one,) = transcript_of(sample(tmp_path), "scenario-001", 1).commands[2].revealed
    assert (one.entity, one.name) == ("shop/Deployment/cart", POD)


def test_the_root_cause_is_in_sight_from_the_first_output_with_its_name(tmp_path: Path) -> None:
    transcript = transcript_of(sample(tmp_path), "1", 1)
    assert [command.root_causes for command in transcript.commands] == [(), (), ("cart",), ()]
    assert transcript.root_causes is not None
    (cause,) = transcript.root_causes
    assert (cause.group, cause.commands, cause.was_submitted) == ("cart", (3, 4), True)


def test_the_answer_stands_in_the_line_with_the_class_of_each_name(tmp_path: Path) -> None:
    (answer,) = transcript_of(sample(tmp_path), "1", 1).submissions
    assert answer.counts
    assert answer.entities is not None
    assert [(one.raw, one.class_) for one in answer.entities] == [
        ("shop/Deployment/cart", "root_cause"),
        ("shop/Service/checkout", "unrelated"),
    ]


def test_a_root_cause_in_no_output_is_said_to_be_in_none(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {"scenario-001": truth_of("scenario-001", ["cart"])})
    run = write_run(tmp_path / "run", suite, {("scenario-001", 1): Trial((), outputs=("valkey-cart",))})
    transcript = transcript_of(run, "scenario-001", 1)
    assert "root cause cart: its name is in no recorded output; not submitted" in transcript_text(transcript)


def test_a_scenario_without_a_fault_has_no_root_cause_to_see(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {"scenario-001": truth_of("scenario-001", [])})
    run = write_run(tmp_path / "run", suite, {("scenario-001", 1): Trial(())})
    transcript = transcript_of(run, "scenario-001", 1)
    assert transcript.root_causes == ()
    assert "nothing is wrong in this scenario" in transcript_text(transcript)


def test_without_the_truth_the_rest_is_shown_and_it_says_so(tmp_path: Path) -> None:
    run = sample(tmp_path)
    shutil.rmtree(tmp_path / "ground_truth")
    transcript = transcript_of(run, "scenario-001", 1)
    assert revealed(transcript)[2] == ["shop/Deployment/cart"]
    assert transcript.root_causes is None
    (answer,) = transcript.submissions
    assert answer.entities is not None
    assert (answer.entities[0].raw, answer.entities[0].class_) == ("shop/Deployment/cart", None)
    (missing,) = transcript.missing
    assert missing.startswith("What the truth says is not shown: ")
    assert "root cause" not in transcript_text(transcript).lower()


def test_without_the_suite_the_commands_are_shown(tmp_path: Path) -> None:
    run = sample(tmp_path)
    shutil.rmtree(tmp_path / "snapshots")
    transcript = transcript_of(run, "scenario-001", 1)
    assert revealed(transcript) == [[], [], [], []]
    assert len(transcript.missing) == 2
    assert "the suite is needed" in transcript.missing[1]


def test_a_refused_truth_is_named(tmp_path: Path) -> None:
    run = sample(tmp_path)
    (tmp_path / "ground_truth/small/scenario-001.yaml").write_text("format_version: 1\n")
    transcript = transcript_of(run, "scenario-001", 1)
    assert transcript.root_causes is None
    assert transcript.missing[0].startswith(
        "What the truth says is not shown: it is refused: scenario-001.yaml"
    )


@pytest.mark.parametrize(
    ("scenario", "repeat", "message"),
    [
        ("scenario-009", 1, "has no trial of 'scenario-009'. It has scenario-001"),
        ("nine", 1, "has no trial of 'nine'"),
        ("1", 2, "repeat 2 does not exist; scenario-001 has the repeats 1 to 1"),
        ("1", 0, "repeat 0 does not exist"),
    ],
)
def test_a_trial_that_is_not_in_the_run_is_refused(
    tmp_path: Path, scenario: str, repeat: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        transcript_of(sample(tmp_path), scenario, repeat)


def test_a_trial_that_has_not_run_is_refused(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {"scenario-001": truth_of("scenario-001", ["cart"])})
    run = write_run(tmp_path / "run", suite, {})
    with pytest.raises(
        UsageError, match=r"scenario-001, repeat 1, has not run\. Finish the run with --resume"
    ):
        transcript_of(run, "scenario-001", 1)


def test_what_is_asked_for_by_name_must_be_there(tmp_path: Path) -> None:
    run = sample(tmp_path)
    with pytest.raises(GroundTruthError, match="does not exist"):
        transcript_of(run, "1", 1, truth=tmp_path / "nowhere")
    with pytest.raises(SuiteError):
        transcript_of(run, "1", 1, suite=str(tmp_path / "nowhere"))


def test_a_trial_of_recorded_answers_has_an_answer_and_no_commands(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {"scenario-001": truth_of("scenario-001", ["cart"])})
    trials = {("scenario-001", 1): Trial(["shop/Deployment/cart"], outputs=None)}
    text = transcript_text(transcript_of(write_run(tmp_path / "run", suite, trials), "1", 1))
    assert "no command is on record" in text
    assert "answer: recorded, counts" in text


def test_a_trial_without_an_answer_says_that_nothing_was_handed_in(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {"scenario-001": truth_of("scenario-001", ["cart"])})
    trials = {("scenario-001", 1): Trial(None, Outcome.TIME_LIMIT, outputs=())}
    text = transcript_text(transcript_of(write_run(tmp_path / "run", suite, trials), "1", 1))
    assert "no command was run" in text
    assert "nothing was handed in" in text
    assert "outcome: time_limit" in text


def test_terminal_codes_of_an_agent_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    run = sample(tmp_path, reason="\x1b[2Jgone\r\nfake line")
    text = transcript_text(transcript_of(run, "1", 1))
    assert "\x1b" not in text
    assert "(\\x1b[2Jgone\\x0d\\nfake line)" in text


def test_the_transcript_is_a_json_value(tmp_path: Path) -> None:
    value = json.loads(json.dumps(transcript_of(sample(tmp_path), "1", 1).to_dict(), allow_nan=False))
    assert value["root_causes"][0]["commands"] == [3, 4]
    assert value["commands"][2]["revealed"] == [{"entity": "shop/Deployment/cart", "name": POD}]


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("cart", ["cart"]),
        ("/var/log/shop_cart.log", ["cart"]),
        ("cart.shop.svc.cluster.local:8080", ["cart"]),
        ('"name":"cart"', ["cart"]),
        ("line\\ncart\\tup", ["cart"]),
        ("valkey-cart cartx CART", []),
        ("edge.example.org", ["edge.example.org"]),
        ("x" * 100_000 + "-cart", []),
    ],
)
def test_a_name_is_found_as_a_whole_name(output: str, names: list[str]) -> None:
    inventory = Inventory(
        [Entity("shop", "Deployment", "", "cart"), Entity("shop", "Ingress", "", "edge.example.org")]
    )
    assert [one.name for one in Revealing(inventory).first_seen(output)] == names


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0:00.0"),
        (7.26, "0:07.3"),
        (59.97, "1:00.0"),
        (127.4, "2:07.4"),
        (-1.0, "-0:01.0"),
        (None, "-:--"),
    ],
)
def test_seconds_are_shown_as_a_clock(seconds: float | None, shown: str) -> None:
    assert clock(seconds) == shown


def test_a_time_that_is_none_has_no_distance() -> None:
    assert seconds_between("2025-01-01T00:00:00Z", "2025-01-01T00:01:00.500Z") == 60.5
    assert seconds_between("", "2025-01-01T00:01:00Z") is None
    assert seconds_between("2025-01-01T00:00:00", "2025-01-01T00:01:00Z") is None
