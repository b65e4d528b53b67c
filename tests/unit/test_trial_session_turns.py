"""Turns and the clock of a trial whose model calls are counted by us."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diagnose_bench.agents.base import TrialOver
from diagnose_bench.outcome import Limit
from diagnose_bench.records import PlannedTrial
from diagnose_bench.trial_session import NOT_RUN, TIME_TO_SUBMIT, Session, TrialLimits


def _session(tmp_path: Path, *, max_turns: int = 3, time_limit_s: float = 60.0) -> Session:
    trial = PlannedTrial(scenario_id="scenario-001", repeat=1)
    limits = TrialLimits(max_turns, time_limit_s)
    return Session(trial, task="", limits=limits, log=None, log_folder=tmp_path)


def test_each_model_call_is_one_turn_and_the_one_after_the_last_ends_the_trial(tmp_path: Path) -> None:
    session = _session(tmp_path, max_turns=3)
    assert [session.begin_turn() for _ in range(3)] == [2, 1, 0]
    with pytest.raises(TrialOver, match="turns are used up"):
        session.begin_turn()
    assert (session.n_turns, session.limit_hit) == (3, Limit.TURNS)


def test_commands_in_the_last_model_call_are_answered_with_time_to_submit(tmp_path: Path) -> None:
    session = _session(tmp_path, max_turns=1)
    session.begin_turn()
    reply = session.run_command("true")
    assert (reply.output, reply.exit_code) == (TIME_TO_SUBMIT, NOT_RUN)
    assert session.n_turns == 1


def test_the_clock_stands_still_while_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    session = _session(tmp_path, time_limit_s=60.0)
    session.start_clock()
    now[0] += 10.0
    with session.paused():
        now[0] += 500.0
        assert session.time_left_s() == 50.0
        assert not session.is_over()
    now[0] += 5.0
    assert session.time_left_s() == 45.0


def test_time_that_is_given_back_is_no_time_of_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    session = _session(tmp_path, time_limit_s=60.0)
    session.start_clock()
    now[0] += 50.0
    session.give_back(40.0)
    assert session.time_left_s() == 50.0
    # Never more than has passed, and nothing once it is over.
    session.give_back(1000.0)
    assert session.time_left_s() == 60.0
    now[0] += 61.0
    assert session.is_over()
    session.give_back(61.0)
    assert session.seconds == 61.0
