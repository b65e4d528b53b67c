"""traces.jsonl: the drawn requests that the tracing pipeline kept, one span per line."""

from __future__ import annotations

import json

from diagnose_bench.reconstruct.clock import Clock
from diagnose_bench.reconstruct.requests import Span, Trace


def kept_traces(traces: list[Trace], n_spans: int) -> list[Trace]:
    """Head sampling: every request has the same chance, whatever became of it."""
    kept, total = set(), 0
    for trace in sorted(traces, key=lambda one: (one.keep, one.trace_id)):
        if total >= n_spans:
            break
        kept.add(trace.trace_id)
        total += len(trace.spans)
    return [trace for trace in traces if trace.trace_id in kept]


def span_lines(traces: list[Trace], clock: Clock) -> list[str]:
    """Spans in the order of their start."""
    rows = [(span.start_s, trace.trace_id, span) for trace in traces for span in trace.spans]
    rows.sort(key=lambda row: (row[0], row[1], row[2].span_id))
    return [_line(trace_id, span, clock) for _, trace_id, span in rows]


def _line(trace_id: str, span: Span, clock: Clock) -> str:
    start = int(clock.start.timestamp()) * 1_000_000_000 + round(span.start_s * 1_000_000) * 1000
    resource = {"k8s.namespace.name": span.namespace}
    if span.pod is not None:
        resource["k8s.pod.name"] = span.pod.name
    record = {
        "traceId": trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id,
        "name": span.name,
        "kind": span.kind.removeprefix("SPAN_KIND_"),
        "service": span.service,
        "startTimeUnixNano": str(start),
        "durationNano": str(round(span.duration_ms * 1000) * 1000),
        "statusCode": "ERROR" if span.error else "UNSET",
        "attributes": span.attributes,
        "resource": resource,
    }
    return json.dumps(record, separators=(",", ":"))
