"""Secrets out of what an agent handed in, unless that would change what it says. Run side, no truth."""

from __future__ import annotations

from collections.abc import Hashable

from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.redaction import Redactor


def redacted_answer(data: bytes, redactor: Redactor) -> bytes:
    """Take secrets out of a diagnosis, but leave it as it came where a name or a piece of evidence has one.

    Notes
    -----
    Names are what is scored and evidence is looked up in the snapshot: both are read from these bytes later,
    so a text in them that only looks like a secret must stay. An answer that could not be read is redacted
    as any text.
    """
    probe = redactor.fresh()
    cleaned = probe.data(data)
    if cleaned == data or _said(cleaned) != _said(data):
        return data
    redactor.add(probe.n_redactions)
    return cleaned


def _said(data: bytes) -> Hashable:
    """What is judged of an answer, whether syntax is repaired or not."""
    return tuple(_read(data, repair) for repair in (True, False))


def _read(data: bytes, repair: bool) -> Hashable:
    read = read_diagnosis(data, repair=repair)
    if read.diagnosis is None:
        return read.outcome
    causes = read.diagnosis.root_causes
    evidence = tuple(repr([item.model_dump() for item in cause.evidence or ()]) for cause in causes)
    return read.outcome, read.diagnosis.entities(), evidence
