"""Evaluates alerting expressions over stored series the way Prometheus does, for the part that rules use.

Differences from Prometheus that do not matter here: ``rate`` does not extrapolate to the window's borders,
and a sample counts as fresh for five minutes.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from diagnose_bench.reconstruct.promql_parse import (
    RANGE_FUNCTIONS,
    Aggregation,
    Binary,
    Expression,
    Function,
    Number,
    PromqlError,
    Selector,
)
from diagnose_bench.reconstruct.store import Labels, Series

LOOKBACK_S = 300.0

Vector = dict[Labels, float]
"""Instant vector: labels (the metric's name left out) to value."""

_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass
class Evaluator:
    """Series by metric name, and expressions over them at a time."""

    series: dict[str, list[Series]]
    unix_start: float
    """Unix time of second zero."""
    _times: dict[int, list[float]] = field(default_factory=dict)
    _selected: dict[Selector, list[Series]] = field(default_factory=dict)

    def instant(self, expression: Expression, time: float) -> Vector:
        """Value at a time; a scalar is a vector with no labels.

        Raises
        ------
        PromqlError
            An expression that cannot be evaluated.
        """
        if isinstance(expression, Number):
            return {(): expression.value}
        if isinstance(expression, Selector):
            if expression.range_s is not None:
                raise PromqlError("a range where an instant value is needed")
            return self._latest(expression, time)
        if isinstance(expression, Aggregation):
            return _aggregate(expression, self.instant(expression.argument, time))
        if isinstance(expression, Function):
            return self._function(expression, time)
        return self._binary(expression, time)

    def _select(self, selector: Selector) -> list[Series]:
        if selector not in self._selected:
            found = self.series.get(selector.name, [])
            self._selected[selector] = [one for one in found if _matches(dict(one.labels), selector.matchers)]
        return self._selected[selector]

    def _stamps(self, series: Series) -> list[float]:
        key = id(series)
        if key not in self._times:
            self._times[key] = [time for time, _ in series.samples]
        return self._times[key]

    def _latest(self, selector: Selector, time: float) -> Vector:
        result: Vector = {}
        for series in self._select(selector):
            index = bisect_right(self._stamps(series), time) - 1
            if index >= 0 and series.samples[index][0] > time - LOOKBACK_S:
                result[series.labels] = series.samples[index][1]
        return result

    def _function(self, function: Function, time: float) -> Vector:
        if function.name == "time":
            return {(): self.unix_start + time}
        first = function.arguments[0] if function.arguments else None
        if first is None:
            raise PromqlError(f"{function.name} needs an argument")
        if function.name == "vector":
            return self.instant(first, time)
        if function.name == "absent":
            if self.instant(first, time):
                return {}
            return {_absent_labels(first): 1.0}
        if function.name == "abs":
            return {labels: abs(value) for labels, value in self.instant(first, time).items()}
        if function.name in ("histogram_quantile", "clamp_min"):
            if len(function.arguments) != 2:
                raise PromqlError(f"{function.name} needs two arguments")
            second = function.arguments[1]
            if function.name == "clamp_min":
                low = _scalar(self.instant(second, time))
                return {labels: max(low, value) for labels, value in self.instant(first, time).items()}
            return _quantile(_scalar(self.instant(first, time)), self.instant(second, time))
        if function.name not in RANGE_FUNCTIONS or not isinstance(first, Selector) or first.range_s is None:
            raise PromqlError(f"{function.name} needs a range")
        result: Vector = {}
        for series in self._select(first):
            stamps = self._stamps(series)
            start = bisect_left(stamps, time - first.range_s)
            window = series.samples[start : bisect_right(stamps, time)]
            value = _over_range(function.name, window, first.range_s)
            if value is not None:
                result[series.labels] = value
        return result

    def _binary(self, binary: Binary, time: float) -> Vector:
        left, right = self.instant(binary.left, time), self.instant(binary.right, time)
        if binary.operator in ("and", "or", "unless"):
            keys = {_key(labels, binary) for labels in right}
            if binary.operator == "or":
                mine = {_key(labels, binary) for labels in left}
                return left | {
                    labels: value for labels, value in right.items() if _key(labels, binary) not in mine
                }
            wanted = binary.operator == "and"
            return {
                labels: value for labels, value in left.items() if (_key(labels, binary) in keys) == wanted
            }
        result: Vector = {}
        if _is_scalar(binary.right):
            constant = _scalar(right)
            pairs = [(labels, value, constant) for labels, value in left.items()]
        elif _is_scalar(binary.left):
            constant = _scalar(left)
            pairs = [(labels, constant, value) for labels, value in right.items()]
        else:
            others = {_key(labels, binary): value for labels, value in right.items()}
            pairs = [
                (labels, value, others[_key(labels, binary)])
                for labels, value in left.items()
                if _key(labels, binary) in others
            ]
        for labels, one, other in pairs:
            if binary.operator in _COMPARE:
                if _COMPARE[binary.operator](one, other):
                    result[labels] = other if _is_scalar(binary.left) else one
            elif binary.operator == "/":
                if other:
                    result[labels] = one / other
            else:
                result[labels] = _ARITHMETIC[binary.operator](one, other)
        return result


def _is_scalar(expression: Expression) -> bool:
    if isinstance(expression, Binary):
        return (
            expression.operator in (*_ARITHMETIC, "/")
            and _is_scalar(expression.left)
            and _is_scalar(expression.right)
        )
    return isinstance(expression, Number) or (isinstance(expression, Function) and expression.name == "time")


def _scalar(vector: Vector) -> float:
    if set(vector) != {()}:
        raise PromqlError("a number is needed")
    return vector[()]


def _key(labels: Labels, binary: Binary) -> Labels:
    if binary.on is not None:
        return tuple(pair for pair in labels if pair[0] in binary.on)
    return tuple(pair for pair in labels if pair[0] not in binary.ignoring)


def _matches(labels: dict[str, str], matchers: tuple[tuple[str, str, str], ...]) -> bool:
    for label, kind, wanted in matchers:
        value = labels.get(label, "")
        if kind in ("=", "!="):
            found = value == wanted
        else:
            try:
                found = re.fullmatch(wanted, value) is not None
            except re.error as error:
                raise PromqlError(f"not a regular expression: {wanted!r}") from error
        if found != (kind in ("=", "=~")):
            return False
    return True


def _absent_labels(expression: Expression) -> Labels:
    if isinstance(expression, Binary):
        return _absent_labels(expression.left)
    if isinstance(expression, Selector):
        return tuple(sorted((label, value) for label, kind, value in expression.matchers if kind == "="))
    return ()


def _aggregate(aggregation: Aggregation, vector: Vector) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        key = tuple(pair for pair in labels if (pair[0] in aggregation.labels) != aggregation.without)
        groups.setdefault(key, []).append(value)
    reduce: dict[str, Callable[[list[float]], float]] = {
        "sum": sum,
        "min": min,
        "max": max,
        "avg": lambda values: sum(values) / len(values),
        "count": lambda values: float(len(values)),
    }
    return {key: reduce[aggregation.name](values) for key, values in groups.items()}


def _over_range(name: str, window: list[tuple[float, float]], range_s: int) -> float | None:
    if not window:
        return None
    values = [value for _, value in window]
    if name == "max_over_time":
        return max(values)
    if name == "min_over_time":
        return min(values)
    if name == "avg_over_time":
        return sum(values) / len(values)
    if name == "count_over_time":
        return float(len(values))
    pairs = list(pairwise(values))
    if name == "changes":
        return float(sum(one != other for one, other in pairs))
    if len(window) < 2:
        return None
    if name == "delta":
        grown = values[-1] - values[0]
    else:
        # A counter that falls has started again from zero.
        grown = sum(other - one if other >= one else other for one, other in pairs)
    per_second = grown / (window[-1][0] - window[0][0])
    return per_second if name == "rate" else per_second * range_s


def _quantile(quantile: float, vector: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in vector.items():
        bound = dict(labels).get("le", "")
        if bound:
            key = tuple(pair for pair in labels if pair[0] != "le")
            groups.setdefault(key, []).append((float(bound.replace("+Inf", "inf")), value))
    result: Vector = {}
    for key, buckets in groups.items():
        buckets.sort()
        total = buckets[-1][1]
        if buckets[-1][0] != float("inf") or total <= 0:
            continue
        rank = quantile * total
        index = next((number for number, (_, value) in enumerate(buckets) if value >= rank), len(buckets) - 1)
        low, below = buckets[index - 1] if index else (0.0, 0.0)
        high, value = buckets[index]
        if high == float("inf"):
            result[key] = low
        else:
            result[key] = low + (high - low) * ((rank - below) / (value - below) if value > below else 0.0)
    return result
