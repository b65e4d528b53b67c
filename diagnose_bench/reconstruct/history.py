"""Templates that a Deployment had before: what its kept ReplicaSets of zero replicas remember."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.pods import mebibytes
from diagnose_bench.reconstruct.spec_workload import Workload

_DATED = re.compile(r"(\d{4}-\d\d-\d\d)-(\d{6})")
_MONTHLY = re.compile(r"(20\d\d)\.(0[1-9]|1[0-2])")
_SETTINGS = (
    ("LOG_LEVEL", "debug"), ("GOMAXPROCS", "2"), ("LOG_FORMAT", "text"), ("OTEL_TRACES_SAMPLER_ARG", "0.05"),
)  # fmt: skip
"""Settings that somebody tried and took back."""
_NUMBERED = re.compile(r"(\D*)(\d+(?:\.\d+)+)(.*)")


def older_tag(tag: str, draws: Draws) -> str:
    """The tag of a release before; the same tag where it tells no order (``latest``)."""
    if match := _DATED.fullmatch(tag):
        moment = datetime.strptime("".join(match.groups()), "%Y-%m-%d%H%M%S")
        earlier = moment - timedelta(days=draws.integer(1, 9), seconds=draws.integer(0, 20000))
        return earlier.strftime("%Y-%m-%d-%H%M%S")
    if match := _MONTHLY.fullmatch(tag):
        months = int(match[1]) * 12 + int(match[2]) - 1 - draws.integer(1, 2)
        return f"{months // 12}.{months % 12 + 1:02d}"
    if match := _NUMBERED.fullmatch(tag):
        parts = [int(part) for part in match[2].split(".")]
        for place in range(len(parts) - 1, 0, -1):
            if parts[place]:
                parts[place] -= 1
                parts[place + 1 :] = [draws.integer(0, 5) for _ in parts[place + 1 :]]
                return match[1] + ".".join(str(part) for part in parts) + match[3]
    return tag


def earlier_template(workload: Workload, draws: Draws) -> tuple[Workload, bool]:
    """A template that the given one may have replaced, and whether only a restart lies between them."""
    name, _, tag = workload.image.rpartition(":")
    older = older_tag(tag, draws)
    memory = mebibytes(workload.limits.memory)
    resized = draws.chance(0.25)
    if resized and memory and memory >= 128 and not workload.priority_class:
        smaller = f"{int(memory * draws.choice((0.5, 0.75)))}Mi"
        limits = workload.limits.model_copy(update={"memory": smaller})
        requests = workload.requests
        if (mebibytes(requests.memory) or 0) > memory / 2:
            requests = requests.model_copy(update={"memory": smaller})
        return workload.model_copy(update={"limits": limits, "requests": requests}), False
    if draws.chance(0.2) and not workload.priority_class:
        name_of, value = draws.choice([one for one in _SETTINGS if one[0] not in workload.env])
        return workload.model_copy(update={"env": {**workload.env, name_of: value}}), False
    if older == tag:
        return workload, True
    return workload.model_copy(update={"image": f"{name}:{older}"}), False
