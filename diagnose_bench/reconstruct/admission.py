"""What admission does to a new Pod: the LimitRanges of its namespace fill in what its template leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diagnose_bench.reconstruct.spec_workload import Resources, Workload


@dataclass(frozen=True)
class Admitted:
    """Resources of the main container as stored, and the annotation that says who wrote them."""

    requests: Resources
    limits: Resources
    annotation: str = ""


def admit(workload: Workload, limit_ranges: list[dict[str, Any]]) -> Admitted:
    """Apply LimitRanges that exist when a Pod is created.

    Parameters
    ----------
    workload : Workload
        Its template.
    limit_ranges : list of dict
        Manifests of the namespace.
    """
    requests = workload.requests.model_dump(exclude_none=True)
    limits = workload.limits.model_dump(exclude_none=True)
    given: tuple[set[str], set[str]] = (set(), set())
    for manifest in limit_ranges:
        for item in manifest["spec"]["limits"]:
            if item.get("type") != "Container":
                continue
            default = item.get("default", {})
            for resource, value in item.get("defaultRequest", default).items():
                if resource not in requests:
                    requests[resource] = value
                    given[0].add(resource)
            for resource, value in default.items():
                if resource not in limits:
                    limits[resource] = value
                    given[1].add(resource)
    container = workload.container or workload.name
    parts = [
        f"{', '.join(sorted(names))} {what} for container {container}"
        for names, what in zip(given, ("request", "limit"), strict=True)
        if names
    ]
    annotation = f"LimitRanger plugin set: {'; '.join(parts)}" if parts else ""
    return Admitted(Resources(**requests), Resources(**limits), annotation)
