"""Claims about what happens around a command: interrupts, full disks, streams that close or fill up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_helpers import (
    COMMAND,
    call,
    call_process,
    reachable,
    replayed,
    script,
    small_suite,
    tree,
    write_answers,
)

pytestmark = pytest.mark.sandbox

PATIENCE_S = 120.0


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


@contextlib.contextmanager
def started(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """The command as the leader of a process group of its own, as a terminal starts it."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.02)


def waiting_agent(folder: Path) -> Path:
    """Answers at once; in a trial of scenario-002 it says that it is there and waits while `hold` exists."""
    return script(
        folder / "agent.sh",
        f"""
        found=$("$DIAGNOSE_BENCH_SHELL" -c 'cat /snapshot/events.jsonl')
        case $found in
        *billing*) name=billing; echo $$ >{folder}/here; while [ -e {folder}/hold ]; do sleep 0.05; done;;
        *) name=cart;;
        esac
        printf '{{"root_causes": [{{"entity": "shop/Deployment/%s"}}]}}' $name | "$DIAGNOSE_BENCH_SUBMIT"
        """,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_keeps_what_is_finished_and_resumes_to_the_same_scorecard(
    suite: Path, tmp_path: Path, number: signal.Signals
) -> None:
    agent, hold = waiting_agent(tmp_path), tmp_path / "hold"
    words = ["run", "--agent", agent, "--name", "mine", "--suite", suite, "--repeats", "2", "--no-baselines"]
    out = tmp_path / "cut"
    hold.touch()
    before = set(os.listdir(tmp_path))
    with started(*words, "--out", out) as process:
        wait_for(tmp_path / "here", process)
        # Ctrl-C in a terminal reaches every process of the group; the others reach the one that is named.
        os.killpg(process.pid, number) if number is signal.SIGINT else process.send_signal(number)
        result, message = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, result) == (3, "")
    assert message == (
        f"diagnose-bench: {out}: interrupted; 2 of 4 trials are finished and kept. "
        f"Go on with the same command, --out {out} and --resume.\n"
    )
    assert set(os.listdir(tmp_path)) - before == {"here", "cut"}
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(agent) not in running
    finished = tree(out / "trials" / "scenario-001")
    assert len([name for name in finished if name.endswith("trial.json")]) == 2
    assert not list((out / "trials").glob("scenario-002/*/trial.json"))
    assert not list(out.rglob("*.tmp"))
    assert call("score", out).code == 3

    hold.unlink()
    assert call(*words, "--out", out, "--resume").code == 0
    assert tree(out / "trials" / "scenario-001") == finished
    assert (out / "trials" / "scenario-002" / "1.unfinished-1" / "commands.jsonl").is_file()
    assert call(*words, "--out", tmp_path / "whole").code == 0
    assert call("score", out).code == call("score", tmp_path / "whole").code == 0
    assert _comparable(out) == _comparable(tmp_path / "whole")


def _comparable(run: Path) -> object:
    """The scorecard without what differs between any two runs: the run's id and the seconds."""
    value = json.loads((run / "scorecard.json").read_text())
    del value["run_id"], value["cost"]["seconds"]
    for scenario in value["scenarios"]:
        for trial in scenario["trials"]:
            del trial["seconds"]
    return value


def test_a_run_that_was_killed_resumes(suite: Path, tmp_path: Path) -> None:
    agent, hold = waiting_agent(tmp_path), tmp_path / "hold"
    words = ["run", "--agent", agent, "--suite", suite, "--repeats", "1", "--no-baselines"]
    hold.touch()
    with started(*words, "--out", tmp_path / "run") as process:
        wait_for(tmp_path / "here", process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
    hold.unlink()
    assert call("score", tmp_path / "run").code == 3
    assert call(*words, "--out", tmp_path / "run", "--resume").code == 0
    scored = call("score", tmp_path / "run", "--format", "json").json()
    assert scored["headline"]["average_precision_at_full_recall"] == 1.0


def test_a_second_run_on_the_folder_is_refused_while_readers_are_not(suite: Path, tmp_path: Path) -> None:
    agent, hold, out = waiting_agent(tmp_path), tmp_path / "hold", tmp_path / "run"
    words = ["run", "--agent", agent, "--suite", suite, "--repeats", "1", "--no-baselines", "--out", out]
    hold.touch()
    with started(*words) as process:
        wait_for(tmp_path / "here", process)
        assert "a run is here already. Add --resume" in call(*words).refused()
        message = call(*words, "--resume").refused()
        assert "another process is running here. Wait until it ends, or choose another --out." in message
        assert call("score", out).code == 3
        assert call("report", out).code == 0
        hold.unlink()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, "")
    assert call("score", out).code == 0


def test_an_interrupt_outside_of_a_run_is_one_line(tmp_path: Path, suite: Path) -> None:
    os.mkfifo(tmp_path / "answers.jsonl")
    words = ["import", "diagnoses", tmp_path / "answers.jsonl", "--agent", "a", "--suite", suite]
    # Opening the other end waits until the command reads.
    with (
        started(*words, "--out", tmp_path / "run") as process,
        (tmp_path / "answers.jsonl").open("w"),
    ):
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, message) == (3, "diagnose-bench: interrupted.\n")
    assert not [path for path in tmp_path.iterdir() if "run" in path.name]


# A disk that is full: a small file system of its own, for one command.


def on_small_disk(folder: Path, n_bytes: int) -> tuple[str, ...]:
    folder.mkdir(exist_ok=True)
    return ("bwrap", "--dev-bind", "/", "/", "--size", str(n_bytes), "--tmpfs", str(folder))


def test_a_full_disk_ends_the_run_keeps_what_is_finished_and_says_so(suite: Path, tmp_path: Path) -> None:
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    words = ["run", "--agent", "baseline:alerting", "--suite", suite, "--repeats", "3", "--out", disk / "run"]
    done = call_process(
        *words,
        prefix=(
            *on_small_disk(disk, 90_000),
            "bash",
            "-c",
            f'"$@"; code=$?; cp -r {disk} {kept}; exit $code',
            "_",
        ),
    )
    message = done.refused()
    assert "cannot write: No space left on device." in message
    assert "Finished trials are kept" in message
    assert "--resume" in message
    finished = list((kept / "run" / "trials").rglob("trial.json"))
    assert finished
    assert all(json.loads(path.read_text())["outcome"] == "diagnosed" for path in finished)
    assert not list(kept.rglob("*.tmp"))
    # With room again the run goes on where it was, and nothing runs twice.
    times = {path: path.stat().st_mtime_ns for path in finished}
    assert call(*words[:-1], kept / "run", "--resume").code == 0
    assert {path: path.stat().st_mtime_ns for path in finished} == times
    assert call("score", kept / "run").code == 0


@pytest.mark.parametrize("what", ["run", "score", "html", "import", "copies"])
def test_on_a_full_disk_nothing_is_half_written(suite: Path, tmp_path: Path, what: str) -> None:
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    run = replayed(reachable(tmp_path), suite)
    call("score", run)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"scenario_id": "1", "repeat": 1, "entities": []}\n')
    words: list[str | Path] = {
        "run": ["run", "--agent", f"replay:{tmp_path / 'answers'}", "--suite", suite, "--out", disk / "new"],
        "score": ["score", disk / "run", "--profile", "strict"],
        "html": ["report", disk / "run", "--html", disk / "run" / "report.html"],
        "import": ["import", "diagnoses", rows, "--agent", "a", "--suite", suite, "--out", disk / "new"],
        "copies": ["run", "--agent", "baseline:empty", "--suite", suite, "--out", tmp_path / "new"],
    }[what]
    fill = f"cp -r {run} {disk}/run; dd if=/dev/zero of={disk}/fill bs=1k status=none 2>/dev/null"
    place = f"export TMPDIR={disk};" if what == "copies" else ""
    shell = f'{fill}; {place} "$@"; code=$?; rm {disk}/fill; cp -r {disk} {kept}; exit $code'
    done = call_process(*words, prefix=(*on_small_disk(disk, 200_000), "bash", "-c", shell, "_"))
    assert "No space left on device" in done.refused()
    assert tree(kept / "run") == tree(run)
    assert not list(kept.rglob("*.tmp"))
    assert not list(kept.rglob("run.json")) or list(kept.rglob("run.json")) == [kept / "run" / "run.json"]
    assert not (tmp_path / "new").exists()


# Streams.


@pytest.mark.parametrize("more", [[], ["--format", "json"]])
def test_a_reader_that_goes_away_does_not_change_the_exit_code(
    suite: Path, tmp_path: Path, more: list[str]
) -> None:
    run = replayed(tmp_path, suite)
    assert call("score", run).code == 0
    for words, code in ((["report", run], 0), (["score", run], 0), (["schema", "scorecard"], 0)):
        options = [] if words[0] == "schema" else more
        assert _with_a_closed_pipe(*words, *options) == (code, words[0] == "score")
    (run / "trials" / "scenario-001" / "1" / "trial.json").unlink()
    assert _with_a_closed_pipe("score", run, *more) == (3, True)
    assert _with_a_closed_pipe("--help") == (0, False)
    assert _with_a_closed_pipe("shell", "1", "--suite", suite, "-c", "echo out; exit 7") == (7, False)


def _with_a_closed_pipe(*words: str | Path) -> tuple[int, bool]:
    """Exit code, and whether something other than a traceback was said on stderr."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*COMMAND, *map(str, words)], stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=300
        )
    finally:
        os.close(write_end)
    assert "Traceback" not in done.stderr
    assert "rror" not in done.stderr
    return done.returncode, bool(done.stderr)


def test_a_result_that_cannot_be_written_is_an_error(suite: Path, tmp_path: Path) -> None:
    run = replayed(tmp_path, suite)
    call("score", run)
    for words, code in (
        (["report", run], 2),
        (["schema", "run"], 2),
        (["--version"], 2),
        (["run", "--help"], 2),
        (["shell", "1", "--suite", suite, "-c", "echo out"], 125),
    ):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*COMMAND, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300
            )
        assert done.returncode == code, done.stderr
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("gaps", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_harm_nothing(suite: Path, tmp_path: Path, gaps: str) -> None:
    out = tmp_path / "run"
    words = ["run", "--agent", "baseline:alerting", "--suite", suite, "--repeats", "1", "--out", out]
    closing = ("bash", "-c", f'exec "$@" {gaps}', "_")
    assert call_process(*words, prefix=closing).code == 0
    assert call_process("score", out, prefix=closing).code == 0
    for path, data in tree(out).items():
        # Nothing that was meant for a stream went into a file.
        assert b"Next: " not in data, path
        assert b"Scorecard: " not in data, path
    assert call("report", out).code == 0


def test_messages_that_nobody_can_read_do_not_change_the_exit_code() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "score", "/nope"], stderr=full, stdout=subprocess.PIPE, timeout=300)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_terminal_of_another_alphabet_gets_the_report_too(suite: Path, tmp_path: Path) -> None:
    run = replayed(tmp_path, suite)
    call("score", run)
    done = call_process("report", run, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.code, done.err) == (0, "")
    assert "50.0" in done.out


def test_progress_is_quiet_where_there_is_no_terminal_and_goes_to_stderr_where_there_is(
    suite: Path, tmp_path: Path
) -> None:
    answers = write_answers(tmp_path / "answers", {f"scenario-00{n}/1": b"[]" for n in (1, 2)})
    words = ["run", "--agent", f"replay:{answers}", "--suite", suite, "--repeats", "1", "--out"]
    assert call_process(*words, tmp_path / "quiet").err == ""
    terminal, other_end = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, words), str(tmp_path / "bar")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(other_end)
    shown = b""
    with contextlib.suppress(OSError):  # the last writer has gone
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    result, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert b"replay:" in shown
    assert b"2/2" in shown
    assert result.startswith(b"Run: ")
    assert b"\x1b" not in result
