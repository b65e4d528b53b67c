"""Every door of every sandbox holds, for root and for an ordinary user, and each can be walked through."""

import os

import pytest
from sandbox_helpers import as_ordinary_user

from diagnose_bench.sandbox.attack_ground import AttackGround
from diagnose_bench.sandbox.attacks import ATTACKS, NO_LIMITS, attempt, attempt_together
from diagnose_bench.sandbox.doctor import try_doors
from diagnose_bench.sandbox.none import UnsandboxedShell

pytestmark = pytest.mark.sandbox

DOORS = {"read", "write", "network", "kernel", "process", "limit", "leftover"}


def open_doors(backend):
    results = try_doors(backend)
    assert len(results) == len(ATTACKS)
    return [(result.attack.door, result.attack.name, result.detail) for result in results if result.is_open]


@pytest.mark.parametrize("backend", ["bwrap", "landlock", "landlock-bare"])
def test_no_attack_gets_through(backend):
    assert open_doors(backend) == []


@pytest.mark.parametrize("backend", ["bwrap", "landlock", "landlock-bare"])
def test_no_attack_of_an_ordinary_user_gets_through(backend):
    assert as_ordinary_user(lambda home: open_doors(backend)) == []


def open_without_a_sandbox(home):
    """The attacks that get through where nothing is in their way."""
    found = set()
    with AttackGround() as ground:
        for attack in ATTACKS:
            folder = home / f"{len(found)}-{attack.name}"
            (folder / "snapshot").mkdir(parents=True)
            (folder / "snapshot" / "events.jsonl").write_text("evidence\n")
            (folder / "scratch").mkdir()
            with UnsandboxedShell(
                folder / "snapshot", folder / "scratch", limits=NO_LIMITS, own_scratch=True
            ) as shell:
                if attempt(attack, shell, ground).is_open:
                    found.add(attack)
    return found


def test_every_attack_gets_through_without_a_sandbox(tmp_path):
    found = open_without_a_sandbox(tmp_path)
    if os.geteuid() == 0:
        # What root may not do to others' processes in a container, their own user may.
        wanted = set(ATTACKS)
        found |= as_ordinary_user(open_without_a_sandbox)
    else:
        wanted = {attack for attack in ATTACKS if not attack.needs_root}
    assert sorted(attack.name for attack in wanted - found) == []


def test_doors_that_share_one_command_are_tried_as_well(tmp_path):
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "events.jsonl").write_text("evidence\n")
    (tmp_path / "scratch").mkdir()
    easy = [attack for attack in ATTACKS if attack.door in ("read", "network") and not attack.needs_root]
    with (
        AttackGround() as ground,
        UnsandboxedShell(tmp_path / "snapshot", tmp_path / "scratch", limits=NO_LIMITS) as shell,
    ):
        together = [(result.attack, result.is_open) for result in attempt_together(easy, shell, ground)]
        alone = [(attack, attempt(attack, shell, ground).is_open) for attack in easy]
    assert together == alone
    assert sum(is_open for _, is_open in together) > len(easy) / 2


def test_list_has_every_kind_of_door_and_no_attack_twice():
    assert {attack.door for attack in ATTACKS} == DOORS
    assert len({(attack.door, attack.name) for attack in ATTACKS}) == len(ATTACKS)


def test_attacks_leave_nothing_on_the_host(tmp_path):
    with AttackGround() as ground:
        folder = ground.context["folder"]
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(ground.context["victim"], 0)
