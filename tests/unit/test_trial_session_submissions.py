"""Which of several submissions counts, and when nothing more is taken."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diagnose_bench.outcome import Limit
from diagnose_bench.records import PlannedTrial
from diagnose_bench.redaction import Redactor
from diagnose_bench.submissions import KEPT_FILES, KEPT_LINES, SubmissionLog, read_submissions
from diagnose_bench.trial_session import Session, TrialLimits

FIRST = b'{"root_causes": [{"entity": "shop/Deployment/cart"}]}'
SECOND = b'{"root_causes": []}'
REFUSAL = b'{"refused": true}'


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def _session(folder: Path, *, time_limit_s: float = 60.0) -> tuple[Session, SubmissionLog]:
    trial, log = PlannedTrial(scenario_id="scenario-001", repeat=1), SubmissionLog(folder, Redactor())
    limits = TrialLimits(10, time_limit_s)
    session = Session(trial, task="", limits=limits, log=None, log_folder=folder, submissions=log)
    session.start_clock()
    return session, log


def test_a_second_one_within_five_seconds_replaces_the_first_and_stops_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    session, log = _session(tmp_path)
    clock.now += 10.0
    assert session.submit(FIRST).accepted
    assert session.is_over()
    clock.now += 4.5
    assert session.submit(SECOND).accepted
    clock.now += 0.6
    reply = session.submit(FIRST)
    assert (reply.accepted, reply.message) == (False, "The trial is over; nothing more is taken.")
    assert (session.submission, session.seconds, log.counted, log.n_seen) == (SECOND, 14.5, 2, 3)


def test_the_second_one_does_not_prolong_the_time_for_a_third(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    session, _ = _session(tmp_path)
    for wait_s, accepted in ((0.0, True), (3.0, True), (3.0, False)):
        clock.now += wait_s
        assert session.submit(FIRST).accepted is accepted


def test_a_rejected_one_changes_nothing(tmp_path: Path) -> None:
    session, log = _session(tmp_path)
    session.submit(FIRST)
    assert not session.submit(b"it was DNS").accepted
    assert (session.submission, session.rejected, log.counted) == (FIRST, None, 1)


def test_the_time_limit_holds_within_the_grace_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    session, _ = _session(tmp_path, time_limit_s=60.0)
    clock.now += 58.0
    assert session.submit(FIRST).accepted
    clock.now += 2.5
    assert not session.submit(SECOND).accepted
    assert (session.submission, session.limit_hit) == (FIRST, None)


def test_after_the_time_limit_nothing_is_taken_and_all_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    session, log = _session(tmp_path, time_limit_s=60.0)
    clock.now += 61.0
    assert not session.submit(FIRST).accepted
    assert (session.submission, session.limit_hit, log.counted) == (None, Limit.TIME, None)
    (one,) = read_submissions(tmp_path)
    assert (one.accepted, one.seconds) == (False, 61.0)
    assert (tmp_path / str(one.file)).read_bytes() == FIRST


@pytest.mark.parametrize(("order", "refused"), [((REFUSAL, FIRST), False), ((FIRST, REFUSAL), True)])
def test_whether_it_is_a_refusal_follows_the_one_that_counts(
    tmp_path: Path, order: tuple[bytes, bytes], refused: bool
) -> None:
    session, _ = _session(tmp_path)
    assert all(session.submit(data).accepted for data in order)
    assert (session.submission, session.refused) == (order[1], refused)


def test_once_closed_nothing_is_taken_although_the_grace_is_not_over(tmp_path: Path) -> None:
    session, _ = _session(tmp_path)
    session.submit(FIRST)
    session.close()
    assert session.grace_left_s() == 0.0
    assert not session.submit(SECOND).accepted
    assert session.submission == FIRST


def test_an_agent_that_hands_in_for_ever_fills_no_disk_and_loses_no_count(tmp_path: Path) -> None:
    log = SubmissionLog(tmp_path, Redactor())
    for number in range(1, KEPT_LINES + 51):
        log.add(b"%d" % number, at="", seconds=0.0, accepted=number % 2 == 0, message="m")
    log.close()
    lines = list(read_submissions(tmp_path))
    # The one that counts is the last accepted one, 1050, and it is on record beside the first 1000.
    assert [one.n for one in lines] == [*range(1, KEPT_LINES + 1), 1050]
    assert (log.n_seen, log.counted) == (1050, 1050)
    assert len(list(tmp_path.glob("submission-*.json"))) == KEPT_FILES
    assert lines[KEPT_FILES].file is None
