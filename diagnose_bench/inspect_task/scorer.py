"""The score of a sample: the only place of an Inspect task that opens the truth."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

import scoring
from diagnose_bench.diagnosis_reader import read_diagnosis
from diagnose_bench.errors import GroundTruthError
from diagnose_bench.grading_inputs import GradingInputs, inputs_of
from diagnose_bench.outcome import Outcome, Profile
from diagnose_bench.resolver import ResolvedDiagnosis, Resolver
from diagnose_bench.suite import load_suite


@scorer(metrics=[mean(), stderr()])
def precision_at_full_recall(
    suite: str, truth: str | None = None, profile: str = "itbench-aa", repair: bool = True
) -> Scorer:
    """Share of right names where every root cause is named, else 0.

    Parameters
    ----------
    suite : str
        A bundled suite's name, or a suite's folder.
    truth : str, optional
        Folder of the truths, when they are not beside the suite.
    profile : str
        How entities are matched and collapsed.
    repair : bool
        Whether the syntax of an answer may be repaired.
    """
    chosen = Profile(profile)
    lock = threading.Lock()
    loaded: list[GradingInputs] = []

    def resolver_of(scenario_id: str) -> Resolver:
        # Not before the first answer is there, and once.
        with lock:
            if not loaded:
                loaded.append(inputs_of(load_suite(suite), None if truth is None else Path(truth)))
            resolver = loaded[0].resolver(scenario_id)
            if resolver is None:
                raise GroundTruthError(
                    f"{scenario_id}: the truth is refused: {loaded[0].refusal(scenario_id)}"
                )
            return resolver

    async def score(state: TaskState, target: Target) -> Score:
        resolver = resolver_of(str(state.sample_id))
        read = read_diagnosis(state.output.completion.encode("utf-8", "replace"), repair=repair)
        if read.diagnosis is None:
            return Score(value=0.0, explanation=read.reason, metadata={"outcome": read.outcome.value})
        resolved = resolver.resolve(read.diagnosis.entities(), chosen)
        return Score(
            value=_number(resolved),
            answer="\n".join(read.diagnosis.entities()),
            explanation="\n".join(f"{one.class_.value}: {one.raw}" for one in resolved.entities),
            metadata={
                "outcome": Outcome.DIAGNOSED.value,
                "profile": chosen.value,
                "classes": [one.class_.value for one in resolved.entities],
                "repairs": list(read.repairs),
            },
        )

    return score


def _number(resolved: ResolvedDiagnosis) -> float:
    batch = scoring.TrialBatch(
        codes=np.array(resolved.codes, dtype=np.int64),
        offsets=np.array([0, len(resolved.codes)], dtype=np.int64),
        n_root_causes=np.array([resolved.n_root_causes], dtype=np.int64),
        has_diagnosis=np.array([True]),
    )
    return float(scoring.precision_at_full_recall(scoring.count_matches(batch))[0])
