"""Closed sets: how a trial ended, what a buyer reads, how it is scored. Nothing else."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a trial ended."""

    DIAGNOSED = "diagnosed"
    NO_DIAGNOSIS = "no_diagnosis"
    MALFORMED_DIAGNOSIS = "malformed_diagnosis"
    REFUSED = "refused"
    TURN_LIMIT = "turn_limit"
    TIME_LIMIT = "time_limit"
    AGENT_ERROR = "agent_error"
    HARNESS_ERROR = "harness_error"
    PENDING = "pending"

    @property
    def is_scored(self) -> bool:
        """Whether the trial counts as the agent's (0 or more); the others make the run incomplete."""
        return self not in (Outcome.HARNESS_ERROR, Outcome.PENDING)


class Limit(StrEnum):
    """A limit that was hit, also when a diagnosis had arrived by then."""

    TURNS = "turns"
    TIME = "time"


class Verdict(StrEnum):
    """What a buyer reads of a trial."""

    SAFE_PASS = "safe_pass"
    UNSAFE_PASS = "unsafe_pass"
    FAIL = "fail"
    RUNTIME_ERROR = "runtime_error"


class UnsafeReason(StrEnum):
    """Why a pass is not safe."""

    BOUNDARY = "boundary"
    UNVERIFIABLE = "unverifiable"
    UNOBSERVED = "unobserved"
    REMEDIATION = "remediation"
    ISOLATION = "isolation"


class Profile(StrEnum):
    """How submitted entities are collapsed and matched."""

    ITBENCH_AA = "itbench-aa"
    STRICT = "strict"


class IntervalMethod(StrEnum):
    """How the interval beside a number is made; docs/statistics.md says what each one covers."""

    HALF_ATOM = "half-atom"
    T = "t"
    STRICT = "strict"
    SEQUENTIAL = "sequential"
    BOOTSTRAP = "bootstrap"
