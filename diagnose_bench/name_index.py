"""Which of many names a truth could know at all, found without resolving each of them. Judges none.

Never leaves out a name that could meet a group; what it lets through, the resolver decides.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from diagnose_bench.filters import Filter
from diagnose_bench.forms import SYNTHETIC_CHILD, SYNTHETIC_POD, SYNTHETIC_REPLICASET, workload_names
from diagnose_bench.resolver import Resolver

# The plain forms, whose name is what stands behind the last or the second stroke; nothing stands behind it.
_PLAIN = re.compile(r"(?:[!-.0-9;-~]+/){1,2}(?P<name>[!-'*-~]+)")
_ENDINGS = ("", SYNTHETIC_REPLICASET, SYNTHETIC_POD, SYNTHETIC_CHILD)


class NameIndex:
    """Texts of entities by the names that they can be known under.

    Parameters
    ----------
    texts : sequence of str
        As an agent would submit them.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._others: list[str] = []
        self._by_key: dict[str, list[str]] = {}
        for text in texts:
            found = _PLAIN.fullmatch(text)
            if found is None:
                self._others.append(text)
                continue
            for key in _keys(found["name"]):
                self._by_key.setdefault(key, []).append(text)
        self._keys = sorted(self._by_key)

    def possible(self, resolver: Resolver) -> set[str]:
        """The texts that may name an object of this inventory, or meet a group of this truth.

        Notes
        -----
        The name of an object decides, and so do the names of the workload and of the Schedule that it
        implies. If none of them is in the inventory, the object and what it belongs to are made of the text
        alone: then it meets a group only by one of these names, or by a filter that fits one of them with or
        without a generated ending.
        """
        found = set(self._others)
        known = {key for name in resolver.known_names for key in _keys(name)}
        for key in known & self._by_key.keys():
            found.update(self._by_key[key])
        for item in resolver.filters:
            for key in self._with_prefix(item.prefix):
                if _fits(item, key):
                    found.update(self._by_key[key])
        return found

    def _with_prefix(self, prefix: str) -> Iterator[str]:
        """Keys that begin with a text, and those that reach it only with a generated ending."""
        start = bisect_left(self._keys, prefix)
        for place in range(start, len(self._keys)):
            if not self._keys[place].startswith(prefix):
                break
            yield self._keys[place]
        yield from (prefix[:size] for size in range(len(prefix)) if prefix[:size] in self._by_key)


def _keys(name: str) -> Iterable[str]:
    """The name, and every name that a form of generated names leaves of it."""
    return {*workload_names("Pod", name), *workload_names("ReplicaSet", name)}


def _fits(item: Filter, key: str) -> bool:
    return any(item.fits(key + ending) for ending in _ENDINGS)
