"""A person's shell: a terminal, the same isolation, and the terminal as it was afterwards."""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
import threading
import time

import pytest
from sandbox_helpers import sandbox_over

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox import Limits, open_sandbox
from diagnose_bench.sandbox.interactive import run_interactive
from diagnose_bench.sandbox.watcher import process_tree

pytestmark = pytest.mark.sandbox


@pytest.fixture(params=["bwrap", "landlock"])
def backend(request):
    return request.param


@pytest.fixture
def snapshot(tmp_path):
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "a.txt").write_text("evidence\n")
    return folder


class Person:
    """Types at one end of a terminal and reads what appears."""

    def __init__(self):
        self.keyboard, self.terminal = pty.openpty()
        self.seen = b""

    def __enter__(self):
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *_):
        os.close(self.terminal)
        self._reader.join()
        os.close(self.keyboard)

    def _read(self):
        while True:
            try:
                data = os.read(self.keyboard, 4096)
            except OSError:
                return
            if not data:
                return
            self.seen += data

    def types(self, text):
        os.write(self.keyboard, text.encode())

    def waits_for(self, text):
        deadline = time.monotonic() + 20
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.01)


def session(sandbox, script):
    """Exit code of the shell and what the person saw; `script(person)` runs beside it."""
    with Person() as person:
        code = attended(sandbox, person, script)
        time.sleep(0.05)
    return code, person.seen


def attended(sandbox, person, script):
    """Exit code of the shell; where the script fails it ends the shell, which would wait for ever."""
    failures = []

    def act():
        try:
            script(person)
        except BaseException as error:
            failures.append(error)
            for pid in process_tree(os.getpid())[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    actor = threading.Thread(target=act)
    actor.start()
    try:
        return run_interactive(sandbox, stdin=person.terminal, stdout=person.terminal)
    finally:
        actor.join()
        for failure in failures:
            raise failure


def test_person_works_in_the_sandbox(snapshot, backend):
    def script(person):
        person.waits_for(b"incident:")
        person.types("cat /snapshot/a.txt; id -un; test -e /home || echo isolated; touch /snapshot/x\r")
        person.waits_for(b"Read-only")
        person.types("exit 7\r")

    with sandbox_over(snapshot, backend=backend) as sandbox:
        code, seen = session(sandbox, script)
    assert code == 7
    assert b"evidence\r\nagent\r\nisolated\r\n" in seen
    assert b"no job control" not in seen


def test_interrupt_and_window_size_reach_the_shell(snapshot, backend):
    def script(person):
        person.waits_for(b"incident:")
        person.types("stty size; sleep 1000\r")
        person.waits_for(b"33 99")
        time.sleep(0.1)
        person.types("\x03")
        person.types("echo still-$((40 + 2))\r")
        person.waits_for(b"still-42")
        person.types("\x04")

    with sandbox_over(snapshot, backend=backend) as sandbox, Person() as person:
        fcntl.ioctl(person.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        attended(sandbox, person, script)


def test_a_script_that_fails_is_a_failure_and_no_hang(snapshot):
    def script(person):
        person.waits_for(b"incident:")
        raise AssertionError("not what was expected")

    with sandbox_over(snapshot) as sandbox, pytest.raises(AssertionError, match="not what was expected"):
        session(sandbox, script)


def test_terminal_is_put_back(snapshot, backend):
    with sandbox_over(snapshot, backend=backend) as sandbox, Person() as person:
        before = termios.tcgetattr(person.terminal)
        person.types("exit\r")
        assert run_interactive(sandbox, stdin=person.terminal, stdout=person.terminal) == 0
        assert termios.tcgetattr(person.terminal) == before


def test_nothing_can_be_typed_into_the_persons_terminal(snapshot, backend):
    code = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')"

    def script(person):
        person.waits_for(b"incident:")
        person.types(f'python3 -c "{code}"; exit 3\r')

    with sandbox_over(snapshot, backend=backend) as sandbox:
        exit_code, seen = session(sandbox, script)
    assert exit_code == 3
    assert b"PermissionError" in seen


def test_input_from_a_pipe_ends_the_shell(snapshot, backend):
    read_end, write_end = os.pipe()
    result_read, result_write = os.pipe()
    os.write(write_end, b"echo $((6 * 7)); cat /snapshot/a.txt\n")
    os.close(write_end)
    with sandbox_over(snapshot, backend=backend) as sandbox:
        assert run_interactive(sandbox, stdin=read_end, stdout=result_write) == 0
    os.close(result_write)
    with os.fdopen(result_read, "rb") as result:
        shown = result.read()
    os.close(read_end)
    assert b"42\r\nevidence\r\n" in shown


def test_limit_ends_the_shell_and_says_so(snapshot, backend):
    def script(person):
        person.waits_for(b"incident:")
        person.types("for i in $(seq 1000); do : > /scratch/$i; done; sleep 100\r")

    with sandbox_over(snapshot, Limits(scratch_entries=50), backend=backend) as sandbox:
        code, seen = session(sandbox, script)
    assert code == 137
    assert b"[shell stopped: limit scratch]" in seen


def test_failure_to_start_is_told(snapshot, monkeypatch):
    with sandbox_over(snapshot) as sandbox, Person() as person:
        sandbox.snapshot = snapshot / "gone"
        with pytest.raises(SandboxError, match="gone"):
            run_interactive(sandbox, stdin=person.terminal, stdout=person.terminal)


def test_shell_without_a_sandbox_is_interactive_too(snapshot, tmp_path, capfd):
    (tmp_path / "scratch").mkdir()

    def script(person):
        person.waits_for(b"incident:")
        person.types("cat $SNAPSHOT/a.txt; exit 5\r")

    with open_sandbox("none", snapshot, scratch=tmp_path / "scratch") as shell:
        code, seen = session(shell, script)
    assert code == 5
    assert b"evidence" in seen
    assert "WARNING" in capfd.readouterr().err
