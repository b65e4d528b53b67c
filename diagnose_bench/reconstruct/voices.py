"""How components speak: access lines, failure lines and start-up lines in the formats of real software.

A voice renders what a simulated request did; it never adds knowledge of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime

from diagnose_bench.reconstruct.clock import Clock
from diagnose_bench.reconstruct.draws import Draws
from diagnose_bench.reconstruct.requests import Failure, Visit

AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/122.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Mobile/15E148",
    "Mozilla/5.0 (X11; Linux x86_64; rv:123.0) Gecko/20100101 Firefox/123.0",
    "okhttp/4.12.0",
)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def apache_time(moment: datetime) -> str:
    """``17/Oct/2024:20:51:12`` in any locale."""
    return f"{moment:%d}/{_MONTHS[moment.month - 1]}/{moment:%Y:%H:%M:%S}"


class Voice:
    """Renders lines; one instance per scenario, since it draws addresses and ids."""

    def __init__(self, clock: Clock, draws: Draws, addresses: Mapping[str, str]) -> None:
        self._clock = clock
        self.addresses = addresses
        self._draws = draws
        self._serial = 4000000 + draws.integer(0, 900000)

    def access(self, visit: Visit) -> str | None:
        """Access line of one request, None where the component writes none."""
        renderer = _ACCESS.get(visit.pod.workload.voice)
        return renderer(self, visit) if renderer else None

    def failure(self, failure: Failure) -> str | None:
        """Line of one failed attempt."""
        renderer = _FAILURE.get(failure.pod.workload.voice)
        return renderer(self, failure) if renderer else None

    def moment(self, seconds: float) -> datetime:
        """The time stamp for lines that carry their own."""
        return self._clock.at(seconds)

    def serial(self) -> int:
        """A growing connection number."""
        self._serial += self._draws.integer(1, 40)
        return self._serial

    def client(self) -> str:
        """Address of somebody outside (documentation ranges)."""
        block = self._draws.choice(("203.0.113", "198.51.100", "192.0.2"))
        return f"{block}.{self._draws.integer(1, 254)}"

    def agent(self, visit: Visit) -> str:
        """User agent of the client."""
        return self._draws.choice(visit.operation.agents or AGENTS)

    def draw(self) -> Draws:
        """The voice's own stream."""
        return self._draws


def _upstream(visit: Visit) -> tuple[str, str]:
    if visit.upstream is None:
        return "-", "-"
    return f"{visit.upstream.ip}:{visit.upstream.workload.serving_port}", visit.upstream.workload.name


def _nginx_access(voice: Voice, visit: Visit) -> str:
    address, name = _upstream(visit)
    size = visit.operation.size if not visit.failed else 150
    size = int(size * voice.draw().uniform(0.6, 1.5))
    seconds = f"{visit.duration_ms / 1000:.3f}"
    namespace = visit.upstream.workload.namespace if visit.upstream else "default"
    upstream_name = f"{namespace}-{name}-http" if name != "-" else "-"
    method = visit.operation.name.split()[0]
    return (
        f"{voice.client()} - - [{apache_time(voice.moment(visit.time))} +0000] "
        f'"{method} {visit.path} HTTP/2.0" {visit.status} {size} "-" "{voice.agent(visit)}" '
        f"{voice.draw().integer(180, 900)} {seconds} [{upstream_name}] [] {address} {size} {seconds} "
        f"{visit.status} {visit.trace_id}"
    )


def _nginx_failure(voice: Voice, failure: Failure) -> str:
    reason = {
        "timeout": "upstream timed out (110: Operation timed out) while reading response header "
        "from upstream",
        "connect": "connect() failed (111: Connection refused) while connecting to upstream",
        "dns": "upstream host not found",
        "nxdomain": "upstream host not found",
        "server": "",
    }[failure.cause]
    if not reason:
        return ""
    address = (
        f"http://{failure.upstream.ip}:{_port(failure)}" if failure.upstream else f"http://{failure.host}"
    )
    server = "www" if failure.operation.paths else "_"
    return (
        f"{voice.moment(failure.time):%Y/%m/%d %H:%M:%S} [error] 33#33: *{voice.serial()} {reason}, "
        f"client: {voice.client()}, server: {server}, "
        f'request: "{failure.operation.name.split()[0]} {failure.path} HTTP/2.0", '
        f'upstream: "{address}{failure.path}"'
    )


def _pino(voice: Voice, time: float, level: int, host: str, message: str, **fields: object) -> str:
    record: dict[str, object] = {
        "level": level,
        "time": int(voice.moment(time).timestamp() * 1000),
        "pid": 1,
        "hostname": host,
    }
    record.update(fields)
    record["msg"] = message
    return json.dumps(record, separators=(",", ":"))


def _node_access(voice: Voice, visit: Visit) -> str:
    request = {"method": visit.operation.name.split()[0], "url": visit.path}
    level = 50 if visit.failed else 30
    message = "request errored" if visit.failed else "request completed"
    return _pino(
        voice, visit.time, level, visit.pod.name, message, reqId=visit.trace_id[:16], req=request,
        res={"statusCode": visit.status}, responseTime=round(visit.duration_ms, 1),
    )  # fmt: skip


def _target(failure: Failure) -> str:
    return failure.host


def _port(failure: Failure) -> int:
    return failure.upstream.workload.serving_port if failure.upstream else 8080


def _address(voice: Voice, failure: Failure) -> str:
    service = voice.addresses.get(failure.edge.target.workload)
    return service or (failure.upstream.ip if failure.upstream else failure.host)


def _node_failure(voice: Voice, failure: Failure) -> str:
    target = _target(failure)
    error = {
        "dns": {"type": "Error", "message": f"getaddrinfo EAI_AGAIN {target}", "code": "EAI_AGAIN"},
        "nxdomain": {"type": "Error", "message": f"getaddrinfo ENOTFOUND {target}", "code": "ENOTFOUND"},
        "connect": {"type": "Error", "message": f"connect ECONNREFUSED {target}", "code": "ECONNREFUSED"},
        "timeout": {
            "type": "TimeoutError",
            "message": f"timeout of {failure.edge.call.timeout_ms:.0f}ms exceeded",
            "code": "ECONNABORTED",
        },
        "server": {"type": "HTTPError", "message": f"Request failed with status code {failure.status}"},
    }[failure.cause]
    return _pino(
        voice, failure.time, 50, failure.pod.name, "upstream request failed", reqId=failure.trace_id[:16],
        upstream=target, attempt=failure.attempt + 1, err=error,
    )  # fmt: skip


def _logfmt_access(voice: Voice, visit: Visit) -> str:
    level = "error" if visit.failed else "info"
    line = (
        f'level={level} msg="request served" method={visit.operation.name.split()[0]} path={visit.path} '
        f"status={visit.status} duration={visit.duration_ms:.1f}ms trace_id={visit.trace_id}"
    )
    if visit.own_failure and visit.operation.error_text:
        line += f' err="{visit.operation.error_text}"'
    return line


def _logfmt_failure(voice: Voice, failure: Failure) -> str:
    target = _target(failure)
    error = {
        "dns": f"dial tcp: lookup {target}: i/o timeout",
        "nxdomain": f"dial tcp: lookup {target}: no such host",
        "connect": f"dial tcp {_address(voice, failure)}:{_port(failure)}: connect: connection refused",
        "timeout": f"Get http://{target}{failure.path}: context deadline exceeded",
        "server": f"unexpected status {failure.status} from {target}",
    }[failure.cause]
    return (
        f'level=error msg="call failed" target={target} attempt={failure.attempt + 1} err="{error}" '
        f"trace_id={failure.trace_id}"
    )


def _spring(voice: Voice, time: float, level: str, thread: int, logger: str, text: str) -> str:
    return (
        f"{voice.moment(time):%Y-%m-%dT%H:%M:%S}.{int(time * 1000) % 1000:03d}Z {level:>5} 1 --- "
        f"[nio-8080-exec-{thread}] {logger:<40} : {text}"
    )


def _class_of(name: str) -> str:
    words = "".join(part.capitalize() for part in name.replace("_", "-").split("-"))
    return f"c.{name.split('-')[0]}.web.{words}Controller"


def _spring_access(voice: Voice, visit: Visit) -> str:
    level = "ERROR" if visit.failed else "INFO"
    text = (
        f"{visit.operation.name.split()[0]} {visit.path} -> {visit.status} in {visit.duration_ms:.0f} ms "
        f"[traceId={visit.trace_id}]"
    )
    if visit.own_failure and visit.operation.error_text:
        text += f" {visit.operation.error_text}"
    name = visit.pod.workload.name
    return _spring(voice, visit.time, level, voice.draw().integer(1, 24), _class_of(name), text)


def _spring_failure(voice: Voice, failure: Failure) -> str:
    target = _target(failure)
    error = {
        "dns": f"java.net.UnknownHostException: {target}: Temporary failure in name resolution",
        "nxdomain": f"java.net.UnknownHostException: {target}: Name or service not known",
        "connect": f"java.net.ConnectException: Connection refused: {target}:{_port(failure)}",
        "timeout": f"java.net.http.HttpTimeoutException: request timed out calling {target}",
        "server": f"c.HttpServerErrorException: {failure.status} from {target}",
    }[failure.cause]
    logger = _class_of(failure.pod.workload.name).replace("web.", "client.").replace("Controller", "Client")
    return _spring(voice, failure.time, "ERROR", voice.draw().integer(1, 24), logger, error)


def _rails_access(voice: Voice, visit: Visit) -> str:
    record = {
        "method": visit.operation.name.split()[0],
        "path": visit.path,
        "format": "json" if "/api/" in visit.path else "html",
        "status": visit.status,
        "time": f"{voice.moment(visit.time):%Y-%m-%dT%H:%M:%S}.{int(visit.time * 1000) % 1000:03d}Z",
        "duration_s": round(visit.duration_ms / 1000, 5),
        "db_duration_s": round(visit.duration_ms / 5200, 5),
        "correlation_id": visit.trace_id[:26].upper(),
        "meta.remote_ip": voice.client(),
    }
    if visit.own_failure and visit.operation.error_text:
        record["exception.message"] = visit.operation.error_text
    return json.dumps(record, separators=(",", ":"))


def _rails_failure(voice: Voice, failure: Failure) -> str:
    target = _target(failure)
    name, message = {
        "dns": (
            "SocketError",
            f"Failed to open TCP connection to {target} (getaddrinfo: Temporary failure in name resolution)",
        ),
        "nxdomain": (
            "SocketError",
            f"Failed to open TCP connection to {target} (getaddrinfo: Name or service not known)",
        ),
        "connect": ("Errno::ECONNREFUSED", f"Failed to open TCP connection to {target} (Connection refused)"),
        "timeout": ("Net::OpenTimeout", f"execution expired ({target})"),
        "server": ("Faraday::ServerError", f"the server responded with status {failure.status} ({target})"),
    }[failure.cause]
    return json.dumps(
        {
            "severity": "ERROR",
            "time": f"{voice.moment(failure.time):%Y-%m-%dT%H:%M:%S}.{int(failure.time * 1000) % 1000:03d}Z",
            "correlation_id": failure.trace_id[:26].upper(),
            "exception.class": name,
            "exception.message": message,
        },
        separators=(",", ":"),
    )


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _registry_access(voice: Voice, visit: Visit) -> str:
    moment = voice.moment(visit.time)
    stamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond * 1000:09d}Z"
    level, text = (
        ("error", "response completed with error") if visit.failed else ("info", "response completed")
    )
    line = (
        f'time="{stamp}" level={level} msg="{text}" go.version=go1.20.12 '
        f"http.request.id={_uuid(visit.trace_id)} "
        f"http.request.method={visit.operation.name.split()[0]} http.request.remoteaddr={voice.client()} "
        f'http.request.uri="{visit.path}" http.request.useragent="{voice.agent(visit)}" '
        f"http.response.duration={visit.duration_ms:.6f}ms http.response.status={visit.status}"
    )
    if visit.own_failure and visit.operation.error_text:
        line += f' err.message="{visit.operation.error_text}"'
    return line


def _traefik_access(voice: Voice, visit: Visit) -> str:
    address, _ = _upstream(visit)
    route = visit.operation.name.split()[-1]
    router = f"{visit.pod.workload.namespace}-{route}-{hashlib.sha256(route.encode()).hexdigest()[:20]}"
    size = int((visit.operation.size if not visit.failed else 21) * voice.draw().uniform(0.7, 1.4))
    return (
        f"{voice.client()} - - [{apache_time(voice.moment(visit.time))} +0000] "
        f'"{visit.operation.name.split()[0]} {visit.path} HTTP/1.1" {visit.status} {size} '
        f'"-" "{voice.agent(visit)}" {voice.serial()} "{router}@kubernetescrd" '
        f'"http://{address}" {visit.duration_ms:.0f}ms'
    )


def _balancer_access(voice: Voice, visit: Visit) -> str:
    address, _ = _upstream(visit)
    moment = voice.moment(visit.time)
    total = visit.duration_ms
    status = str(visit.status)
    backend = "-" if visit.status in (502, 503) else status
    size = int((visit.operation.size if not visit.failed else 272) * voice.draw().uniform(0.7, 1.4))
    served = "-1" if backend == "-" else f"{total / 1000:.3f}"
    host = "api" if visit.operation.agents else "www"
    return (
        f"h2 {moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}Z edge "
        f"{voice.client()}:{voice.draw().integer(20000, 64000)} "
        f"{address} 0.000 {served} 0.000 {status} {backend} {voice.draw().integer(90, 700)} {size} "
        f'"{visit.operation.name.split()[0]} https://{host}{visit.path} HTTP/2.0" '
        f'"{voice.agent(visit)[:60]}" TLSv1.3 "Root=1-{visit.trace_id[:8]}-{visit.trace_id[8:]}"'
    )


def _php_access(voice: Voice, visit: Visit) -> str:
    return (
        f"{visit.time:.0f} {int(visit.duration_ms * 1000)} {voice.client()} php/{visit.status} "
        f"{visit.operation.size} {visit.operation.name.split()[0]} {visit.path} - "
        f"{visit.trace_id[:8]}-{visit.trace_id[8:12]}"
    )


def _php_failure(voice: Voice, failure: Failure) -> str:
    target = _target(failure)
    error = {
        "dns": f"getaddrinfo for {target} failed: Temporary failure in name resolution",
        "nxdomain": f"getaddrinfo for {target} failed: Name or service not known",
        "connect": f"Failed to connect to {target}: Connection refused",
        "timeout": f"Operation timed out after {failure.edge.call.timeout_ms:.0f} milliseconds ({target})",
        "server": f"server error {failure.status} from {target}",
    }[failure.cause]
    return json.dumps(
        {
            "channel": "http",
            "level": "ERROR",
            "reqId": failure.trace_id[:16],
            "host": failure.pod.name,
            "message": error,
        },
        separators=(",", ":"),
    )


_ACCESS: dict[str, Callable[[Voice, Visit], str]] = {
    "nginx-ingress": _nginx_access,
    "node": _node_access,
    "logfmt": _logfmt_access,
    "spring": _spring_access,
    "rails": _rails_access,
    "registry": _registry_access,
    "traefik": _traefik_access,
    "balancer": _balancer_access,
    "php": _php_access,
}

_FAILURE: dict[str, Callable[[Voice, Failure], str]] = {
    "nginx-ingress": _nginx_failure,
    "node": _node_failure,
    "logfmt": _logfmt_failure,
    "spring": _spring_failure,
    "rails": _rails_failure,
    "registry": _logfmt_failure,
    "php": _php_failure,
}
