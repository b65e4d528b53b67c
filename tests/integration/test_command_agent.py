"""Claims about programs as agents: what they are given; what they do wrong is an outcome and no more."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_stage import ACCEPTED, TRIAL, Stage, open_stage

from diagnose_bench.outcome import Limit, Outcome
from diagnose_bench.records import Usage

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


def test_shell_prints_the_output_and_returns_the_exit_code(stage: Stage) -> None:
    record = stage.bash(
        """
        output=$("$DIAGNOSE_BENCH_SHELL" -c 'cd /snapshot; ls; pwd; exit 7'); code=$?
        test "$code" = 7 || exit 3
        "$DIAGNOSE_BENCH_SHELL" --timeout 5 -c 'grep -c OOMKilled /snapshot/events.jsonl' >count || exit 4
        test "$(cat count)" = 1 || exit 5
        echo 'echo from standard input' | "$DIAGNOSE_BENCH_SHELL" -c - | grep -q 'from standard' || exit 6
        echo "$output" >&2
        echo '{"root_causes": []}' | "$DIAGNOSE_BENCH_SUBMIT"
        """
    )
    assert (record.outcome, record.n_turns, record.n_commands) == (Outcome.DIAGNOSED, 3, 3)
    assert record.observed
    listing = "alerts.jsonl\nevents.jsonl\nobjects.jsonl\nsnapshot.json\ntopology.json\n/snapshot\n"
    assert stage.outputs() == [listing, "1\n", "from standard input\n"]
    assert [command.exit_code for command in stage.store.commands(TRIAL)] == [7, 0, 0]
    assert stage.errors() == listing


def test_scratch_lasts_for_the_trial_and_shell_variables_do_not(stage: Stage) -> None:
    stage.bash(
        """
        "$DIAGNOSE_BENCH_SHELL" -c 'echo kept >/scratch/note; value=lost'
        "$DIAGNOSE_BENCH_SHELL" -c 'cat /scratch/note; echo "[$value]"'
        """
    )
    assert stage.outputs() == ["", "kept\n[]\n"]


def test_the_task_is_a_file_and_the_working_folder_is_private_and_empty(stage: Stage) -> None:
    record = stage.bash('cat "$DIAGNOSE_BENCH_TASK" >&2; ls -A >&2; echo own >file; stat -c %a .. >&2')
    assert stage.errors() == "# The task\n700\n"
    assert record.outcome is Outcome.NO_DIAGNOSIS
    assert record.reason == "The agent ended after 0 commands without handing in or printing anything."


def test_the_callers_environment_reaches_the_agent_and_never_the_sandbox(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sesame")
    stage.bash('echo "$MODEL_KEY" >&2; "$DIAGNOSE_BENCH_SHELL" -c env')
    assert stage.errors() == "sesame\n"
    assert "sesame" not in stage.outputs()[0]
    assert "DIAGNOSE_BENCH" not in stage.outputs()[0]


def test_a_command_is_stopped_at_its_limit_with_124(stage: Stage) -> None:
    stage.bash('"$DIAGNOSE_BENCH_SHELL" --timeout=0.3 -c "sleep 60"; echo $? >&2')
    assert stage.errors() == "124\n"
    assert [command.limit_hit for command in stage.store.commands(TRIAL)] == ["wall"]


@pytest.mark.parametrize(
    "arguments", ["", "-c", "ls", "--timeout x -c ls", "--timeout -1 -c ls", "-c ls more"]
)
def test_a_wrong_call_of_shell_is_explained_and_costs_no_turn(stage: Stage, arguments: str) -> None:
    record = stage.bash(f'"$DIAGNOSE_BENCH_SHELL" {arguments}; echo "code $?" >&2')
    assert "usage:" in stage.errors()
    assert stage.errors().endswith("code 125\n")
    assert record.n_turns == 0


def test_submit_takes_standard_input_or_a_file_and_answers_accepted(stage: Stage) -> None:
    record = stage.bash(f"""echo '{ACCEPTED}' | "$DIAGNOSE_BENCH_SUBMIT" >&2""")
    assert record.outcome is Outcome.DIAGNOSED
    assert record.reason == "The diagnosis was submitted."
    assert stage.errors() == "accepted\n"
    stage.bash(f"""echo '{ACCEPTED}' >answer; "$DIAGNOSE_BENCH_SUBMIT" answer >&2""")
    assert stage.errors() == "accepted\n"
    assert stage.diagnosis() == (ACCEPTED + "\n").encode()


def test_submit_names_schema_errors_and_never_says_whether_it_is_right(stage: Stage) -> None:
    record = stage.bash(
        f"""
        echo '{{"root_causes": [{{"name": "x"}}]}}' | "$DIAGNOSE_BENCH_SUBMIT" >&2; echo "code $?" >&2
        echo '{ACCEPTED.replace("cart", "no-such-thing")}' | "$DIAGNOSE_BENCH_SUBMIT" >&2
        """
    )
    assert record.outcome is Outcome.DIAGNOSED
    said = stage.errors()
    assert "root_causes[0]" in said
    assert said.endswith("code 1\naccepted\n")


def test_an_accepted_submission_ends_the_shell_and_the_last_accepted_one_counts(stage: Stage) -> None:
    better = ACCEPTED.replace("cart", "checkout")
    record = stage.bash(
        f"""
        "$DIAGNOSE_BENCH_SHELL" -c true
        echo '{ACCEPTED}' | "$DIAGNOSE_BENCH_SUBMIT" >&2
        "$DIAGNOSE_BENCH_SHELL" -c 'echo still here' >&2; echo "code $?" >&2
        echo '{better}' | "$DIAGNOSE_BENCH_SUBMIT" >&2; echo "code $?" >&2
        echo 'not this' | "$DIAGNOSE_BENCH_SUBMIT" >/dev/null; echo "code $?" >&2
        """
    )
    assert stage.diagnosis() == (better + "\n").encode()
    assert stage.errors() == (
        "accepted\nA diagnosis was submitted; no more commands are run.\ncode 125\naccepted\ncode 0\ncode 1\n"
    )
    assert (record.outcome, record.n_commands) == (Outcome.DIAGNOSED, 1)
    assert (record.n_submissions, record.counted_submission) == (3, 2)
    kept = list(stage.store.submissions(TRIAL))
    assert [(one.n, one.accepted, one.n_bytes) for one in kept] == [
        (1, True, len(ACCEPTED) + 1),
        (2, True, len(better) + 1),
        (3, False, 9),
    ]
    folder = stage.store.trial_folder(TRIAL)
    for one, text in zip(kept, (ACCEPTED, better, "not this"), strict=True):
        assert (folder / str(one.file)).read_bytes() == f"{text}\n".encode()
        assert one.sha256 == hashlib.sha256(f"{text}\n".encode()).hexdigest()
    # The clock stopped at the one that counts.
    assert record.seconds == kept[1].seconds


@pytest.mark.parametrize("size", [2_000_000, (1 << 20) + 1])
def test_a_submission_that_is_too_large_is_malformed_and_on_record(stage: Stage, size: int) -> None:
    record = stage.python(
        f"""
        import os, subprocess
        subprocess.run([os.environ["DIAGNOSE_BENCH_SUBMIT"]], input=b'[' + b' ' * {size - 2} + b']')
        """
    )
    assert record.outcome is Outcome.MALFORMED_DIAGNOSIS
    assert f"{size} bytes; at most 1048576 are read" in record.reason
    (one,) = stage.store.submissions(TRIAL)
    assert (one.accepted, one.n_bytes) == (False, size)
    assert (stage.store.trial_folder(TRIAL) / str(one.file)).stat().st_size == 1 << 20


def test_a_submission_after_the_time_limit_changes_nothing_and_is_on_record(stage: Stage) -> None:
    record = stage.bash(
        f"""
        trap 'echo "{ACCEPTED.replace('"', chr(92) + '"')}" | "$DIAGNOSE_BENCH_SUBMIT" >&2; exit' TERM
        while :; do sleep 0.05; done
        """,
        time_limit_s=1.0,
        confined=False,
    )
    assert (record.outcome, record.counted_submission) == (Outcome.TIME_LIMIT, None)
    (one,) = stage.store.submissions(TRIAL)
    assert (one.accepted, one.message) == (False, "The trial is over; nothing more is taken.")


def test_what_a_program_reports_of_its_tokens_and_cost_is_kept_as_its_own_word(stage: Stage) -> None:
    record = stage.bash(
        f"""
        echo '{{"input_tokens": 1200, "output_tokens": 90, "cost_usd": 0.25, "model": "mine"}}' \
            >"$DIAGNOSE_BENCH_USAGE"
        echo '{ACCEPTED}' | "$DIAGNOSE_BENCH_SUBMIT"
        """
    )
    assert record.usage == Usage(input_tokens=1200, output_tokens=90, cost_usd=0.25, reported_by_agent=True)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '{\"input_tokens\": -1}' >$F", "$.input_tokens"),
        ("echo '{\"input_tokens\": 1.5}' >$F", "$.input_tokens"),
        ("echo '{\"cost_usd\": NaN}' >$F", "$.cost_usd"),
        ('echo \'{"cost_usd": "1"}\' >$F', "$.cost_usd"),
        ("echo '[1]' >$F", "$"),
        ("echo nonsense >$F", "it is not JSON"),
        ("head -c 70000 /dev/zero >$F", "larger than 65536 bytes"),
        ("mkfifo $F", "no regular file"),
        ("mkdir $F", "no regular file"),
        ("ln -s /etc/passwd $F", "cannot be read"),
    ],
)
def test_a_report_of_usage_that_cannot_be_understood_is_left_out_and_harms_nothing(
    stage: Stage, script: str, reason: str
) -> None:
    submit = f"""echo '{ACCEPTED}' | "$DIAGNOSE_BENCH_SUBMIT" """
    record = stage.bash(f'F="$DIAGNOSE_BENCH_USAGE"; {script}; {submit}')
    assert record.outcome is Outcome.DIAGNOSED
    assert (record.usage.input_tokens, record.usage.cost_usd, record.usage.reported_by_agent) == (
        None,
        None,
        False,
    )
    assert reason in record.usage.problem


def test_without_a_report_nothing_is_known_of_its_usage(stage: Stage) -> None:
    assert stage.bash("true").usage == Usage()


def test_garbage_alone_is_malformed_and_kept(stage: Stage) -> None:
    # The answer of SUBMIT is what this agent prints last; it is no diagnosis either.
    record = stage.bash('printf "it was DNS" | "$DIAGNOSE_BENCH_SUBMIT" || true')
    assert record.outcome is Outcome.MALFORMED_DIAGNOSIS
    assert record.reason.startswith("No submission was accepted; the last one was wrong:")
    assert stage.diagnosis() == b"it was DNS"


def test_a_refusal_can_be_handed_in(stage: Stage) -> None:
    record = stage.bash("""echo '{"refused": true}' | "$DIAGNOSE_BENCH_SUBMIT" """)
    assert record.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (f"echo 'So it was:'; echo '{ACCEPTED}'", Outcome.DIAGNOSED),
        (f"echo '{ACCEPTED}'; exit 1", Outcome.DIAGNOSED),
        ("true", Outcome.NO_DIAGNOSIS),
        ("echo; echo ' '", Outcome.NO_DIAGNOSIS),
        ("echo I cannot help with that", Outcome.MALFORMED_DIAGNOSIS),
        ("""echo '{"refused": true}'""", Outcome.REFUSED),
        ("echo nothing useful; exit 3", Outcome.AGENT_ERROR),
        ("kill -9 $$", Outcome.AGENT_ERROR),
        ("exec >&-; sleep 0.2; exit 0", Outcome.NO_DIAGNOSIS),
        ("yes | head -c 100000000", Outcome.MALFORMED_DIAGNOSIS),
        ("yes >&2 & yes >&2 & head -c 30000000 /dev/zero >&2; exit 0", Outcome.NO_DIAGNOSIS),
    ],
)
@pytest.mark.parametrize("confined", [True, False])
def test_how_a_program_ends_decides_the_outcome(
    stage: Stage, script: str, outcome: Outcome, confined: bool
) -> None:
    assert stage.bash(script, confined=confined).outcome is outcome


def test_a_crash_is_told_with_its_last_words(stage: Stage) -> None:
    record = stage.python("raise RuntimeError('no key')")
    assert record.outcome is Outcome.AGENT_ERROR
    assert record.reason == (
        "The agent ended with exit code 1 and left no readable diagnosis. "
        "Its last words on standard error: RuntimeError: no key"
    )


def test_a_file_that_is_no_program_is_an_agent_error(stage: Stage, tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_bytes(b"\x00\x01\x02")
    program.chmod(0o755)
    for confined in (True, False):
        record = stage.program([str(program)], confined=confined)
        assert record.outcome is Outcome.AGENT_ERROR, record
        how = "ended with exit code 126" if confined else "could not be started"
        assert how in record.reason


@pytest.mark.parametrize("confined", [True, False])
def test_an_agent_that_never_ends_is_stopped_at_the_time_limit(stage: Stage, confined: bool) -> None:
    record = stage.bash("trap '' TERM; while :; do sleep 0.1; done", time_limit_s=0.5, confined=confined)
    assert (record.outcome, record.limit_hit) == (Outcome.TIME_LIMIT, Limit.TIME)
    assert record.reason == "No diagnosis within the time limit of 0.5 seconds."


def test_a_command_does_not_outlive_the_time_limit_of_its_trial(stage: Stage) -> None:
    record = stage.bash('"$DIAGNOSE_BENCH_SHELL" --timeout 100 -c "sleep 100"', time_limit_s=1.0)
    assert record.outcome is Outcome.TIME_LIMIT
    # Its own limit and the end of the trial fall together.
    (command,) = stage.store.commands(TRIAL)
    assert command.limit_hit in ("wall", "trial")


def test_a_diagnosis_before_the_time_limit_counts_also_if_the_agent_hangs(stage: Stage) -> None:
    record = stage.bash(f"""echo '{ACCEPTED}' | "$DIAGNOSE_BENCH_SUBMIT"; sleep 100""", time_limit_s=30.0)
    assert (record.outcome, record.limit_hit) == (Outcome.DIAGNOSED, None)


def test_what_was_printed_before_the_time_limit_counts(stage: Stage) -> None:
    record = stage.bash(f"echo '{ACCEPTED}'; sleep 100", time_limit_s=3.0)
    assert (record.outcome, record.limit_hit) == (Outcome.DIAGNOSED, Limit.TIME)


@pytest.mark.parametrize("confined", [True, False])
def test_nothing_that_the_agent_started_is_left(stage: Stage, confined: bool) -> None:
    mark = f"left-{os.getpid()}-{time.monotonic_ns()}"
    stage.python(
        f"""
        import os, subprocess
        script = "import time; time.sleep(1000)"
        argv = ["{sys.executable}", "-c", script, "{mark}"]
        subprocess.Popen(argv)
        subprocess.Popen(argv, start_new_session=True)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(argv[0], argv)
            os._exit(0)
        """,
        confined=confined,
    )
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert mark not in running
