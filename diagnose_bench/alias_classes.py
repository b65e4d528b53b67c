"""Alias classes of a truth: groups accepted as one another, root-cause sets, distances of victims.

Works on the positions of groups; knows nothing of entities.
"""

from __future__ import annotations

from collections.abc import Iterable

from diagnose_bench.ground_truth import GroundTruth


class AliasClasses:
    """Connected components of the groups through the alias sets.

    Parameters
    ----------
    truth : GroundTruth
        Its alias sets hold ids of its groups.
    joined : iterable of pairs of int
        Further pairs of groups that are one: root groups of one workload.

    Attributes
    ----------
    root_sets : tuple of tuple of int
        The root groups of each root-cause set, in file order; a class with a root is one set.
    """

    def __init__(self, truth: GroundTruth, joined: Iterable[tuple[int, int]] = ()) -> None:
        groups = truth.groups
        position = {group.id: index for index, group in enumerate(groups)}
        self._parent = list(range(len(groups)))
        for alias_set in truth.aliases:
            members = [position[group_id] for group_id in alias_set if group_id in position]
            for member in members[1:]:
                self._join(members[0], member)
        for first, second in joined:
            self._join(first, second)
        roots: dict[int, list[int]] = {}
        for index, group in enumerate(groups):
            if group.root_cause:
                roots.setdefault(self._find(index), []).append(index)
        self.root_sets = tuple(tuple(members) for members in roots.values())
        self._set_of_class = {top: number for number, top in enumerate(roots)}
        steps = [
            (self._find(position[step.source]), self._find(position[step.target]))
            for step in truth.propagation
            if step.source in position and step.target in position
        ]
        self._distance = _distances(roots, [*steps, *((target, source) for source, target in steps)])
        self._distance.update(_distances(roots, steps))

    def root_set(self, group: int) -> int | None:
        """Number of the root-cause set that a group belongs to, directly or through an alias."""
        return self._set_of_class.get(self._find(group))

    def distance(self, group: int) -> int | None:
        """Hops from the nearest root along the propagation.

        Notes
        -----
        Counted over alias classes in the direction of the failure; where no such path exists, in both
        directions. None where the propagation does not connect the two.
        """
        return self._distance.get(self._find(group))

    def classes(self) -> list[list[int]]:
        """The classes of more than one group, in file order."""
        members: dict[int, list[int]] = {}
        for index in range(len(self._parent)):
            members.setdefault(self._find(index), []).append(index)
        return [groups for groups in members.values() if len(groups) > 1]

    def _find(self, index: int) -> int:
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index

    def _join(self, first: int, second: int) -> None:
        first, second = self._find(first), self._find(second)
        self._parent[max(first, second)] = min(first, second)


def _distances(starts: Iterable[int], steps: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Breadth first, so the first visit is the shortest."""
    following: dict[int, list[int]] = {}
    for source, target in steps:
        following.setdefault(source, []).append(target)
    distance = dict.fromkeys(starts, 0)
    frontier = list(distance)
    while frontier:
        reached: list[int] = []
        for node in frontier:
            for target in following.get(node, ()):
                if target not in distance:
                    distance[target] = distance[node] + 1
                    reached.append(target)
        frontier = reached
    return distance
