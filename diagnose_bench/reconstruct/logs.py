"""logs/: lines of simulated requests, container starts, the platform's everyday chatter, and extra lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from diagnose_bench.errors import SuiteError
from diagnose_bench.files import write_atomic
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.platform import standard
from diagnose_bench.reconstruct.pods import Pod
from diagnose_bench.reconstruct.requests import Trace, Visit
from diagnose_bench.reconstruct.spec import ExtraLog
from diagnose_bench.reconstruct.voices import Voice, apache_time
from diagnose_bench.reconstruct.world import World, key_of

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
    voice = Voice(world.clock, world.draws("voice"))
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
    rate = world.curve(extra.rate, 0)
    pods = world.pods.get(extra.workload, [])
    time = draws.uniform(0, extra.every_s or 1)
    number = 0
    while time < length:
        if extra.every_s is not None:
            step = extra.every_s * (draws.uniform(0.4, 1.6) if extra.jitter else 1.0)
            emit = True
        else:
            level = rate(time)
            step = draws.exponential(1 / level) if level > 0.002 else 5.0
            emit = level > 0.002
        if emit:
            alive = [pod for pod in pods if pod.running_since(time) is not None]
            if alive or not pods:
                text = extra.texts[number % len(extra.texts)] if extra.sequence else draws.choice(extra.texts)
                pod = draws.choice(alive) if alive else None
                book.add(extra.workload, time, fill(text, world, draws, time, pod))
                number += 1
        time += step


def fill(text: str, world: World, draws: Draws, time: float, pod: Pod | None) -> str:
    """Replace placeholders: {int:low:high}, {hex:n}, {choice:a|b}, {pod:namespace/workload}, {node}, times.

    Numbers are drawn anew each time, everything else once per line.
    """
    moment = world.clock.at(time)
    chosen: dict[str, Pod] = {}
    choices: dict[str, str] = {}
    node = pod.node if pod else draws.choice(world.nodes).name

    def value(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
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
        values: dict[str, str] = {
            "pod": pod.name if pod else "-",
            "ip": pod.ip if pod else "10.20.10.5",
            "port": str(pod.workload.port or 8080) if pod else "8080",
            "node": node,
            "iso": moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}",
            "mmdd": moment.strftime("%m%d"),
            "clock": moment.strftime("%H:%M:%S.%f"),
            "slash": moment.strftime("%Y/%m/%d %H:%M:%S"),
            "unixms": str(int(moment.timestamp() * 1000)),
            "apache": apache_time(moment).replace("/", "-").replace(":", " ", 1),
            "client": f"{draws.choice(['203.0.113', '198.51.100', '192.0.2'])}.{draws.integer(1, 254)}",
        }
        whole: str = match[0]
        return values.get(name, whole)

    return _PLACEHOLDER.sub(value, text)
