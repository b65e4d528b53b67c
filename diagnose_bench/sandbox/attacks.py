"""The doors that a sandbox keeps shut, each as a script that tries to walk through it.

A script runs inside and prints OPEN once it is through, or leaves a file called OPEN in the scratch folder
after its command has ended. `doctor --deep` and the tests run the whole list; that a script can
get through at all is shown by running it without a sandbox. What a script would do with an open door it
does not do: a kernel setting is opened and not written, a foreign process is signalled with number 0.
"""

from __future__ import annotations

import json
import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from diagnose_bench.sandbox.attack_ground import AttackGround
from diagnose_bench.sandbox.attack_scripts import PRELUDE, SCRIPTS
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.removal import empty_folder

ATTACK_LIMITS = Limits(
    command_s=2.0,
    memory_mb=700,
    resident_mb=300,
    processes=32,
    file_mb=16,
    scratch_mb=40,
    scratch_entries=800,
    tmp_mb=16,
    shm_mb=8,
    output_kill=4 << 20,
)
"""Small, so that driving into each of them is quick."""
NO_LIMITS = Limits(
    command_s=30.0,
    memory_mb=1 << 20,
    resident_mb=1 << 20,
    processes=10_000,
    open_files=100_000,
    file_mb=1 << 14,
    scratch_mb=1 << 14,
    scratch_entries=1_000_000,
    tmp_mb=1 << 14,
    shm_mb=1 << 14,
    output_kill=1 << 30,
)
"""For the proof that the scripts of the kind ``limit`` can get through."""
_SETTLE_S = 1.5
_PATIENT_S = 60.0


@dataclass(frozen=True, slots=True)
class Attack:
    """One door.

    Attributes
    ----------
    door : str
        What it leads to: read, write, network, kernel, process, limit, leftover.
    name : str
        What is tried, in a few words.
    script : str
        Python.
    needs_root : bool
        Whether only root would get through without a sandbox.
    settles : bool
        Whether the file may only be there a moment after the command has ended.
    patient : bool
        Whether it is another limit than the time that has to end the command.
    """

    door: str
    name: str
    script: str
    needs_root: bool = False
    settles: bool = False
    patient: bool = False


@dataclass(frozen=True, slots=True)
class AttackResult:
    """How one attack went."""

    attack: Attack
    is_open: bool
    detail: str


ATTACKS = tuple(
    Attack(
        door,
        name,
        script,
        needs_root="root" in marks,
        settles="settles" in marks,
        patient="patient" in marks,
    )
    for door, name, script, *marks in SCRIPTS
)


def attempt(attack: Attack, sandbox: Sandbox, ground: AttackGround) -> AttackResult:
    """Try one door of an open sandbox."""
    program = f"{PRELUDE}\n{attack.script}\n"
    arguments = shlex.quote(_context(sandbox, ground))
    result = sandbox.run(
        f"exec python3 -I - {arguments} <<'ATTACK'\n{program}\nATTACK",
        timeout_s=_PATIENT_S if attack.patient else None,
    )
    mark = sandbox.scratch / "OPEN"
    if attack.settles:
        # From here on nothing may be able to put it there.
        mark.unlink(missing_ok=True)
        time.sleep(_SETTLE_S)
    lines = result.text.splitlines()
    found = [line for line in lines if line.startswith("OPEN")]
    is_open = bool(found) or mark.exists()
    if is_open and attack.settles:
        (sandbox.scratch / "END").touch()
        time.sleep(_SETTLE_S / 3)
    last = lines[-1][:200] if lines else f"exit code {result.exit_code}"
    empty_folder(str(sandbox.scratch))
    return AttackResult(attack, is_open, found[0] if found else last)


def attempt_all(sandbox: Sandbox, ground: AttackGround) -> list[AttackResult]:
    """Try every door of an open sandbox, in the order of the list.

    Notes
    -----
    Where a fresh sandbox takes long, as a container does, the doors that are no limit share one command.
    """
    is_slow = ":" in sandbox.backend
    quick = [attack for attack in ATTACKS if is_slow and attack.door not in ("limit", "leftover")]
    results = {result.attack: result for result in attempt_together(quick, sandbox, ground)}
    return [results.get(attack) or attempt(attack, sandbox, ground) for attack in ATTACKS]


def attempt_together(
    attacks: Sequence[Attack], sandbox: Sandbox, ground: AttackGround
) -> Iterator[AttackResult]:
    """Try doors one after the other in one command; what did not get its turn is left out."""
    if not attacks:
        return
    mark = secrets.token_hex(8)
    lines = [f"context={shlex.quote(_context(sandbox, ground))}", f"prelude={shlex.quote(PRELUDE)}"]
    for number, attack in enumerate(attacks):
        lines.append(
            f"said=$({{ printf '%s\\n' \"$prelude\"; cat <<'ATTACK'\n{attack.script}\nATTACK\n}} "
            f'| python3 -I - "$context" 2>&1 | tr -d "\\0")\n'
            f"case $'\\n'\"$said\" in *$'\\n'OPEN*) said=OPEN;; esac\n"
            f'printf "%s %s %s\\n" {mark} {number} "${{said##*$\'\\n\'}}"'
        )
    answer = sandbox.run("\n".join(lines), timeout_s=_PATIENT_S)
    empty_folder(str(sandbox.scratch))
    for line in answer.text.splitlines():
        if line.startswith(mark):
            _, index, said = line.split(" ", 2)
            yield AttackResult(attacks[int(index)], said.startswith("OPEN"), said[:200] or "no word")


def _context(sandbox: Sandbox, ground: AttackGround) -> str:
    context: dict[str, Any] = ground.context | {
        "limits": sandbox.limits.as_dict(),
        "paths": ground.context["paths"] | {"snapshot copy": str(sandbox.snapshot.parent)},
    }
    return json.dumps(context)
