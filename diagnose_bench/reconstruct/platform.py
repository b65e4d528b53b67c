"""What every cluster has: standard workloads, what they say when nothing happens, the usual alerting rules.

The texts lie in ``data/``; a specification picks from them and overrides fields. Nothing here belongs to any
one incident.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from diagnose_bench.errors import SuiteError
from diagnose_bench.reconstruct.spec import Cluster
from diagnose_bench.reconstruct.spec_workload import Workload

_DATA = Path(__file__).parent / "data"


@cache
def standard(name: str) -> Any:
    """One of the data files: ``workloads``, ``chatter``, ``banners``, ``configs``, ``rules``."""
    return yaml.safe_load((_DATA / f"{name}.yaml").read_bytes())


def platform_workloads(cluster: Cluster) -> list[Workload]:
    """Standard workloads of a cluster, with its overrides.

    Raises
    ------
    SuiteError
        A name that is not a standard workload.
    """
    known: dict[str, dict[str, Any]] = standard("workloads")
    unknown = sorted((set(cluster.platform) | set(cluster.override)) - set(known))
    if unknown:
        raise SuiteError(
            f"$.cluster.platform: unknown standard workload {unknown[0]!r}. "
            f"Known: {', '.join(sorted(known))}."
        )
    found = []
    for name in cluster.platform:
        given = {"name": name, **known[name], **cluster.override.get(name, {})}
        # The cluster's own parts have its version.
        given["image"] = given["image"].replace("{version}", cluster.version)
        found.append(Workload.model_validate(given))
    return found
