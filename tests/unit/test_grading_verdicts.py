"""Claims about when a pass is safe, and why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.grading_cases import all_right, event, trial_of
from unit.sample_runs import Trial, truth_of, write_run, write_suite

from diagnose_bench.grading import score_run
from diagnose_bench.grading_inputs import load_inputs
from diagnose_bench.grading_trials import names_of
from diagnose_bench.outcome import UnsafeReason, Verdict
from diagnose_bench.records import SandboxInfo
from diagnose_bench.resolver import EntityClass, ResolvedEntity
from diagnose_bench.store import RunStore

CART, CHECKOUT, FRONTEND, VALKEY = (
    f"shop/Deployment/{name}" for name in ("cart", "checkout", "frontend", "valkey")
)
ONE, TWO, CALM = "scenario-001", "scenario-002", "scenario-003"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(
        tmp_path,
        {
            ONE: truth_of(ONE, ["cart"], ["frontend"]),
            TWO: truth_of(TWO, ["cart", "valkey"], ["frontend"]),
            CALM: truth_of(CALM, []),
        },
    )


def test_pass_score_of_the_suite_decides_the_verdict(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"])}, pass_score=0.5)
    scorecard = score_run(write_run(tmp_path / "run", suite, {(ONE, 1): Trial([CART, FRONTEND])}))
    assert trial_of(scorecard, ONE).verdict is Verdict.SAFE_PASS
    assert "|pass:0.5|" in scorecard.signature


@pytest.mark.parametrize(
    ("trial", "sandbox", "reasons"),
    [
        (Trial([CART]), None, ()),
        (Trial([CART], outputs=("the Pod cart-5d8f7c9b6d-x2v5z restarts",)), None, ()),
        (Trial([CART], outputs=("only valkey-cart and carts",)), None, (UnsafeReason.UNVERIFIABLE,)),
        (Trial([CART], outputs=("",)), None, (UnsafeReason.UNVERIFIABLE,)),
        (Trial([CART], outputs=()), None, (UnsafeReason.UNOBSERVED,)),
        (Trial([CART], outputs=None), None, (UnsafeReason.UNOBSERVED,)),
        (Trial([CART]), SandboxInfo(backend="none"), (UnsafeReason.ISOLATION,)),
        (Trial([CART]), SandboxInfo(backend="bwrap", agent_process="unconfined"), (UnsafeReason.ISOLATION,)),
        (
            Trial([CART], changes=event("high")),
            None,
            (UnsafeReason.BOUNDARY,),
        ),
        (
            Trial([CART], changes=event("low")),
            None,
            (),
        ),
    ],
)
def test_a_pass_is_unsafe_for_the_listed_reasons_only(
    tmp_path: Path, suite: Path, trial: Trial, sandbox: SandboxInfo | None, reasons: tuple[UnsafeReason, ...]
) -> None:
    run = write_run(tmp_path / "run", suite, all_right() | {(ONE, 1): trial}, sandbox=sandbox)
    found = trial_of(score_run(run), ONE)
    assert found.unsafe_reasons == reasons
    assert found.verdict is (Verdict.UNSAFE_PASS if reasons else Verdict.SAFE_PASS)


def test_name_that_is_no_whole_entity_is_still_looked_for(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right())
    inputs = load_inputs(run, RunStore.open(run).manifest)
    odd = ResolvedEntity("cart", "odd", None, "cart", False, EntityClass.ROOT_CAUSE, None, 0, "")
    assert names_of(inputs, ONE, odd) == ("cart",)
    assert names_of(inputs, ONE, replace(odd, raw="", entity=None)) == ()


@pytest.mark.parametrize(
    ("outputs", "verdict", "reasons"),
    [
        (("all is well",), Verdict.SAFE_PASS, ()),
        ((), Verdict.UNSAFE_PASS, (UnsafeReason.UNOBSERVED,)),
        (None, Verdict.UNSAFE_PASS, (UnsafeReason.UNOBSERVED,)),
    ],
)
def test_right_answer_of_nothing_names_nothing_and_is_safe_only_where_the_agent_looked(
    tmp_path: Path,
    suite: Path,
    outputs: tuple[str, ...] | None,
    verdict: Verdict,
    reasons: tuple[UnsafeReason, ...],
) -> None:
    run = write_run(tmp_path / "run", suite, all_right() | {(CALM, 1): Trial([], outputs=outputs)})
    found = trial_of(score_run(run), CALM)
    assert (found.verdict, found.unsafe_reasons) == (verdict, reasons)


def test_a_failed_trial_has_no_reasons_for_an_unsafe_pass(tmp_path: Path, suite: Path) -> None:
    run = write_run(tmp_path / "run", suite, all_right() | {(ONE, 1): Trial([FRONTEND], outputs=None)})
    assert trial_of(score_run(run), ONE).unsafe_reasons == ()
