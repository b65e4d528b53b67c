"""Entity: one Kubernetes object as (API group, kind, namespace, name); how it is read and printed.

Only the text counts here: whether such an object exists, and which one a bare name means, others decide.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from diagnose_bench.kinds import (
    BUILTIN_KINDS,
    CLUSTER_SCOPED_KINDS,
    VERSION,
    WORKLOAD_KINDS,
    KindName,
    KindTable,
)

__all__ = [
    "BUILTIN_KINDS",
    "CLUSTER_SCOPED_KINDS",
    "MAX_NAME",
    "WORKLOAD_KINDS",
    "Entity",
    "ParsedEntity",
    "drop_namespace",
    "entity_of",
    "entity_of_object",
    "group_of_api_version",
    "parse_canonical",
    "parse_entity",
]

MAX_NAME = 253
"""Longest name that Kubernetes allows; a longer one is no name of an object."""

_MAX_TEXT = 1024
_NO_NAMESPACE = frozenset({"", "-", "_cluster", "cluster", "cluster-scoped", "unknown"})
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(c) for c in range(0xFE00, 0xFE10)
}
_CAMEL = re.compile(r"[A-Z][A-Za-z0-9]*(?:\.[a-z0-9.-]+)?")
_KIND_TEXT = r"[A-Za-z][A-Za-z0-9.-]*"
_CANONICAL = re.compile(r"(?:([^\s/]+)/)?([A-Z][A-Za-z0-9]*)((?:\.[a-z0-9][a-z0-9-]*)*)/([^\s/]+)")

# Additions behind the name, taken off from the right; each has one named part.
_ADDITIONS = (
    re.compile(r" \(?uid[ :=] ?(?P<uid>[^ ()]+)\)?$", re.IGNORECASE),
    re.compile(r" (?:-n|--namespace)[ =](?P<namespace>[^ ]+)$"),
    re.compile(r" ?\((?:namespace|ns)[ :=] ?(?P<namespace>[^ ()]+)\)$", re.IGNORECASE),
    re.compile(r" in namespace (?P<namespace>[^ ]+)$", re.IGNORECASE),
    re.compile(rf" ?\((?P<kind>{_KIND_TEXT})\)$"),
)
_KIND_COLON = re.compile(rf"({_KIND_TEXT}): ?([^ ]+)")


@dataclass(frozen=True, order=True, slots=True)
class Entity:
    """One object; ``namespace`` is '' for cluster-scoped kinds, ``group`` is '' for core, apps, unknown."""

    namespace: str
    kind: str
    group: str
    name: str

    def __str__(self) -> str:
        """``[namespace/]Kind[.group]/name``; the group stands only where the kind alone does not say it."""
        kind = self.kind
        if self.group and self.group != BUILTIN_KINDS.default_group(kind):
            kind = f"{kind}.{self.group}"
        return "/".join(part for part in (self.namespace, kind, self.name) if part)


@dataclass(frozen=True, slots=True)
class ParsedEntity:
    """What a text says about an object; None where it says nothing.

    ``kind`` is canonical where the table knows it, else as written. ``notes`` say what was trimmed.
    """

    kind: str | None
    group: str | None
    namespace: str | None
    name: str
    notes: tuple[str, ...] = ()


class _Contradiction(Exception):
    """The text names two kinds or two namespaces."""


def parse_entity(
    text: str, kinds: KindTable = BUILTIN_KINDS, namespaces: Container[str] = ()
) -> ParsedEntity | None:
    """Read one of the accepted forms of an entity.

    Parameters
    ----------
    text : str
        For instance ``shop/Deployment/cart``, ``deploy/cart -n shop``, ``Service: cart (namespace shop)``,
        ``cart (Deployment)``, ``Deployment shop/cart``, ``shop/Deployment/cart uid 1234``, ``cart``.
    kinds : KindTable
        The kinds that are known.
    namespaces : container of str
        Known namespaces: ``shop/cart`` is a name in a namespace if ``shop`` is one and no kind.

    Returns
    -------
    ParsedEntity or None
        None for anything else: prose, an empty part, two different namespaces.

    Examples
    --------
    >>> parse_entity("deployment/cart -n shop")
    ParsedEntity(kind='Deployment', group=None, namespace='shop', name='cart', notes=())
    """
    core, notes = _trim(text)
    if not core or len(core) > _MAX_TEXT or not (core.isprintable() or _is_text(core)):
        return None
    reader = _Reader(kinds, namespaces)
    try:
        reader.read(re.sub(" +", " ", core))
    except _Contradiction:
        return None
    if not reader.name:
        return None
    kind, namespace = reader.kind, reader.namespace
    if kind is None:
        return ParsedEntity(None, None, namespace, reader.name, notes)
    if namespace is not None:
        namespace = drop_namespace(kind.kind, kind.group, namespace, reader.name, kinds)
    return ParsedEntity(kind.kind, kind.group, namespace or None, reader.name, notes)


def drop_namespace(
    kind: str, group: str | None, namespace: str, name: str, kinds: KindTable = BUILTIN_KINDS
) -> str:
    """The namespace as it counts: '' for the ways to say "none" of a cluster-scoped kind, else unchanged."""
    if not kinds.is_cluster_scoped(kind, group):
        return namespace
    own_name = kind == "Namespace" and namespace == name
    return "" if namespace in _NO_NAMESPACE or own_name else namespace


def entity_of_object(manifest: Mapping[str, Any]) -> Entity | None:
    """Entity of a Kubernetes manifest; None where ``apiVersion``, ``kind`` or the name is missing."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    api_version, kind_text = manifest.get("apiVersion"), manifest.get("kind")
    name, namespace = metadata.get("name"), metadata.get("namespace") or ""
    texts = (api_version, kind_text, name, namespace)
    if not all(isinstance(text, str) for text in texts) or not (kind_text and name):
        return None
    return entity_of(group_of_api_version(str(api_version)), str(kind_text), str(namespace), str(name))


def group_of_api_version(api_version: str) -> str:
    """API group of ``apiVersion``: '' for ``v1``, ``autoscaling`` for ``autoscaling/v2``."""
    group, slash, _ = api_version.partition("/")
    if slash or not VERSION.fullmatch(group):
        return group
    return ""


def entity_of(group: str | None, kind_text: str, namespace: str, name: str) -> Entity:
    """Entity of parts that are known to be right; None for the group takes the kind's own."""
    found = BUILTIN_KINDS.lookup(kind_text)
    kind = found.kind if found.known else kind_text
    if group is None:
        group = found.group
    group = BUILTIN_KINDS.default_group(kind) if group is None else BUILTIN_KINDS.canonical_group(kind, group)
    return Entity(drop_namespace(kind, group, namespace, name), kind, group, name)


def parse_canonical(text: str) -> Entity:
    """Read the canonical form ``[namespace/]Kind[.group]/name``, as truths and topologies write it.

    Raises
    ------
    ValueError
        The text has another form, or gives a namespace to a kind that has none.
    """
    found = _CANONICAL.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no entity: write [namespace/]Kind[.group]/name")
    namespace, kind, group, name = found.groups()
    if not text.isprintable():
        raise ValueError(f"{text!r} holds an invisible character")
    entity = entity_of(group[1:] or None, kind, namespace or "", name)
    if entity.namespace and BUILTIN_KINDS.is_cluster_scoped(entity.kind, entity.group):
        raise ValueError(f"{text!r}: a {entity.kind} has no namespace: write {entity.kind}/{entity.name}")
    return entity


class _Reader:
    """Takes one trimmed text apart; ``name`` stays '' for a text of no accepted form."""

    def __init__(self, kinds: KindTable, namespaces: Container[str]) -> None:
        self._kinds = kinds
        self._namespaces = namespaces
        self.kind: KindName | None = None
        self.namespace: str | None = None
        self.name = ""

    def read(self, text: str) -> None:
        text = self._without_additions(text)
        with_colon = _KIND_COLON.fullmatch(text)
        if with_colon is not None and self._is_kind(with_colon[1]):
            self._set_kind(with_colon[1])
            self._read_path(with_colon[2])
            return
        words = text.split(" ")
        if len(words) == 1:
            self._read_path(text)
        elif len(words) == 2:
            kind_first = self._kind_is_first(words[0], words[1])
            if kind_first is not None:
                self._set_kind(words[0] if kind_first else words[1])
                self._read_path(words[1] if kind_first else words[0])

    def _without_additions(self, text: str) -> str:
        changed = True
        while changed:
            changed = False
            for pattern in _ADDITIONS:
                found = pattern.search(text)
                if found is None:
                    continue
                parts = found.groupdict()
                if "kind" in parts:
                    if not self._is_kind(parts["kind"]):
                        continue
                    self._set_kind(parts["kind"])
                elif "namespace" in parts:
                    self._set_namespace(parts["namespace"])
                text = text[: found.start()]
                changed = True
        return text

    def _read_path(self, text: str) -> None:
        parts = text.split("/")
        if len(parts) == 1:
            self.name = text
        elif len(parts) == 2:
            self._read_pair(parts[0], parts[1])
        elif parts[1] and parts[2]:
            self._set_kind(parts[1])
            if parts[0]:
                self._set_namespace(parts[0])
            self.name = "/".join(parts[2:])

    def _read_pair(self, first: str, name: str) -> None:
        if self.kind is None:
            if first in self._namespaces and not self._kinds.lookup(first).known:
                self._set_namespace(first)
            elif first:
                self._set_kind(first)
        elif first in self._namespaces or not self._kinds.lookup(first).known:
            if first:
                self._set_namespace(first)
        else:
            self._set_kind(first)
        self.name = name

    def _is_kind(self, word: str) -> bool:
        return self._kinds.lookup(word).known or _CAMEL.fullmatch(word) is not None

    def _kind_is_first(self, first: str, second: str) -> bool | None:
        known = (self._kinds.lookup(first).known, self._kinds.lookup(second).known)
        camel = (_CAMEL.fullmatch(first) is not None, _CAMEL.fullmatch(second) is not None)
        for left, right in (known, camel):
            if left != right:
                return left
        return True if any(known) or any(camel) else None

    def _set_kind(self, text: str) -> None:
        if re.fullmatch(_KIND_TEXT, text) is None:
            raise _Contradiction
        kind = self._kinds.lookup(text)
        if self.kind is not None and self.kind != kind:
            raise _Contradiction
        self.kind = kind

    def _set_namespace(self, text: str) -> None:
        if self.namespace not in (None, text):
            raise _Contradiction
        self.namespace = text


def _is_text(core: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cs") for char in core)


def _trim(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without what nobody sees at its ends, and a note of it (plain white space needs none)."""
    start, end = 0, len(text)
    while start < end and _is_invisible(text[start]):
        start += 1
    while end > start and _is_invisible(text[end - 1]):
        end -= 1
    gone = sorted({char for char in text[:start] + text[end:] if char not in " \t\r\n"})
    if not gone:
        return text[start:end], ()
    shown = ", ".join(f"U+{ord(char):04X}" for char in gone[:8])
    return text[start:end], (f"trimmed invisible characters at the ends: {shown}",)


def _is_invisible(char: str) -> bool:
    return char in _INVISIBLE or unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")
