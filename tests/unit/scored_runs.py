"""Scored runs on a small suite, from tables of scores, for tests of comparing, planning and querying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.grading import score_run
from diagnose_bench.outcome import Outcome

RIGHT, WRONG = "shop/Deployment/cart", "shop/Deployment/frontend"
SCORES: dict[float, list[str]] = {1.0: [RIGHT], 0.5: [RIGHT, WRONG], 0.0: [WRONG]}


def suite_of(
    root: Path,
    n_scenarios: int,
    families: Sequence[str | None] | None = None,
    *,
    splits: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """A suite in which the Deployment cart is always the cause."""
    truths: dict[str, dict[str, Any]] = {}
    for place, scenario_id in enumerate(ids_of(n_scenarios)):
        truths[scenario_id] = truth_of(scenario_id, ["cart"], ["checkout"])
        if families is not None and families[place] is not None:
            truths[scenario_id]["family"] = families[place]
    return write_suite(root, truths, splits=splits)


def ids_of(n_scenarios: int) -> list[str]:
    return [f"scenario-{number:03d}" for number in range(1, n_scenarios + 1)]


def scored(
    out: Path, suite: Path, table: Sequence[Sequence[float | None]], *, wrong: str = WRONG, **options: Any
) -> Path:
    """Write and score a run; a score is 1, 0.5 or 0, and None is a failure of the harness."""
    trials = {}
    for scenario_id, row in zip(ids_of(len(table)), table, strict=True):
        for repeat, score in enumerate(row, start=1):
            if score is None:
                trials[scenario_id, repeat] = Trial(None, outcome=Outcome.HARNESS_ERROR)
            else:
                names = [wrong if name == WRONG else name for name in SCORES[score]]
                trials[scenario_id, repeat] = Trial(names)
    profile = {"profile": options.pop("profile")} if "profile" in options else {}
    exclude = {"exclude": options.pop("exclude")} if "exclude" in options else {}
    run = write_run(
        out, suite, trials, repeats=len(table[0]), agent=options.pop("agent", out.name), **options
    )
    score_run(run, **profile, **exclude)
    return run
