"""The part of PromQL that rules use; expected values are computed by hand from the samples."""

from __future__ import annotations

import pytest

from diagnose_bench.reconstruct.promql import Evaluator
from diagnose_bench.reconstruct.promql_parse import PromqlError, metric_names, parse
from diagnose_bench.reconstruct.store import Labels, Series


def labels(**values: str) -> Labels:
    return tuple(sorted(values.items()))


def counter(step: float, *, reset_at: int | None = None, **values: str) -> Series:
    """Grows by `step` each minute for ten minutes; starts again from zero at `reset_at`."""
    samples = []
    value = 100.0
    for minute in range(11):
        if minute == reset_at:
            value = 0.0
        samples.append((minute * 60.0, value))
        value += step
    return Series(labels(**values), samples)


def evaluator() -> Evaluator:
    return Evaluator(
        {
            "calls": [
                counter(60, svc="a", code="ok"),
                counter(6, svc="a", code="error"),
                counter(30, svc="b", code="ok"),
            ],
            "restarted": [counter(60, reset_at=8, svc="a")],
            "up": [Series(labels(job="x"), [(0.0, 1.0), (600.0, 0.0)])],
            "bucket": [
                Series(labels(le="100"), [(0.0, 0.0), (600.0, 50.0)]),
                Series(labels(le="200"), [(0.0, 0.0), (600.0, 90.0)]),
                Series(labels(le="+Inf"), [(0.0, 0.0), (600.0, 100.0)]),
            ],
            "want": [Series(labels(d="q"), [(600.0, 3.0)]), Series(labels(d="r"), [(600.0, 2.0)])],
            "have": [Series(labels(d="q"), [(600.0, 2.0)]), Series(labels(d="r"), [(600.0, 2.0)])],
        },
        1000.0,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('rate(calls{svc="b"}[5m])', {labels(svc="b", code="ok"): 0.5}),
        ('increase(calls{svc="b"}[5m])', {labels(svc="b", code="ok"): 150.0}),
        # 100+7*60 -> 0 -> 60 -> 120 at minute 10; from minute 5: 60 + 60 + 0 (reset to 0) + 60 + 60 = 240.
        ("increase(restarted[5m])", {labels(svc="a"): 240.0}),
        ("sum by (svc) (rate(calls[5m]))", {labels(svc="a"): 1.1, labels(svc="b"): 0.5}),
        (
            'sum by (svc) (rate(calls{code="error"}[5m])) / sum by (svc) (rate(calls[5m])) > 0.05',
            {labels(svc="a"): 0.1 / 1.1},
        ),
        ("sum without (code) (rate(calls[5m])) > 1", {labels(svc="a"): 1.1}),
        ("count(calls) - 1", {(): 2.0}),
        ("want > have", {labels(d="q"): 3.0}),
        ("want == have", {labels(d="r"): 2.0}),
        ('absent(up{job="y"} == 1)', {labels(job="y"): 1.0}),
        ('absent(up{job="x"})', {}),
        ("vector(1)", {(): 1.0}),
        ("time() - 100", {(): 1500.0}),
        ('want unless on (d) have{d="q"}', {labels(d="r"): 2.0}),
        ('want and have{d="q"}', {labels(d="q"): 3.0}),
        ('want{d="q"} or have', {labels(d="q"): 3.0, labels(d="r"): 2.0}),
        ('calls{svc!="a",code=~"o.*"}', {labels(svc="b", code="ok"): 400.0}),
        # 90 of 100 lie at or below 200, 50 at or below 100: the 0.7 quantile is 100 + (70-50)/(90-50) * 100.
        ("histogram_quantile(0.7, rate(bucket[10m]))", {(): 150.0}),
        ("histogram_quantile(0.95, rate(bucket[10m]))", {(): 200.0}),
        ("max_over_time(up[10m])", {labels(job="x"): 1.0}),
        ("changes(up[10m])", {labels(job="x"): 1.0}),
        ("delta(up[10m])", {labels(job="x"): -1.0}),
        ("-want + 1", {labels(d="q"): -2.0, labels(d="r"): -1.0}),
        ("1 + 2 * 3 - 4 / 2", {(): 5.0}),
        ("have / (have - have)", {}),
    ],
)
def test_value_at_ten_minutes(text: str, expected: dict[Labels, float]) -> None:
    assert evaluator().instant(parse(text), 600.0) == pytest.approx(expected)


def test_sample_older_than_five_minutes_is_stale() -> None:
    assert evaluator().instant(parse("up"), 299.0) == {labels(job="x"): 1.0}
    assert evaluator().instant(parse("up"), 301.0) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rate(",
        "rate(a)",
        "a[5m]",
        "sum(a",
        "a{b}",
        "a ?? b",
        "predict_linear(a[5m], 3)",
        "a b",
        'a{b=~"("}',
        "(" * 100 + "1" + ")" * 100,
        "1" * 5000,
        "histogram_quantile(0.9)",
        "vector()",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(PromqlError):
        Evaluator({"a": [Series((), [(0.0, 1.0)])]}, 0.0).instant(parse(text), 0.0)


def test_metric_names_are_those_of_all_selectors() -> None:
    assert metric_names(parse("sum(rate(a[5m])) / (b > 0 unless absent(c))")) == {"a", "b", "c"}
