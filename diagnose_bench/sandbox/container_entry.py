"""Process 1 of a container: puts the limits and the filter on, starts the command, and ends with it.

An engine's own options leave some of that open: they know no limit of address space, rootless engines drop
limits that they cannot set, and their system-call lists differ. Needs python3 in the image and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from diagnose_bench.sandbox import arguments
from diagnose_bench.sandbox.limits import RESOURCES
from diagnose_bench.sandbox.seccomp import filter_program

# It says its word once everything is set up and before anything of the command runs: what comes after the
# word is the command's. Of the command it inherits nothing and nothing can look into it.
_PROGRAM = r"""
import ctypes, json, os, resource, signal, sys
said = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    if libc.prctl(*arguments) != 0:
        sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
call(4, 0, 0, 0, 0)
for name, (soft, hard) in said["limits"].items():
    number = said["numbers"][name]
    top = resource.getrlimit(number)[1]
    if top != resource.RLIM_INFINITY:
        soft, hard = min(soft, top), min(hard, top)
    if name == "cpu":
        cpu = number, soft, hard
    else:
        resource.setrlimit(number, (soft, hard))
program = bytes.fromhex(said["filter"])
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]
signal.signal(signal.SIGALRM, lambda *_: os._exit(137))
os.dup2(1, 2)
child = os.fork()
if child == 0:
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    call(38, 1, 0, 0, 0)
    call(22, 2, ctypes.byref(Filter(len(program) // 8, program)), 0, 0)
    resource.setrlimit(cpu[0], cpu[1:])
    os.write(1, said["word"].encode())
    os.execv(sys.argv[2], sys.argv[2:])
signal.alarm(said["seconds"])
while True:
    pid, status = os.waitpid(-1, 0)
    if pid == child:
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
"""


def entry_arguments(
    limits: Mapping[str, tuple[int, int]], word: str, seconds: int, command: bytes
) -> list[str | bytes]:
    """What stands behind ``python3`` to run one bash command.

    Parameters
    ----------
    limits : mapping
        Of ``resource``, by name.
    word : str
        What it says before the command.
    seconds : int
        After which it ends with all that is in the container, if nobody else has ended it.
    command : bytes
        For ``bash -c``.
    """
    said = {
        "limits": limits,
        "numbers": {name: RESOURCES[name] for name in limits},
        "filter": filter_program(os.uname().machine).hex(),
        "word": word,
        "seconds": seconds,
    }
    return ["-I", "-S", "-B", "-c", _PROGRAM, json.dumps(said), arguments.BASH, "-c", command]
