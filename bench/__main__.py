"""Print the scoring core's time as a ratio to one pass over its input and to a plain loop of sets."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import scoring

N_TRIALS = 100_000
N_RUNS = 5


def make_batch(rng: np.random.Generator) -> scoring.TrialBatch:
    """About eight submissions a trial, one to four root causes, a third of the trials at full recall."""
    n_root_causes = rng.integers(1, 5, N_TRIALS)
    lengths = rng.integers(0, 17, N_TRIALS)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return scoring.TrialBatch(
        codes=rng.integers(0, 8, int(offsets[-1])),
        offsets=offsets,
        n_root_causes=n_root_causes,
        has_diagnosis=np.ones(N_TRIALS, dtype=bool),
    )


def one_pass(batch: scoring.TrialBatch) -> float:
    """The least that any scorer must do: read every code once."""
    return float(batch.codes.sum() + batch.offsets.sum())


def plain_loop(batch: scoring.TrialBatch) -> list[float]:
    """The score by sets, trial by trial."""
    codes, offsets, roots = batch.codes.tolist(), batch.offsets.tolist(), batch.n_root_causes.tolist()
    scores = []
    for trial, n_roots in enumerate(roots):
        named = set(codes[offsets[trial] : offsets[trial + 1]])
        n_correct = sum(code < n_roots for code in named)
        scores.append(n_correct / len(named) if n_correct == n_roots else 0.0)
    return scores


def median_seconds(candidates: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Medians of interleaved runs, after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for run in range(N_RUNS + 1):
        for name, candidate in candidates.items():
            started = time.perf_counter()
            candidate()
            if run:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    """Measure and print."""
    batch = make_batch(np.random.default_rng(20))
    if scoring.score_trials(batch).precision_at_full_recall.tolist() != plain_loop(batch):
        raise SystemExit("the core and the plain loop differ: nothing was measured")
    medians = median_seconds(
        {
            "one pass over the input": lambda: one_pass(batch),
            "scoring core, all measures": lambda: scoring.score_trials(batch),
            "plain loop, one measure": lambda: plain_loop(batch),
        }
    )
    core = medians["scoring core, all measures"]
    print(f"{N_TRIALS:,} trials, {batch.codes.size:,} submissions, medians of {N_RUNS} interleaved runs")
    for name, seconds in medians.items():
        print(f"{name:<30} {seconds / core:8.3f} x the core")


if __name__ == "__main__":
    main()
