"""Claims about the task text: one text, a digest over the template, nothing of a scenario but its times."""

from __future__ import annotations

import hashlib
from pathlib import Path

import diagnose_bench
from diagnose_bench.diagnosis import validate_submission
from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.task import render_task, task_digest, task_template

TEMPLATE = Path(diagnose_bench.__file__).parent / "templates" / "task.md"


def render(**changes: float) -> str:
    return render_task(
        detected_at="2025-03-01T10:30:00Z",
        window_start="2025-03-01T10:00:00Z",
        window_end="2025-03-01T10:45:00Z",
        **({"max_turns": 100, "time_limit_s": 1800.0, "command_s": 30.0, "max_command_s": 120.0} | changes),  # type: ignore[arg-type]
    )


def test_digest_is_over_the_template() -> None:
    assert task_digest() == hashlib.sha256(TEMPLATE.read_bytes()).hexdigest()


def test_times_and_limits_are_filled_in_and_no_place_is_left() -> None:
    text = render()
    assert "{{" not in text
    for value in (
        "2025-03-01T10:30:00Z",
        "2025-03-01T10:00:00Z",
        "2025-03-01T10:45:00Z",
        "100",
        "1800",
        "120",
    ):
        assert value in text


def test_limits_are_plain_numbers() -> None:
    text = render(time_limit_s=12345678.0, command_s=0.5)
    assert "Time: 12345678 seconds" in text
    assert "A command: 0.5 seconds" in text


def test_the_example_answer_is_one_that_the_submit_channel_accepts() -> None:
    block = task_template().split("```json\n")[1].split("```")[0]
    assert validate_submission(block.encode()).entities() == ("library/CronJob/catalogue-export",)


def test_an_agent_that_prints_the_task_has_not_answered_that_nothing_is_wrong() -> None:
    read = read_diagnosis(render().encode())
    assert read.diagnosis is None or read.diagnosis.entities() == ("library/CronJob/catalogue-export",)


def test_the_text_names_what_a_program_is_given() -> None:
    for word in (
        "/snapshot",
        "/scratch",
        "DIAGNOSE_BENCH_SHELL",
        "DIAGNOSE_BENCH_SUBMIT",
        "--timeout",
        "root_causes",
    ):
        assert word in task_template()


def test_the_example_entity_occurs_in_no_bundled_snapshot_or_truth() -> None:
    root = Path(diagnose_bench.__file__).parent.parent
    for folder in ("snapshots", "ground_truth"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                assert b"catalogue-export" not in path.read_bytes(), path
