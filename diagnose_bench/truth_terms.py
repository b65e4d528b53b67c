"""The words that only the truth knows: a snapshot that holds one of them gives the answer away.

Names of entities are no such words, for a snapshot is about them; nor are the queries of the evidence, which
are meant to be found. Searches nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diagnose_bench.ground_truth_models import GroundTruth

MIN_CHARACTERS = 9
"""Shorter words occur by chance."""


def truth_only_strings(truth: GroundTruth) -> tuple[str, ...]:
    """List the strings of a truth that must not occur in its snapshot.

    Parameters
    ----------
    truth : GroundTruth
        A loaded truth.

    Returns
    -------
    tuple of str
        Canary, title, family, ids of groups, reasons, effects, provenance and the like, in that order; each
        once, longer than 8 characters, none of them the name of an entity.

    Notes
    -----
    A date and a bare word of the remediation (a field, a unit) occur in every cluster: neither is listed.
    """
    names = {name.casefold() for name in _names(truth)}
    found: dict[str, None] = {}
    for text in _texts(truth):
        stripped = text.strip()
        if len(stripped) >= MIN_CHARACTERS and stripped.casefold() not in names:
            found[stripped] = None
    return tuple(found)


def _texts(truth: GroundTruth) -> Iterator[str]:
    yield truth.canary or ""
    yield truth.title
    yield truth.family or ""
    for group in truth.groups:
        yield group.id
    yield from truth.alias_reasons
    for step in truth.propagation:
        yield step.effect
        yield step.condition
    for decoy in truth.decoys:
        yield decoy.why
    for item in truth.evidence:
        yield item.shows
    for source in truth.sources:
        yield from (text for key, text in source.items() if key != "date" and isinstance(text, str))
    yield from _leaves(truth.provenance)
    yield from (text for text in _leaves(truth.remediation) if " " in text.strip())


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for child in value.values():
            yield from _leaves(child)
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from _leaves(child)


def _names(truth: GroundTruth) -> Iterator[str]:
    """Every way in which the truth names an entity: whole, its name, its namespace."""
    entities = [entity for group in truth.groups for entity in group.entities]
    entities += [decoy.entity for decoy in truth.decoys]
    for entity in entities:
        yield entity
        yield from entity.split("/")
    for group in truth.groups:
        yield from group.names
        yield from group.filters
        yield group.namespace or ""
