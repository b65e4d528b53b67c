"""Claims about ``shell``: the command's own exit code, 125 for a failure of ours, a person's terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import time
from pathlib import Path

import pytest
from cli_helpers import COMMAND, Called, call, call_process, reachable, small_suite

pytestmark = pytest.mark.sandbox

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_suite(tmp_path_factory.mktemp("shell"))


def in_shell(suite: Path, command: str, *more: str | Path, stdin: bytes | None = None) -> Called:
    return call("shell", "1", "--suite", suite, "-c", command, *more, stdin=stdin)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 7, 124, 125, 255])
def test_the_exit_code_is_the_commands_own(suite: Path, code: int) -> None:
    done = in_shell(suite, f"echo said; exit {code}")
    assert (done.code, done.out, done.err) == (code, "said\n", "")


def test_it_shows_what_an_agent_sees(suite: Path) -> None:
    done = in_shell(suite, "cd /snapshot; ls; wc -l < events.jsonl; pwd; ls -A /scratch")
    assert done.code == 0
    assert done.out.split() == [
        *["alerts.jsonl", "events.jsonl", "objects.jsonl", "snapshot.json", "topology.json"],
        *["1", "/snapshot"],
    ]


def test_a_command_killed_by_a_signal_ends_as_a_shell_says_it(suite: Path) -> None:
    assert in_shell(suite, "kill -9 $$").code == 137


@pytest.mark.parametrize(
    ("data", "code", "out"),
    [
        (b"echo one\nexit 3\n", 3, "one\n"),
        (b"", 0, ""),
        (b"printf '\xc3\xa4'", 0, "\u00e4"),
        (b"printf '\xff' | od -An -tx1", 0, " ff\n"),
    ],
)
def test_a_dash_reads_the_command_from_stdin(suite: Path, data: bytes, code: int, out: str) -> None:
    done = in_shell(suite, "-", stdin=data)
    assert (done.code, done.out) == (code, out)


def test_an_endless_command_on_stdin_is_refused_and_not_read_to_its_end(suite: Path) -> None:
    words = ["shell", "1", "--suite", suite, "-c", "-"]
    done = call_process(*words, prefix=("bash", "-c", 'yes echo | "$@"', "_"))
    assert done.code == 126
    assert "command not run" in done.out


def test_output_is_cut_as_for_an_agent(suite: Path) -> None:
    done = in_shell(suite, "yes | head -c 200000")
    assert done.code == 0
    assert len(done.out) < 40_000
    assert "[" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shell"], "Give either the id of a scenario or --snapshot DIR."),
        (["shell", "nope"], "has no scenario 'nope'. It has scenario-001"),
        (["shell", "1", "--snapshot", "/usr"], "Give either"),
        (["shell", "1", "--unchecked"], "--unchecked goes with --snapshot"),
        (["shell", "1", "--suite", "nope"], "neither a bundled suite nor a folder"),
        (["shell", "1", "--nonsense"], "No such option: --nonsense"),
        (["shell", "1", "2"], "unexpected extra argument"),
        (["shell", "1", "-c", "true", "-c"], "requires an argument"),
        (["shell", "1", "--memory-mb", "x"], "Invalid value for '--memory-mb'"),
        (["shell", "1", "--memory-mb", "0"], "--memory-mb 0: give a number above 0"),
        (["shell", "1", "--memory-mb", "99999999999999999999"], "at most 1000000"),
        (["shell", "1", "--disk-mb", "-1"], "--disk-mb -1: give a number above 0"),
        (["shell", "1", "--time-limit", "nan"], "--time-limit nan: give a number above 0"),
        (["shell", "1", "--time-limit", "inf"], "--time-limit inf: give a number above 0"),
        (["shell", "--snapshot", "/nope"], "/nope: no folder is there."),
        (["shell", "--snapshot", "/etc/passwd"], "/etc/passwd: no folder is there."),
        (["shell", "--snapshot", "/"], "which the sandbox must not show"),
    ],
)
def test_every_failure_of_ours_is_125(words: list[str], said: str) -> None:
    more = [] if "-c" in words else ["-c", "true"]
    assert said in call(*words, *more).refused(125)


def test_a_sandbox_that_is_unknown_is_125(suite: Path) -> None:
    assert "Known are auto, bwrap, landlock" in in_shell(suite, "true", "--sandbox", "docker").refused(125)


def test_no_bubblewrap_is_125_with_what_to_install(suite: Path, tmp_path: Path) -> None:
    # An empty folder over every place where it could be.
    hidden = "PATH=/nowhere"
    done = call_process(
        *["shell", "1", "--suite", suite, "--sandbox", "bwrap", "-c", "true"],
        prefix=(
            "bwrap",
            "--dev-bind",
            "/",
            "/",
            "--bind",
            "/dev/null",
            shutil.which("bwrap") or "",
            "env",
            hidden,
        ),
    )
    assert "No sandbox: " in done.refused(125)
    assert "apt-get install bubblewrap" in done.err


# Limits.


def test_the_time_limit_ends_the_command_with_124(suite: Path) -> None:
    done = in_shell(suite, "echo before; sleep 60", "--time-limit", "1")
    assert done.code == 124
    assert done.out.startswith("before\n")
    assert "ran longer than 1 s" in done.out


def test_the_memory_limit_holds(suite: Path) -> None:
    command = "python3 -c 'x = bytearray(300 << 20); print(len(x))'"
    assert in_shell(suite, command).out == f"{300 << 20}\n"
    assert in_shell(suite, command, "--memory-mb", "200").code != 0


def test_the_disk_limit_holds(suite: Path) -> None:
    command = "head -c 3000000 /dev/zero > /scratch/big && echo written"
    assert in_shell(suite, command).out == "written\n"
    assert "written" not in in_shell(suite, command, "--disk-mb", "1").out


# Snapshots of a person's own, and scratch folders that stay.


def test_any_folder_can_be_looked_at_and_not_changed(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "note").write_text("here")
    done = call("shell", "--snapshot", folder, "-c", "cat /snapshot/note; echo x >/snapshot/note")
    assert done.out.startswith("here")
    assert done.code == 1
    assert (folder / "note").read_text() == "here"


def test_a_link_that_leaves_the_folder_is_refused_unless_unchecked(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "mine"
    secret.write_text("secret")
    folder.mkdir()
    (folder / "way").symlink_to(secret)
    words = ["shell", "--snapshot", folder, "-c", "cat /snapshot/way || echo not there"]
    assert "way: cannot be in a snapshot: it is a link that leaves the folder." in call(*words).refused(125)
    done = call(*words, "--unchecked")
    # The link is there, and what it points to is not.
    assert done.code == 0
    assert "not there" in done.out
    assert "secret\n" not in done.out


def test_a_device_is_refused_unless_unchecked(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    words = ["shell", "--snapshot", folder, "-c", "ls /snapshot"]
    assert "pipe" in call(*words).refused(125)
    done = call(*words, "--unchecked")
    assert (done.code, done.out) == (0, "")


def test_a_scratch_folder_is_made_and_stays(suite: Path, tmp_path: Path) -> None:
    scratch = reachable(tmp_path) / "kept"
    assert in_shell(suite, "echo kept >/scratch/file", "--scratch", scratch).code == 0
    assert in_shell(suite, "cat /scratch/file", "--scratch", scratch).out == "kept\n"
    assert in_shell(suite, "cat /scratch/file").code == 1


@pytest.mark.parametrize("place", ["/usr/share", "/proc/nope", "{truths}", "{suite}"])
def test_a_scratch_folder_is_not_put_just_anywhere(suite: Path, place: str) -> None:
    folder = place.format(truths=suite.parent.parent / "ground_truth" / "small", suite=suite / "scenario-001")
    assert folder in in_shell(suite, "true", "--scratch", folder).refused(125)


def test_without_isolation_it_says_so(suite: Path) -> None:
    done = in_shell(suite, 'cat "$SNAPSHOT/events.jsonl"; exit 4', "--sandbox", "none")
    assert done.code == 4
    assert "OOMKilled" in done.out
    assert done.err.startswith("WARNING: --sandbox none")


# A person at a terminal.


class Terminal:
    """A person: types into a real pseudo-terminal and reads what appears."""

    def __init__(self, *words: str | Path) -> None:
        self.child, self.end = pty.fork()
        if self.child == 0:
            try:
                os.execve(COMMAND[0], [*COMMAND, *map(str, words)], {**os.environ, "TERM": "dumb"})
            finally:
                os._exit(99)
        self.shown = ""

    def read_until(self, text: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} does not appear in {self.shown!r}"
            if select.select([self.end], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.end, 4096).decode(errors="replace")
                except OSError:
                    pytest.fail(f"ended before {text!r}: {self.shown!r}")
        before, _, self.shown = self.shown.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def code(self) -> int:
        with contextlib.suppress(OSError):
            while os.read(self.end, 4096):
                pass
        os.close(self.end)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_person_gets_a_terminal_in_the_sandbox(suite: Path) -> None:
    terminal = Terminal("shell", "1", "--suite", suite)
    terminal.read_until("incident:~$ ")
    terminal.type("tty; cat /snapshot/events.jsonl\n")
    assert "OOMKilled" in terminal.read_until("incident:~$ ")
    # Ctrl-C ends what runs and not the shell.
    terminal.type("sleep 1000\n")
    terminal.read_until("sleep 1000")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.read_until("incident:~$ ")
    # Here variables and the working directory last, as in any shell.
    terminal.type("cd /snapshot; x=5\n")
    terminal.read_until("incident:/snapshot$ ")
    terminal.type("exit $x\n")
    assert terminal.code() == 5


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_the_end_of_input_ends_the_terminal(suite: Path) -> None:
    terminal = Terminal("shell", "2", "--suite", suite)
    terminal.read_until("incident:~$ ")
    terminal.type("\x04")
    assert terminal.code() == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_an_interrupted_command_ends_with_130_and_leaves_nothing(suite: Path) -> None:
    # A number that no other run of this test has at the same time.
    patience = f"1000.{os.getpid()}"
    terminal = Terminal("shell", "1", "--suite", suite, "-c", f"sleep {patience}")
    deadline = time.monotonic() + PATIENCE_S
    while not _sleeps(patience):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(terminal.child, signal.SIGINT)
    terminal.read_until("diagnose-bench: interrupted.")
    assert terminal.code() == 130
    assert not _sleeps(patience)


def _sleeps(patience: str) -> bool:
    """Whether the command itself runs; the harness has it as one word."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes() == f"sleep\0{patience}\0".encode():
                return True
    return False


def test_commands_can_be_piped_in(suite: Path) -> None:
    done = call_process("shell", "1", "--suite", suite, stdin=b"echo one two | wc -w\nexit 6\n")
    assert done.code == 6
    assert "2" in done.out
