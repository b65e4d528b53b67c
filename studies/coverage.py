"""Coverage of the intervals, type I error of the tests and bias of the ICC, by simulation.

``python -m studies.coverage`` writes docs/statistics.md (the words stand in statistics.template.md beside
this file) and studies/coverage.json. ``--scale 0.1`` takes a tenth of the data sets. The tests run every part
with `SMALL`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import scoring
from scoring.betting import betting_bounds
from scoring.half_atom import DirichletRatio, merged, score_law
from studies.coverage_tables import Row, tables
from studies.models import (
    BASES,
    DESIGNS,
    FIRST,
    FRESH,
    FloatArray,
    Generator,
    Model,
    half_shared,
    paired_scores,
)

SEED = 20261130
LEVEL = 0.95
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Effort:
    """How much is drawn."""

    scale: float = 1.0
    """Share of the data sets of the full study."""
    fewest: int = 80
    """Data sets of a cell at least."""
    n_many: int = 2_000_000
    """Scenarios that a true mean is taken from."""

    def sets(self, full: int) -> int:
        """Data sets of a cell that has ``full`` of them in the full study."""
        return max(self.fewest, round(full * self.scale))


SMALL = Effort(scale=0.0, fewest=24, n_many=200_000)
"""Seconds: shows that the study works and that nothing is badly off, not more."""


def rng_of(*key: int) -> Generator:
    """Stream of one cell: adding a cell changes no other."""
    return np.random.default_rng([SEED, *key])


def covers(law: DirichletRatio, truth: float) -> bool:
    """Whether the interval between the 2.5 % and 97.5 % points holds the truth, without finding its ends."""
    return 0.025 <= law.cdf(truth) <= 0.975


def half_atom_covers(means: FloatArray, truth: float) -> bool:
    """The same for the default interval."""
    return covers(score_law(means, np.ones(means.size)), truth)


def strict_covers(means: FloatArray, truth: float) -> bool:
    """The same for the strict bounds."""
    ones = np.ones(means.size + 1)
    lower, upper = merged(np.append(means, 0.0), ones, ones), merged(np.append(means, 1.0), ones, ones)
    return lower.cdf(truth) >= 0.025 and upper.cdf(truth) <= 0.975


def sequential_covers(means: FloatArray, truth: float) -> bool:
    """The same for the betting sequence, at the last look."""
    low, high = betting_bounds(means, LEVEL)
    return low <= truth <= high


def t_covers(means: FloatArray, truth: float) -> bool:
    """The same for the t interval, with its fallback."""
    interval = scoring.mean_interval(means, method="t")
    return interval.low <= truth <= interval.high


Check = Callable[[FloatArray, float], bool]


def mean_coverage(models: Sequence[Model], which: int, n_sets: int, n_many: int) -> list[Row]:
    """Coverage and width of every interval in every cell."""
    checks: dict[str, tuple[Check, int]] = {
        "half-atom": (half_atom_covers, n_sets),
        "t": (t_covers, n_sets),
        "strict": (strict_covers, n_sets // 4),
        "sequential": (sequential_covers, n_sets // 4),
    }
    rows: list[Row] = []
    for m, model in enumerate(models):
        truth = model.truth(rng_of(which, m), n_many)[0]
        for d, (n, repeats) in enumerate(DESIGNS):
            rng = rng_of(which, m, d)
            sets = [model.draw(n, repeats, rng).mean(axis=1) for _ in range(n_sets)]
            for name, (check, count) in checks.items():
                coverage = float(np.mean([check(means, truth) for means in sets[:count]]))
                intervals = [
                    scoring.mean_interval(means, method=name) for means in sets[: max(1, n_sets // 80)]
                ]
                width = float(np.mean([2.0 * interval.half_width for interval in intervals]))
                rows.append(row(model.name, f"{n} x {repeats}", name, coverage, count, width=width))
    return rows


def rate_coverage(n_sets: int, n_many: int) -> list[Row]:
    """Coverage of the default interval for the full-recall rate of the models of the first set."""
    rows = []
    for m, model in enumerate(FIRST):
        truth = float((model.draw(n_many // 2, 1, rng_of(3, m)) > 0.0).mean())
        for d, (n, repeats) in enumerate(DESIGNS):
            rng = rng_of(3, m, d)
            hits = [
                half_atom_covers((model.draw(n, repeats, rng) > 0.0).mean(axis=1), truth)
                for _ in range(n_sets)
            ]
            rows.append(row(model.name, f"{n} x {repeats}", "half-atom", float(np.mean(hits)), n_sets))
    return rows


def row(model: str, design: str, name: str, rate: float, n_sets: int, **more: float) -> Row:
    """One figure with its number of data sets and standard error."""
    error = math.sqrt(max(rate * (1.0 - rate), 1.0 / n_sets) / n_sets)
    return {
        "model": model,
        "design": design,
        "name": name,
        "rate": rate,
        "n_sets": n_sets,
        "error": error,
        **more,
    }


def clustered_coverage(n_sets: int, n_many: int) -> list[Row]:
    """Coverage with splits, with families, with both, and of the lift."""
    rows = []
    for m, model in enumerate((FIRST[1], FIRST[2], FIRST[4])):
        truth = model.truth(rng_of(4, m), n_many)[0]
        splits = np.repeat([0, 1], [20, 39])
        rng = rng_of(4, m, 0)
        hits: dict[str, list[bool]] = {}

        def note(
            name: str, low: float, value: float, high: float, into: dict[str, list[bool]] = hits
        ) -> None:
            into.setdefault(name, []).append(low <= value <= high)

        for _ in range(n_sets):
            means = model.draw(59, 3, rng).mean(axis=1)
            for method in ("half-atom", "t"):
                interval = scoring.mean_interval(means, split_of=splits, method=method)
                note(f"splits 20 + 39, {method}", interval.low, truth, interval.high)
        # Families: between 1 and 8 scenarios that share their difficulty in half of the cases.
        rng = rng_of(4, m, 1)
        for _ in range(n_sets):
            families = np.repeat(np.arange(16), rng.integers(1, 9, 16))
            own = model.draw_scenarios(families.size, rng)
            shared = model.draw_scenarios(16, rng)[families]
            parameters = np.where(rng.random(families.size)[:, None] < 0.5, shared, own)
            means = model.draw_scores(parameters, 3, rng).mean(axis=1)
            for method in ("half-atom", "t"):
                interval = scoring.mean_interval(means, family_of=families, method=method)
                note(f"16 families as units, {method}", interval.low, truth, interval.high)
            interval = scoring.mean_interval(means)
            note("16 families, ignored, half-atom", interval.low, truth, interval.high)
            crossed = scoring.mean_interval(means, family_of=families, split_of=np.arange(families.size) % 2)
            note("16 families across 2 splits, half-atom", crossed.low, truth, crossed.high)
        # Lift: blind hits 30 % of the scenarios, twice as often where the agent is good.
        rng = rng_of(4, m, 2)
        scale = 0.3

        def blind_of(parameters: FloatArray, rng: Generator, scale: float = scale) -> FloatArray:
            easy = parameters[:, 0] > 0.5
            return (rng.random(parameters.shape[0]) < np.where(easy, 2 * scale, scale)).astype(np.float64)

        many = model.draw_scenarios(n_many, rng_of(4, m, 3))
        blind_truth = float(blind_of(many, rng_of(4, m, 4)).mean())
        for _ in range(n_sets):
            parameters = model.draw_scenarios(59, rng)
            means = model.draw_scores(parameters, 3, rng).mean(axis=1)
            lift = scoring.lift_over_blind(means, blind_of(parameters, rng))
            note("lift, 59 x 3", lift.difference.low, truth - blind_truth, lift.difference.high)
            ratio = (truth - blind_truth) / (1.0 - blind_truth)
            note("share of what blind leaves, 59 x 3", lift.share.low, ratio, lift.share.high)
        rows += [row(model.name, "", name, float(np.mean(seen)), n_sets) for name, seen in hits.items()]
    return rows


def type_one_error(n_sets: int) -> list[Row]:
    """How often paired tests call a difference between agents that are alike."""
    rows = []
    for n in (20, 59):
        for m, (name, (chance, wrong)) in enumerate(list(BASES.items())[1:]):
            rng = rng_of(5, n, m)
            pairs = (paired_scores(chance, wrong, n, 3, rng) for _ in range(n_sets))
            rows += paired_rows(name, n, pairs, n_sets, rng_of(5, n, m, 1))
    for n in (20, 59):
        for m, model in enumerate(FRESH):
            rng = rng_of(6, n, m)
            alike = (half_shared(model, n, 3, rng) for _ in range(n_sets))
            rows += paired_rows(model.name, n, alike, n_sets, rng_of(6, n, m, 1))
    return rows


def paired_rows(
    name: str, n: int, pairs: Iterable[tuple[FloatArray, FloatArray]], n_sets: int, rng: Generator
) -> list[Row]:
    """Share of data sets in which the t interval misses 0, and in which the sign-flip p is at most .05."""
    missed, called, widths = [], [], []
    for before, after in pairs:
        result = scoring.paired_difference(
            before.mean(axis=1), after.mean(axis=1), rng=rng, n_resamples=2_000
        )
        missed.append(not result.interval.low <= 0.0 <= result.interval.high)
        called.append(result.p_value <= 0.05)
        widths.append(2.0 * result.interval.half_width)
    width = float(np.mean(widths))
    return [
        row(name, f"{n} x 3", "t", float(np.mean(missed)), n_sets, width=width),
        row(name, f"{n} x 3", "sign-flip", float(np.mean(called)), n_sets),
    ]


def family_wise_error(n_sets: int) -> list[Row]:
    """How often a family of comparisons of six agents that are alike calls any difference."""
    rows = []
    for n in (20, 59):
        for m, (name, (chance, wrong)) in enumerate(list(BASES.items())[1:]):
            rng = rng_of(7, n, m)
            any_pair, any_holm = [], []
            for _ in range(n_sets):
                scores = six_alike(chance, wrong, n, rng)
                any_pair.append(scoring.all_pairs(scores, rng, n_resamples=1_000).p_values.min() <= 0.05)
                raw = [
                    scoring.paired_difference(scores[0], other, rng=rng, n_resamples=1_000).p_value
                    for other in scores[1:]
                ]
                any_holm.append(scoring.holm(raw).min() <= 0.05)
            rows.append(row(name, f"{n} x 3", "max-T, 15 pairs", float(np.mean(any_pair)), n_sets))
            rows.append(row(name, f"{n} x 3", "Holm, 5 against one", float(np.mean(any_holm)), n_sets))
    return rows


def six_alike(chance: tuple[float, float], wrong: float, n: int, rng: Generator) -> FloatArray:
    """Scenario means of six agents that are alike, shape (6, n)."""
    common = rng.beta(*chance, n).clip(1e-12, 1.0 - 1e-12)
    roots, mean_wrong = rng.integers(1, 5, n), wrong * rng.gamma(2.0, 0.5, n)
    logit = np.log(common) - np.log1p(-common) + rng.normal(size=(6, n))
    is_full = rng.random((6, n, 3)) < (1.0 / (1.0 + np.exp(-logit)))[:, :, None]
    u = rng.geometric(np.broadcast_to((1.0 / (1.0 + mean_wrong))[None, :, None], (6, n, 3))) - 1
    return np.asarray(np.where(is_full, roots[None, :, None] / (roots[None, :, None] + u), 0.0).mean(axis=2))


def icc_bias(n_sets: int) -> list[Row]:
    """Mean ICC(1) of binary scores with a known one; repeats equal in number, and not."""
    rows = []
    for i, truth in enumerate((0.0, 0.3, 0.6)):
        for n in (59, 20):
            for unbalanced in (False, True):
                rng = rng_of(8, i, n, int(unbalanced))
                values = []
                for _ in range(n_sets):
                    chance = np.full(n, 0.4) if truth == 0.0 else rng.beta(*_beta_of(0.4, truth), n)
                    scores = (rng.random((n, 5 if unbalanced else 3)) < chance[:, None]).astype(np.float64)
                    planned = np.ones(scores.shape, dtype=np.bool_)
                    if unbalanced:
                        planned = np.arange(5) < rng.integers(1, 6, n)[:, None]
                    values.append(scoring.repeat_variance(scores, planned).icc_1.estimate)
                known = np.array([value for value in values if not math.isnan(value)])
                rows.append(
                    {
                        "truth": truth,
                        "design": f"{n} x {'1 to 5' if unbalanced else '3'}",
                        "mean": float(known.mean()),
                        "sd": float(known.std(ddof=1)),
                        "n_sets": int(known.size),
                        "error": float(known.std(ddof=1) / math.sqrt(known.size)),
                    }
                )
    return rows


def _beta_of(mean: float, icc: float) -> tuple[float, float]:
    total = 1.0 / icc - 1.0
    return mean * total, (1.0 - mean) * total


def variance_coverage(n_sets: int, n_many: int) -> list[Row]:
    """Coverage of the intervals of the variance components and of ICC(1)."""
    rows = []
    for which, models in ((9, FIRST), (10, FRESH)):
        for m, model in enumerate(models):
            _, between, within = model.truth(rng_of(which, m), n_many)
            truths = {"between": between, "within": within, "icc_1": between / (between + within)}
            for n in (20, 59):
                rng = rng_of(which, m, n)
                seen: dict[str, list[bool]] = {name: [] for name in truths}
                for _ in range(n_sets):
                    found = scoring.repeat_variance(model.draw(n, 3, rng))
                    for name, truth in truths.items():
                        interval = getattr(found, name)
                        if not math.isnan(interval.low):
                            seen[name].append(interval.low <= truth <= interval.high)
                for name, hits in seen.items():
                    if hits:
                        rows.append(row(model.name, f"{n} x 3", name, float(np.mean(hits)), len(hits)))
    return rows


def power_check(n_sets: int, n_many: int) -> list[Row]:
    """Power of the sign-flip test at the difference that the design calls its minimum detectable one."""
    rows = []
    for m, (name, (chance, wrong)) in enumerate(list(BASES.items())[1:]):
        for n in (20, 59):
            rng = rng_of(11, m, n)
            big = [
                paired_scores(chance, wrong, n_many // 10, 8, rng_of(11, m, n, 1), shift)
                for shift in (0.0, 1.0)
            ]
            parts = scoring.estimate_components(*(run[:20_000] for run in big[0])).components
            wanted = scoring.minimum_detectable(parts, n, 3)
            shift = _shift_for(chance, wrong, wanted, rng_of(11, m, n, 2), n_many // 10)
            called = []
            for _ in range(n_sets):
                before, after = paired_scores(chance, wrong, n, 3, rng, shift)
                found = scoring.paired_difference(
                    before.mean(axis=1), after.mean(axis=1), rng=rng, n_resamples=1_000
                )
                called.append(found.p_value <= 0.05)
            rows.append(row(name, f"{n} x 3", "power", float(np.mean(called)), n_sets, difference=wanted))
    return rows


def _shift_for(
    chance: tuple[float, float], wrong: float, wanted: float, rng: Generator, n_many: int
) -> float:
    low, high = 0.0, 12.0
    for _ in range(12):
        shift = 0.5 * (low + high)
        before, after = paired_scores(chance, wrong, n_many, 1, rng, shift)
        if float(after.mean() - before.mean()) < wanted:
            low = shift
        else:
            high = shift
    return 0.5 * (low + high)


def jeffreys_distance() -> float:
    """Largest distance to the quantiles of Beta(c + 1/2, n - c + 1/2) on 0/1 data."""
    from scoring._special import beta_quantile

    worst = 0.0
    for n in (1, 2, 3, 5, 10, 20, 40, 59, 100, 200, 1000):
        for c in sorted({0, 1, n // 3, n // 2, n - 1, n}):
            found = scoring.mean_interval(np.repeat([1.0, 0.0], [c, n - c]))
            for end, p in ((found.low, 0.025), (found.high, 0.975)):
                worst = max(worst, abs(end - beta_quantile(p, c + 0.5, n - c + 0.5)))
    return worst


def parts(effort: Effort) -> dict[str, Callable[[], Any]]:
    """Every part of the study, by name."""
    sets, n_many = effort.sets, effort.n_many
    return {
        "jeffreys": jeffreys_distance,
        "icc": lambda: icc_bias(sets(4_000)),
        "first": lambda: mean_coverage(FIRST, 1, sets(8_000), n_many),
        "type_one": lambda: type_one_error(sets(4_000)),
        "fresh": lambda: mean_coverage(FRESH, 2, sets(8_000), n_many),
        "rate": lambda: rate_coverage(sets(4_000), n_many),
        "variance": lambda: variance_coverage(sets(1_000), n_many),
        "power": lambda: power_check(sets(2_000), n_many),
        "clustered": lambda: clustered_coverage(sets(2_000), n_many),
        "family_wise": lambda: family_wise_error(sets(1_000)),
    }


def one_row_per_line(results: dict[str, Any]) -> str:
    """JSON of the results with one figure a line, so that a change of one shows as one."""
    parts_text = []
    for name in sorted(results):
        value = results[name]
        rows = [json.dumps(r, sort_keys=True) for r in value] if isinstance(value, list) else None
        text = json.dumps(value) if rows is None else "[\n" + ",\n".join(rows) + "\n]"
        parts_text.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts_text) + "\n}\n"


def main() -> None:
    """Run the study and write its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the data sets")
    parser.add_argument(
        "--only", nargs="*", help="parts to run again; the others are taken from coverage.json"
    )
    parser.add_argument("--results", type=Path, default=HERE / "coverage.json")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "statistics.md")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    if options.results.exists():
        results = json.loads(options.results.read_text())
    for name, run in parts(Effort(scale=options.scale)).items():
        if options.only is None or name in options.only:
            started = time.perf_counter()
            results[name] = run()
            print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
            options.results.write_text(one_row_per_line(results))
    if all(name in results for name in parts(Effort())):
        options.out.parent.mkdir(exist_ok=True)
        options.out.write_text(document(results))


def document(results: dict[str, Any]) -> str:
    """The text of docs/statistics.md."""
    template = Template((HERE / "statistics.template.md").read_text())
    return template.substitute(tables(results), seed=SEED)


if __name__ == "__main__":
    main()
