"""SHELL and SUBMIT: carry one call from the agent to the harness over the trial's socket. Starts no sandbox.

It stands alone (standard library, started with ``-I -S``), since it is started for every command.
"""

from __future__ import annotations

import json
import os
import socket
import sys

# Importing typing would cost as much as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NOT_RUN = 125
MAX_BYTES = 1 << 20
MAX_SENT = 16 << 20
SHELL_USAGE = """usage: "$DIAGNOSE_BENCH_SHELL" [--timeout SECONDS] -c COMMAND
Runs COMMAND with bash in the sandbox, prints its output and returns its exit code.
With - in its place, reads COMMAND from standard input."""
SUBMIT_USAGE = """usage: "$DIAGNOSE_BENCH_SUBMIT" [FILE]
Hands in the diagnosis; prints "accepted", or what is wrong with its form.
Without FILE, or with - in its place, reads standard input."""


def fail(message: str, code: int = NOT_RUN) -> NoReturn:
    """Say what is wrong and end."""
    print(message, file=sys.stderr)
    sys.exit(code)


def call(header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    """Send one request and return the reply's header and body."""
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(folder, "token")) as file:
            header["token"] = file.read()
        # From within the folder, as the path of a socket may have no more than 107 bytes.
        os.chdir(folder)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect("socket")
            header["n_bytes"] = len(body)
            connection.sendall(json.dumps(header).encode() + b"\n" + body)
            with connection.makefile("rb") as stream:
                reply = json.loads(stream.readline())
                return reply, stream.read(reply["n_bytes"])
    except (OSError, ValueError, KeyError):
        fail("diagnose-bench: the trial is over.")


def shell(arguments: list[str]) -> int:
    """Run one command."""
    command = timeout = None
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            print(SHELL_USAGE)
            return 0
        name, equals, value = word.partition("=")
        if name == "--timeout" and (equals or rest):
            timeout = value if equals else rest.pop(0)
        elif word == "-c" and rest and command is None:
            command = rest.pop(0)
        else:
            fail(SHELL_USAGE)
    if command is None:
        fail(SHELL_USAGE)
    body = sys.stdin.buffer.read(MAX_BYTES + 1) if command == "-" else os.fsencode(command)
    if len(body) > MAX_BYTES:
        fail("diagnose-bench: the command is longer than 1 MiB.")
    header: dict[str, Any] = {"kind": "shell"}
    if timeout is not None:
        try:
            header["timeout_s"] = float(timeout)
        except ValueError:
            fail("diagnose-bench: --timeout takes a number of seconds.\n" + SHELL_USAGE)
        if not 0 < header["timeout_s"] < float("inf"):
            fail("diagnose-bench: --timeout takes a number of seconds above 0.\n" + SHELL_USAGE)
    reply, output = call(header, body)
    sys.stdout.buffer.write(output)
    sys.stdout.flush()
    if reply["notice"]:
        print(reply["notice"], file=sys.stderr)
    return int(reply["exit_code"])


def submit(arguments: list[str]) -> int:
    """Hand in a diagnosis."""
    if arguments and arguments[0] in ("-h", "--help"):
        print(SUBMIT_USAGE)
        return 0
    if len(arguments) > 1:
        fail(SUBMIT_USAGE)
    try:
        if arguments and arguments[0] != "-":
            with open(arguments[0], "rb") as file:
                body = file.read(MAX_SENT + 1)
        else:
            body = sys.stdin.buffer.read(MAX_SENT + 1)
    except OSError as error:
        fail(f"diagnose-bench: {arguments[0] if arguments else '-'}: cannot be read: {error.strerror}")
    # Sent also if it is too large for a diagnosis: it goes on record with its size.
    reply, message = call({"kind": "submit"}, body)
    sys.stdout.buffer.write(message + b"\n")
    return int(reply["exit_code"])


if __name__ == "__main__":
    try:
        code = {"shell": shell, "submit": submit}[sys.argv[1]](sys.argv[2:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 141
    sys.exit(code)
