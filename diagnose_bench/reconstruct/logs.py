"""logs/: lines of simulated requests, container starts, the platform's everyday chatter, and extra lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diagnose_bench.errors import SuiteError
from diagnose_bench.files import write_atomic
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.kubelet import kubelet_lines, process_id
from diagnose_bench.reconstruct.platform import standard
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.requests import Trace, Visit
from diagnose_bench.reconstruct.spec import ExtraLog
from diagnose_bench.reconstruct.voices import Voice, apache_time
from diagnose_bench.reconstruct.world import World, key_of
from diagnose_bench.reconstruct.writes import Revisions

_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^{}]*))?\}")


@dataclass
class LogBook:
    """Lines by file; the key is namespace/workload."""

    lines: dict[str, list[tuple[float, str]]] = field(default_factory=dict)

    def add(self, key: str, time: float, line: str) -> None:
        """Append a line."""
        self.lines.setdefault(key, []).append((time, line))

    def count(self) -> int:
        """All lines."""
        return sum(len(lines) for lines in self.lines.values())


def build_logs(world: World, traces: list[Trace]) -> LogBook:
    """All log lines of the window."""
    book = LogBook()
    _requests(world, traces, book)
    _starts(world, book)
    for time, line in kubelet_lines(world):
        book.add("kube-system/kubelet", time, line)
    keys = {*world.workloads, "kube-system/kubelet"}
    for key, chatter in standard("chatter").items():
        if key in keys:
            _emit(world, ExtraLog(workload=key, **chatter), book, "chatter")
    for number, extra in enumerate(world.spec.logs):
        _emit(world, extra, book, f"extra-{number}")
    length = world.clock.length_s
    for key in book.lines:
        book.lines[key] = sorted(
            (one for one in book.lines[key] if 0 <= one[0] <= length and one[1]), key=lambda one: one[0]
        )
    return book


def write_logs(book: LogBook, folder: Path, world: World) -> None:
    """One file per workload."""
    folder.mkdir(parents=True, exist_ok=True)
    for key in sorted(book.lines):
        lines = book.lines[key]
        if lines:
            text = "".join(f"{world.clock.rfc3339_ms(time)} {line}\n" for time, line in lines)
            write_atomic(folder / f"{key.replace('/', '_')}.log", text.encode())


def _requests(world: World, traces: list[Trace], book: LogBook) -> None:
    draws = world.draws("log-sample")
    voice = Voice(world.clock, world.draws("voice"), world.addresses)
    visits = sum(
        1
        for trace in traces
        for visit in trace.visits
        if visit.pod.workload.voice not in ("logfmt-quiet", "klog")
    )
    keep = min(1.0, world.spec.sampling.access_lines / max(1, visits))
    cap = world.spec.sampling.errors_per_min
    used: dict[tuple[str, int], int] = {}

    def allowed(key: str, time: float) -> bool:
        minute = (key, int(time // 60))
        used[minute] = used.get(minute, 0) + 1
        return used[minute] <= cap

    for trace in traces:
        for failure in trace.failures:
            key = key_of(failure.pod.workload)
            line = voice.failure(failure)
            if line and allowed(key, failure.time):
                book.add(key, failure.time, line)
        for visit in trace.visits:
            key = key_of(visit.pod.workload)
            if not draws.chance(keep) and not (_is_kept(visit, draws) and allowed(key, visit.time)):
                continue
            line = voice.access(visit)
            if line:
                book.add(key, visit.time, line)


def _is_kept(visit: Visit, draws: Draws) -> bool:
    """Whether the shipper's sampling spares an access line: errors are kept, in part where they abound."""
    voice = visit.pod.workload.voice
    if voice == "balancer":
        return visit.failed
    return (visit.own_failure or (visit.failed and voice != "node")) and draws.chance(0.5)


def _starts(world: World, book: LogBook) -> None:
    for pod in world.all_pods():
        for restart in pod.restarts:
            if restart.last_words and restart.container == pod.container:
                draws = world.draws("last-words", pod.uid)
                time = restart.at - draws.uniform(0.02, 0.3)
                book.add(key_of(pod.workload), time, fill(restart.last_words, world, draws, time, pod))
        banner = standard("banners").get(pod.workload.voice)
        if banner is None:
            continue
        draws = world.draws("banner", pod.workload.namespace, pod.name)
        starts = [pod.created + pod.start_delay]
        starts += [restart.back_at for restart in pod.restarts if restart.container == pod.container]
        for start in starts:
            moment = start
            for text in banner:
                moment += draws.uniform(0.02, 0.6)
                book.add(key_of(pod.workload), moment, fill(text, world, draws, moment, pod))


def _emit(world: World, extra: ExtraLog, book: LogBook, name: str) -> None:
    draws = world.draws("log", name, extra.workload)
    length = float(world.clock.length_s)
    pods = world.pods.get(extra.workload, [])
    if extra.pods != "all":
        newest = world.current(extra.workload).number
        pods = [pod for pod in pods if (pod.revision == newest) == (extra.pods == "new")]
    watched = world.pods[extra.watches] if extra.watches else []
    for number, time in enumerate(_moments(world, extra, draws)):
        alive = [pod for pod in pods if pod.running_since(time) is not None and pod.serves(time)]
        if pods and not alive:
            continue
        writer = draws.choice(alive) if alive else None
        about = draws.choice([one for one in watched if one.serves(time)]) if watched else writer
        texts = extra.texts if not watched or (about and about.ready(time)) else extra.down_texts
        text = texts[number % len(texts)] if extra.sequence else draws.choice(texts)
        book.add(extra.workload, time, fill(text, world, draws, time, about))
    for pod in watched:
        for restart in pod.restarts:
            # The check that finds it down comes before the next start.
            time = restart.at + draws.uniform(0.2, 0.8) * min(8.0, restart.back_at - restart.at + 5)
            if 0 <= time <= length and extra.down_texts and not pod.ready(time):
                text = draws.choice(extra.down_texts)
                book.add(extra.workload, time, fill(text, world, draws, time, pod))


def _moments(world: World, extra: ExtraLog, draws: Draws) -> Iterator[float]:
    """When a line is written: about every so many seconds, or as often as the rate says (thinned)."""
    length = float(world.clock.length_s)
    if extra.every_s is not None:
        time = draws.uniform(0, extra.every_s)
        while time < length:
            yield time
            time += extra.every_s * (draws.uniform(0.4, 1.6) if extra.jitter else 1.0)
        return
    rate = world.curve(extra.rate, 0)
    most = max((value for _, value in extra.rate), default=0.0)
    time = draws.exponential(1 / most) if most else length
    while time < length:
        if draws.chance(rate(time) / most):
            yield time
        time += draws.exponential(1 / most)


def _ready_of(world: World, pod: Pod | None, time: float) -> str:
    """Ready Pods of a Pod's workload and how many there should be, as load balancers write it."""
    if pod is None:
        return "0/0"
    present = [one for one in world.pods[key_of(pod.workload)] if one.serves(time)]
    return f"{sum(one.ready(time) for one in present)}/{len(present)}"


def fill(text: str, world: World, draws: Draws, time: float, pod: Pod | None) -> str:
    """Replace placeholders in a line.

    {int:low:high}, {hex:n}, {choice:a|b}, {pod:namespace/workload}, {node}, {localpod} (a Pod of that node),
    {tag} (the image's), {up} (ready of all), {rv:offset}, {pid} (the kubelet's) and times.
    Numbers are drawn anew each time, everything else once per line.
    """
    moment = world.clock.at(time)
    chosen: dict[str, Pod] = {}
    choices: dict[str, str] = {}
    joined = [one for one in world.nodes if world.placement.created(one) <= time]
    node = pod.node if pod else draws.choice(joined or world.nodes).name

    def value(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        whole: str = match[0]
        if name == "int" and argument:
            low, high = argument.split(":")
            return str(draws.integer(int(low), int(high)))
        if name == "hex" and argument:
            return draws.hex(int(argument))
        if name == "choice" and argument:
            if argument not in choices:
                choices[argument] = draws.choice(argument.split("|"))
            return choices[argument]
        if name in ("pod", "ip", "poduid") and argument:
            if argument not in world.pods:
                raise SuiteError(f"$.logs: {match[0]} names no workload. Declare it first.")
            if argument not in chosen:
                alive = [one for one in world.pods[argument] if one.exists(time)] or world.pods[argument]
                chosen[argument] = draws.choice(alive)
            found = chosen[argument]
            return {"pod": found.name, "ip": found.ip, "poduid": found.uid}[name]
        if name == "localpod":
            here = [
                one for one in world.all_pods() if one.node == node and one.running_since(time) is not None
            ]
            other = draws.choice(here) if here else None
            return f"{other.workload.namespace}/{other.name}" if other else whole
        if name == "rv":
            return str(Revisions(world).at(time + float(argument or 0)))
        if name == "pid":
            return str(process_id(world, node))
        values: dict[str, str] = {
            "pod": pod.name if pod else "-",
            "ip": pod.ip if pod else world.node_addresses[node],
            "port": str(pod.workload.port or 8080) if pod else "8080",
            "node": node,
            "nodeip": world.node_addresses[node],
            "tag": pod.workload.image.rpartition(":")[2].lstrip("v") if pod else "-",
            "up": _ready_of(world, pod, time),
            "iso": moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}",
            "mmdd": moment.strftime("%m%d"),
            "clock": moment.strftime("%H:%M:%S.%f"),
            "slash": moment.strftime("%Y/%m/%d %H:%M:%S"),
            "unixms": str(int(moment.timestamp() * 1000)),
            "apache": apache_time(moment).replace("/", "-").replace(":", " ", 1),
            "client": f"{draws.choice(['203.0.113', '198.51.100', '192.0.2'])}.{draws.integer(1, 254)}",
        }
        return values.get(name, whole)

    return _PLACEHOLDER.sub(value, text)
