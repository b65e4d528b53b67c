"""A person's terminal: a line editor with history and completion, pages, and Ctrl-C while a command runs.

Knows bytes and keys, and nothing of trials. What is shown is untrusted: control characters are made visible.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType, TracebackType
from typing import Any, NoReturn, Self

from diagnose_bench.errors import UsageError
from diagnose_bench.text import visible

_CANCEL = b"\x03"
_MORE = "-- more: Enter the next page, a all of it, q no more --"
_MOST_AHEAD = 64 << 10
_MOST_SHOWN = 40
_LOOK_S = 0.1


class Cancelled(Exception):
    """Ctrl-C while a line was typed."""


class Ended(Exception):
    """Ctrl-D on an empty line."""


class TimeUp(Exception):
    """The time for an answer is over."""


Completer = Callable[[str], Sequence[str]]


class Terminal:
    """The terminal that this process has; a context manager, since Ctrl-C means something else inside.

    Raises
    ------
    UsageError
        It has none.
    """

    def __init__(self) -> None:
        require_terminal()
        self._source = sys.stdin.fileno()
        self._ahead = ""
        self._readline = _line_editor()
        self._is_asking = False
        self._was_interrupted = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, _signal: int, _frame: FrameType | None) -> None:
        """Ctrl-C drops the line that is typed; between a line and its command it is meant for the command."""
        if self._is_asking:
            raise Cancelled
        self._was_interrupted = True

    def say(self, text: str) -> None:
        """Show a text, as it is.

        Raises
        ------
        KeyboardInterrupt
            The terminal is gone: nobody is there any more.
        """
        try:
            sys.stdout.write(visible(text) + "\n")
            sys.stdout.flush()
        except OSError as error:
            raise KeyboardInterrupt from error

    def ask(
        self,
        prompt: str,
        *,
        within_s: float | None = None,
        complete: Completer | None = None,
        remember: bool = False,
    ) -> str:
        """Read one line.

        Parameters
        ----------
        prompt : str
            Shown before it.
        within_s : float, optional
            Seconds after which nothing is waited for any more.
        complete : callable, optional
            From what was typed to what it may mean; by default there is nothing to complete.
        remember : bool
            Whether the line can be called back with the arrow keys.

        Raises
        ------
        Cancelled, Ended, TimeUp
            Ctrl-C, Ctrl-D, and the end of the time.
        KeyboardInterrupt
            The terminal is gone, or the process is to end.
        """
        self._was_interrupted = False
        if within_s is not None and within_s <= 0.0:
            raise TimeUp
        line, newline, rest = self._ahead.partition("\n")
        self._ahead = rest
        if newline:
            self.say(prompt + line)
        else:
            line = self._edited(prompt, line, within_s, complete)
        if remember and line.strip() and self._readline is not None:
            self._readline.add_history(line)
        return line

    def _edited(self, prompt: str, begun: str, within_s: float | None, complete: Completer | None) -> str:
        if self._readline is not None:
            _set_up(self._readline, prompt, begun, complete)
        try:
            with _time_limit(within_s):
                self._is_asking = True
                try:
                    return input(prompt)
                finally:
                    self._is_asking = False
        except EOFError as error:
            self.say("")
            if not os.isatty(self._source):
                raise KeyboardInterrupt from error
            raise Ended from error
        except (Cancelled, TimeUp):
            self.say("")
            raise
        except (OSError, UnicodeDecodeError) as error:
            raise KeyboardInterrupt from error

    def show(self, text: str, *, within_s: float | None = None) -> None:
        """Show a text, page by page where it is longer than the terminal is high."""
        lines = visible(text).splitlines()
        while lines:
            width, height = _size()
            n_shown, room = 0, max(height - 1, 1)
            while n_shown < len(lines) and room > 0:
                room -= max(1, -(-len(lines[n_shown]) // width))
                n_shown += 1
            self.say("\n".join(lines[:n_shown]))
            lines = lines[n_shown:]
            if not lines:
                return
            key = self._key(_MORE, within_s)
            if key in "qQ\x03\x04":
                return
            if key in "aA":
                self.say("\n".join(lines))
                return

    def _key(self, prompt: str, within_s: float | None) -> str:
        """One key, without waiting for Enter; ``q`` when the time is over."""
        sys.stdout.write(prompt)
        sys.stdout.flush()
        with self._unbuffered():
            ready, _, _ = select.select([self._source], [], [], within_s)
            key = os.read(self._source, 1) if ready else b"q"
        sys.stdout.write("\r" + " " * len(prompt) + "\r")
        sys.stdout.flush()
        if not key:
            raise KeyboardInterrupt
        return key.decode("latin-1")

    @contextmanager
    def cancelling(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Call `cancel` for every Ctrl-C inside; other keys are kept for the lines that follow.

        Notes
        -----
        Ctrl-C is a key here and no signal: a signal would reach the processes of the sandbox as well.
        """
        wake, alarm = os.pipe()
        watching = threading.Thread(target=self._watch, args=(wake, cancel), daemon=True)
        try:
            with self._unbuffered():
                watching.start()
                try:
                    yield
                finally:
                    os.write(alarm, b".")
                    watching.join()
        finally:
            os.close(wake)
            os.close(alarm)

    def _watch(self, wake: int, cancel: Callable[[], None]) -> None:
        while True:
            if self._was_interrupted:
                # Said again until it has ended: it may not have begun yet.
                cancel()
            ready, _, _ = select.select([self._source, wake], [], [], _LOOK_S)
            if wake in ready:
                return
            if not ready:
                continue
            try:
                data = os.read(self._source, 4096)
            except OSError:
                data = b""
            if not data:
                cancel()
                return
            if _CANCEL in data:
                self._was_interrupted = True
                self._ahead = ""
                data = data.rpartition(_CANCEL)[2]
            typed = data.decode("utf-8", "replace").replace("\r", "\n")
            kept = "".join(character for character in typed if character.isprintable() or character == "\n")
            self._ahead = (self._ahead + kept)[:_MOST_AHEAD]

    @contextmanager
    def _unbuffered(self) -> Iterator[None]:
        """Keys come one by one, are not shown, and none is a signal."""
        try:
            before = termios.tcgetattr(self._source)
            mode: list[Any] = termios.tcgetattr(self._source)
            mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
            termios.tcsetattr(self._source, termios.TCSADRAIN, mode)
        except termios.error as error:
            raise KeyboardInterrupt from error
        try:
            yield
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._source, termios.TCSADRAIN, before)


def require_terminal() -> None:
    """Refuse to go on where no person can type and read.

    Raises
    ------
    UsageError
        Standard input or standard output is no terminal.
    """
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output")):
        if stream is None or not stream.isatty():
            raise UsageError(
                f"--agent human: standard {name} is no terminal, so nobody can work there. "
                "Start it in a terminal, without a pipe or a redirection."
            )


def _line_editor() -> ModuleType | None:
    """The line editor of this Python; a few are built without one, then lines are typed as they are."""
    try:
        import readline
    except ImportError:
        return None
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    if not is_libedit:
        readline.parse_and_bind("set show-all-if-ambiguous on")
        readline.parse_and_bind("set bell-style none")
    readline.set_completer_delims("")
    readline.set_auto_history(False)
    return readline


def _set_up(editor: ModuleType, prompt: str, begun: str, complete: Completer | None) -> None:
    found: list[str] = []

    def candidate(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = [] if complete is None else _candidates(text, complete(text))
        return found[state] if state < len(found) else None

    def show(typed: str, matches: Sequence[str], longest: int) -> None:
        shown = [match for match in matches if match != typed]
        more = len(shown) - _MOST_SHOWN
        text = "\n".join(shown[:_MOST_SHOWN]) + (f"\nand {more} more" if more > 0 else "")
        sys.stdout.write(f"\n{visible(text)}\n{prompt}{editor.get_line_buffer()}")
        sys.stdout.flush()

    editor.set_completer(candidate)
    editor.set_completion_display_matches_hook(show)
    editor.set_startup_hook((lambda: editor.insert_text(begun)) if begun else None)


def _candidates(text: str, found: Sequence[str]) -> list[str]:
    """What the line editor may put in place of what was typed: it keeps only what all have in common."""
    if len(found) > 1 and not all(candidate.startswith(text) for candidate in found):
        return [text, *found]
    return list(found)


@contextmanager
def _time_limit(within_s: float | None) -> Iterator[None]:
    """The end of the time as an exception, raised wherever the line editor is."""
    if within_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def time_up(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, time_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, within_s)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _size() -> tuple[int, int]:
    """Columns and lines of the terminal, now: it may have changed."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24
