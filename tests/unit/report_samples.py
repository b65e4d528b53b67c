"""Runs whose every text is hostile, for the tests of the report's formats."""

from __future__ import annotations

from pathlib import Path

from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.grading import score_run
from diagnose_bench.outcome import Outcome
from diagnose_bench.records import BoundaryEvent, Confidence, EventKind, EventLayer
from diagnose_bench.report import Report, load_report

ONE, TWO, CALM = "scenario-001", "scenario-002", "scenario-003"
CART, FRONTEND = "shop/Deployment/cart", "shop/Deployment/frontend"


def hostile_text(port: int = 9) -> str:
    """Markup of every format, control characters, and an address that would count a request."""
    url = f"http://127.0.0.1:{port}/x"
    return (
        f"<script>fetch('{url}')</script><img src={url}><style>@import url({url});</style>"
        f'"><svg onload=fetch("{url}")> {{{{ 7 * 7 }}}} {{% raw %}} [red]x[/red] | `a` ``b`` ![i]({url}) '
        f"[l]({url}) www.example.com {url} \x1b]0;title\x07\x1b[31mred\x9b1m \u202egnp.exe\u2066 \x00 \ud800"
        "\n# heading"
    )


def events(text: str) -> tuple[BoundaryEvent, ...]:
    """More boundary events than are shown, the weightiest last."""
    weights = [Confidence.LOW] * 70 + [Confidence.HIGH]
    return tuple(
        BoundaryEvent(
            time="2025-01-01T00:00:00Z",
            command=number or None,
            layer=EventLayer.TEXT,
            kind=EventKind.PATH,
            detail=f"event-{number} {text}",
            confidence=weight,
        )
        for number, weight in enumerate(weights)
    )


def hostile_report(root: Path, port: int = 9) -> Report:
    """Two scored runs, one with baselines, one incomplete; every free text is hostile."""
    text = hostile_text(port)
    truth = truth_of(ONE, ["cart"], ["frontend"])
    truth["family"] = text.replace("\ud800", "").replace("\x00", "")
    truth["groups"].append({"id": "odd <b>|group", "entities": ["shop/Deployment/checkout"]})
    suite = write_suite(root, {ONE: truth, TWO: truth_of(TWO, ["cart", "valkey"]), CALM: truth_of(CALM, [])})
    trials = {
        (ONE, 1): Trial(
            [CART, FRONTEND, text.replace("\ud800", ""), "shop/Deployment/checkout"], outputs=(text, "cart")
        ),
        (ONE, 2): Trial([CART], outputs=("cart",), changes={"boundary_events": events(text)}),
        (TWO, 1): Trial([CART], outputs=("cart",) * 60, changes={"reason": text, "repairs": (text,)}),
        (TWO, 2): Trial([f"shop/Deployment/x{k}" for k in range(80)], outputs=("x" * 50_000,)),
        (CALM, 1): Trial([]),
        (CALM, 2): Trial(None, Outcome.TIME_LIMIT, changes={"reason": text}),
    }
    first = write_run(root / "first", suite, trials, repeats=2, agent=text)
    write_run(
        first / "baselines" / "loudest",
        suite,
        {(one, 1): Trial([FRONTEND]) for one in (ONE, TWO, CALM)},
        agent="baseline:loudest",
    )
    second = write_run(root / "second", suite, {(ONE, 1): Trial([CART])}, repeats=2, agent="second")
    for run in (first, second):
        score_run(run)
    return load_report([first, second])
