"""Names that Kubernetes and Chaos Mesh generate: which workload or Schedule a name implies by its form alone.

Pure text; whether the implied object exists, others decide.
"""

from __future__ import annotations

import re

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes draws suffixes from: no vowels, no 0, 1 and 3, so no word is made by accident."""

_HASH = "[0-9a-f]{8,10}"
_TAIL = re.compile(rf"(.+)-[{_ALPHABET}]{{5}}")
_ORDINAL = re.compile(r"(.+)-[0-9]+")
_HASH_TAIL = re.compile(rf"(.+)-{_HASH}-[{_ALPHABET}]{{5}}")
_REPLICASET = re.compile(rf"(.+)-(?:{_HASH}|[{_ALPHABET}]{{8,10}})")

SYNTHETIC_REPLICASET = "-5d8f7c9b6d"
SYNTHETIC_POD = "-5d8f7c9b6d-x2v5z"
SYNTHETIC_CHILD = "-x2v5z"

_BELOW = {
    "Deployment": frozenset({"ReplicaSet", "Pod"}),
    "ReplicaSet": frozenset({"Pod"}),
    "StatefulSet": frozenset({"Pod"}),
    "DaemonSet": frozenset({"Pod"}),
    "Job": frozenset({"Pod"}),
    "CronJob": frozenset({"Job", "Pod"}),
}


def workload_names(kind: str, name: str) -> tuple[str, ...]:
    """Names of workloads that a Pod or ReplicaSet of this name may belong to, shortest suffix first.

    Examples
    --------
    >>> workload_names("Pod", "cart-755465879b-x2v5z")
    ('cart-755465879b-x2v5z', 'cart-755465879b', 'cart')
    >>> workload_names("ReplicaSet", "cart-755465879b"), workload_names("Deployment", "cart-755465879b")
    (('cart',), ())
    """
    if kind == "ReplicaSet":
        found = _REPLICASET.fullmatch(name)
        return (found[1],) if found else ()
    if kind != "Pod":
        return ()
    stripped = [found[1] for form in (_TAIL, _ORDINAL, _HASH_TAIL) if (found := form.fullmatch(name))]
    return tuple(dict.fromkeys([name, *stripped]))


def implied_name(kind: str, name: str) -> str:
    """The workload's name that the form implies where no workload is known: without the longest suffix."""
    return (name, *workload_names(kind, name))[-1]


def schedule_name(name: str) -> str | None:
    """Name of the chaos Schedule that spawned an object of this name, if the name has that form."""
    found = _TAIL.fullmatch(name)
    return found[1] if found else None


def same_chain(first: str, second: str) -> bool:
    """Whether objects of two workload kinds can stand above one another (or the kinds are the same)."""
    return first == second or second in _BELOW.get(first, ()) or first in _BELOW.get(second, ())
