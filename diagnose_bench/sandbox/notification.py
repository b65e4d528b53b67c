"""Hears of system calls inside an audited sandbox, and answers them. What they mean is for others to say.

A helper inside puts the filter on and sends its listener out, then becomes the command. Calls that must not
happen are refused by their number or a value argument. Calls that name a path are reported and always left to
the kernel: a path can change after it was read, so it is a record and never a boundary. If nobody answers any
more, the kernel refuses.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diagnose_bench.errors import SandboxError
from diagnose_bench.sandbox.called_path import path_argument, resolved
from diagnose_bench.sandbox.notify_filter import (
    FOLLOWING,
    PATHS,
    SECCOMP_CALL,
    names_by_number,
    notify_program,
)

if TYPE_CHECKING:
    from diagnose_bench.sandbox.extras import Observer

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_CONTINUE = 1
_REFUSED = (0, -errno.EPERM, 0)
_JOIN_S = 5.0

# Runs inside, as the command's own process, before the command: trusted, and isolated from what lies around.
_HELPER = r"""
import ctypes, os, sys, _socket, _struct
channel, call, program = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
filter = Program(len(program) // 8, program)
out = _socket.socket(fileno=channel)
for flags in (8 | 32, 8):
    listener = libc.syscall(call, 1, flags, ctypes.byref(filter))
    if listener >= 0:
        break
if listener < 0:
    out.send(os.strerror(ctypes.get_errno()).encode())
    os._exit(125)
out.sendmsg([b"+"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _struct.pack("i", listener))])
os.close(listener)
out.close()
os.execv(sys.argv[4], sys.argv[4:])
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One reported system call.

    Attributes
    ----------
    name : str
        Of the call.
    arguments : tuple of int
        All six, as the kernel saw them.
    path : str or None
        For a call that names a path: what it named, made absolute; None where it could not be read.
    """

    name: str
    arguments: tuple[int, ...]
    path: str | None = None


def helper_command(descriptor: int, command: Sequence[str | bytes]) -> list[str | bytes]:
    """The command that puts the filter on, sends the listener to `descriptor` and becomes `command`."""
    number = SECCOMP_CALL[os.uname().machine]
    arguments = [str(descriptor), str(number), notify_program().hex()]
    return ["/usr/bin/python3", "-I", "-S", "-c", _HELPER, *arguments, *command]


class Listener:
    """Answers the calls of one command from a thread, until the command is gone.

    Parameters
    ----------
    observer : Observer
        Told of every call.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._ours, self._theirs = socket.socketpair()
        self._ending, self._end = os.pipe()
        self._has_finished = False
        self._names = names_by_number(os.uname().machine)
        self._is_on = False
        self._failure = ""
        self._thread = threading.Thread(target=self._serve, name="audit", daemon=True)

    def hand_over(self) -> int:
        """The descriptor for the helper; whoever starts the sandbox passes it on and closes it."""
        return self._theirs.detach()

    def start(self) -> None:
        """Begin to answer; the sandbox has been started and our copy of its descriptor is closed."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering; what is still there is refused by the kernel."""
        self._finish()
        self._ours.close()
        self._theirs.close()
        if not self._thread.is_alive():
            os.close(self._ending)

    def _finish(self) -> None:
        if not self._has_finished:
            self._has_finished = True
            os.close(self._end)
            if self._thread.ident is not None:
                self._thread.join(_JOIN_S)

    def check(self) -> None:
        """Refuse a command that was not audited; the command has ended.

        Raises
        ------
        SandboxError
            The filter could not be put on, or a call could not be recorded.
        """
        self._finish()
        if self._failure or not self._is_on:
            reason = self._failure or "the helper inside said nothing"
            raise SandboxError(f"--audit does not work: {reason}. Run without it.")

    def _serve(self) -> None:
        try:
            listener = self._take_listener()
        except OSError as error:
            self._failure = f"the listener did not arrive: {error}"
            return
        if listener is None:
            return
        self._is_on = True
        try:
            self._answer_all(listener)
        except OSError as error:
            self._failure = f"the listener failed: {error}"
        finally:
            os.close(listener)

    def _take_listener(self) -> int | None:
        if not self._wait(self._ours.fileno()):
            return None
        descriptors = array.array("i")
        data, ancillary, _, _ = self._ours.recvmsg(200, socket.CMSG_SPACE(descriptors.itemsize))
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        if descriptors:
            return int(descriptors[0])
        if data:
            self._failure = f"the kernel gives no listener ({data.decode('utf-8', 'replace')})"
        return None

    def _wait(self, descriptor: int) -> bool:
        """Wait until something is to be read; False once there is nothing to come."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._ending, 0)
        events = dict(poll.poll())
        return bool(events.get(descriptor, 0) & select.POLLIN)

    def _answer_all(self, listener: int) -> None:
        while self._wait(listener):
            notice = bytearray(_NOTICE.size)
            try:
                fcntl.ioctl(listener, _RECEIVE, notice)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # the process has just been killed
                    continue
                raise
            number, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
            name = self._names.get(call, "")
            answer = _REFUSED
            if name in PATHS:
                path = resolved(pid, path_argument(pid, name, arguments), follows=name in FOLLOWING)
                # Whose memory that was is only known if the process still waits for us.
                if not _is_valid(listener, number):
                    continue
                answer = (0, 0, _CONTINUE)
            else:
                path = None
            try:
                self._observer.observe(Call(name, tuple(arguments), path))
            except Exception as error:
                self._failure = f"a call could not be recorded: {type(error).__name__}: {error}"
            try:
                _send(listener, number, answer)
            except OSError as error:
                # A kernel before 5.5 cannot be told to go on; the process must not wait for ever.
                self._failure = f"the kernel takes no answer ({error.strerror})"
                with contextlib.suppress(OSError):
                    _send(listener, number, _REFUSED)


def _send(listener: int, number: int, answer: tuple[int, int, int]) -> None:
    # The process may have been killed meanwhile; then there is nobody to answer.
    try:
        fcntl.ioctl(listener, _SEND, bytearray(_ANSWER.pack(number, *answer)))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def _is_valid(listener: int, number: int) -> bool:
    try:
        fcntl.ioctl(listener, _IS_VALID, struct.pack("=Q", number))
    except OSError:
        return False
    return True
