"""A person works on an incident at a real terminal: typed, shown, recorded, scored."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import atif
import pytest
from cli_helpers import call, call_process, small_suite
from person import Person

pytestmark = pytest.mark.sandbox
PROMPT = r"left\] incident\$ "
Start = Callable[..., AbstractContextManager[Person]]


@pytest.fixture
def words(tmp_path: Path) -> list[str | Path]:
    suite = small_suite(tmp_path)
    return [
        *("run", "--agent", "human", "--suite", suite, "--scenario", "scenario-001", "--repeats", "1"),
        *("--no-baselines", "--out", tmp_path / "run"),
    ]


def begin(person: Person) -> None:
    person.waits_for("Press Enter to begin")
    person.enters("")
    person.waits_for(r"With nothing wrong, `root_causes` is the empty list\.")
    person.waits_for(PROMPT)


def trial_of(tmp_path: Path) -> Path:
    return tmp_path / "run" / "trials" / "scenario-001" / "1"


def record_of(tmp_path: Path) -> Any:
    return json.loads((trial_of(tmp_path) / "trial.json").read_bytes())


def commands_of(tmp_path: Path) -> list[Any]:
    return [json.loads(line) for line in (trial_of(tmp_path) / "commands.jsonl").read_text().splitlines()]


def hand_in_nothing_wrong(person: Person) -> None:
    person.enters("submit")
    person.waits_for("root cause 1: ")
    person.enters("")
    person.waits_for(r"Hand in that nothing is wrong\? .* y or n: ")
    person.enters("y")
    person.waits_for("accepted")


def test_a_person_reads_names_with_completion_and_is_scored(words: list[str | Path], tmp_path: Path) -> None:
    with Person(*words) as person:
        begin(person)
        person.enters("cat /snapshot/events.jsonl; exit 3")
        assert "OOMKilled" in person.waits_for(r"\[exit 3\]")
        person.enters("touch /scratch/kept")
        person.waits_for(PROMPT)
        person.enters("ls /scratch")
        person.waits_for("kept\r\n")
        person.enters("submit")
        person.waits_for("root cause 1: ")
        person.types("car\t")
        person.waits_for("shop/Deployment/cart")
        person.enters("")
        person.waits_for(r"why \(may be empty\): ")
        person.enters("it was killed")
        person.waits_for("root cause 2: ")
        person.enters("")
        person.waits_for("1. shop/Deployment/cart\r\n")
        person.enters("y")
        person.waits_for("accepted")
        person.waits_for("Outcomes: diagnosed 1")
        assert person.ends() == 0
    assert [one["command"] for one in commands_of(tmp_path)] == [
        "cat /snapshot/events.jsonl; exit 3",
        "touch /scratch/kept",
        "ls /scratch",
    ]
    answer = json.loads((trial_of(tmp_path) / "diagnosis.json").read_bytes())
    assert answer == {"root_causes": [{"entity": "shop/Deployment/cart", "reasoning": "it was killed"}]}
    record = record_of(tmp_path)
    assert (record["outcome"], record["n_turns"], record["n_commands"]) == ("diagnosed", 3, 3)
    manifest = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert manifest["agent"]["name"] == "human"
    atif.Trajectory.model_validate_json((trial_of(tmp_path) / "trajectory.json").read_bytes())
    scored = call("score", tmp_path / "run", "--format", "json").json()
    (trial,) = scored["scenarios"][0]["trials"]
    assert (trial["precision_at_full_recall"], trial["verdict"]) == (1.0, "safe_pass")


def test_ctrl_c_ends_a_command_and_what_was_typed_meanwhile_comes_next(
    words: list[str | Path], tmp_path: Path
) -> None:
    with Person(*words) as person:
        begin(person)
        person.enters("echo begun; sleep 29.25; echo done")
        person.waits_for_process("sleep 29.25")
        # Typed while it runs: the first key ends it, the line after it is the next command.
        person.types("\x03echo typed ahead\r")
        person.waits_for(r"\[command stopped: it was cancelled\]")
        person.waits_for(r"incident\$ echo typed ahead\r\ntyped ahead\r\n")
        person.waits_for(PROMPT)
        hand_in_nothing_wrong(person)
        assert person.ends() == 0
    first, second = commands_of(tmp_path)
    assert first["limit_hit"] == "cancelled"
    assert (second["command"], second["output"]) == ("echo typed ahead", "typed ahead\n")
    assert record_of(tmp_path)["outcome"] == "diagnosed"


def test_ctrl_c_at_the_prompt_drops_the_line(words: list[str | Path], tmp_path: Path) -> None:
    with Person(*words) as person:
        begin(person)
        person.types("echo never run")
        person.waits_for("echo never run")
        person.types("\x03")
        person.waits_for(PROMPT)
        person.enters("submit shop/Deployment/cart")
        person.waits_for("y or n: ")
        person.types("\x03")
        person.waits_for(r"Nothing was handed in\.")
        person.waits_for(PROMPT)
        hand_in_nothing_wrong(person)
        assert person.ends() == 0
    assert commands_of(tmp_path) == []


def test_ctrl_d_asks_and_the_incident_can_be_given_up(words: list[str | Path], tmp_path: Path) -> None:
    with Person(*words) as person:
        begin(person)
        person.types("\x04")
        person.waits_for("leave: s submit")
        person.enters("")
        person.waits_for(PROMPT)
        person.enters("exit")
        person.waits_for("leave: s submit")
        person.enters("g")
        person.waits_for(r"Given up: this trial has no diagnosis\.")
        assert person.ends() == 0
    assert record_of(tmp_path)["outcome"] == "no_diagnosis"


def test_a_run_that_was_quit_goes_on_later(words: list[str | Path], tmp_path: Path) -> None:
    with Person(*words) as person:
        begin(person)
        person.enters("true")
        person.waits_for(PROMPT)
        person.types("\x04")
        person.waits_for("leave: s submit")
        person.enters("q")
        person.waits_for("interrupted; 0 of 1 trials are finished")
        assert person.ends() == 3
    assert not (trial_of(tmp_path) / "trial.json").exists()
    with Person(*words, "--resume") as person:
        begin(person)
        hand_in_nothing_wrong(person)
        assert person.ends() == 0
    assert record_of(tmp_path)["outcome"] == "diagnosed"


@pytest.mark.parametrize("how", ["hang up", "SIGTERM", "SIGHUP"])
def test_a_terminal_that_goes_away_ends_the_run_and_loses_nothing(
    words: list[str | Path], tmp_path: Path, how: str
) -> None:
    with Person(*words) as person:
        begin(person)
        person.enters("echo something")
        person.waits_for(PROMPT)
        if how == "hang up":
            person.hang_up()
        else:
            person.signals(signal.Signals[how])
        assert person.ends() == 3
    assert not (trial_of(tmp_path) / "trial.json").exists()
    assert [one["command"] for one in commands_of(tmp_path)] == ["echo something"]


def test_the_time_ends_a_trial_at_the_prompt(words: list[str | Path], tmp_path: Path) -> None:
    with Person(*words, "--time-limit", "8") as person:
        begin(person)
        person.types("half a comm")
        person.waits_for(r"The time is up; this trial is over\.")
        assert person.ends() == 0
    assert record_of(tmp_path)["outcome"] == "time_limit"


def test_the_last_turn_only_says_that_it_is_time_to_submit(words: list[str | Path], tmp_path: Path) -> None:
    with Person(*words, "--max-turns", "2") as person:
        begin(person)
        person.enters("echo one")
        person.waits_for("1 turn is left: it is time to submit")
        person.enters("echo two")
        person.waits_for("the command was not run. It is time to submit")
        hand_in_nothing_wrong(person)
        assert person.ends() == 0
    assert record_of(tmp_path)["n_commands"] == 1


def test_a_long_output_is_shown_in_pages_of_the_terminals_size_at_that_time(
    words: list[str | Path], tmp_path: Path
) -> None:
    with Person(*words) as person:
        begin(person)
        person.resize(11, 80)
        person.enters("seq 1 100")
        assert "10\r\n" in person.waits_for("-- more: ")
        person.resize(31, 80)
        person.types("\r")
        page = person.waits_for("-- more: ")
        assert "11\r\n" in page
        assert "40\r\n" in page
        assert "41\r\n" not in page
        person.types("q")
        person.waits_for(PROMPT)
        hand_in_nothing_wrong(person)
        assert person.ends() == 0
    assert commands_of(tmp_path)[0]["n_bytes"] == sum(len(f"{n}\n") for n in range(1, 101))


def test_terminal_codes_in_the_evidence_are_shown_and_not_obeyed(words: list[str | Path]) -> None:
    with Person(*words) as person:
        begin(person)
        person.enters(r"printf 'a\033[2Jb\r\n'")
        person.waits_for(r"a\\x1b\[2Jb\\x0d\r\n")
        hand_in_nothing_wrong(person)
        assert person.ends() == 0


def test_names_that_do_not_exist_are_said_and_kept(words: list[str | Path], tmp_path: Path) -> None:
    with Person(*words) as person:
        begin(person)
        person.enters("submit")
        person.waits_for("root cause 1: ")
        person.enters("shop/Deployment/no-such")
        person.waits_for("No object of the snapshot is written like that")
        person.waits_for("why .*: ")
        person.enters("")
        person.waits_for("root cause 2: ")
        person.enters("")
        person.waits_for("y or n: ")
        person.enters("y")
        assert person.ends() == 0
    answer = json.loads((trial_of(tmp_path) / "diagnosis.json").read_bytes())
    assert answer == {"root_causes": [{"entity": "shop/Deployment/no-such"}]}


def test_a_person_without_a_terminal_is_refused(words: list[str | Path], tmp_path: Path) -> None:
    message = call_process(*words).refused()
    assert "--agent human: standard input is no terminal, so nobody can work there." in message
    assert not (tmp_path / "run").exists()


def test_a_person_does_one_trial_at_a_time(words: list[str | Path]) -> None:
    with Person(*words, "--jobs", "2") as person:
        person.waits_for("--jobs 2: a person works on one trial at a time")
        assert person.ends() == 2
