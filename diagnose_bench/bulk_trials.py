"""The trials of a bulk file as arrays: who, what, which repeat, how it ended, what it scored. Knows no files.

Blocks come in, in the order of the file; at the end the trials are put in order and second rows for one trial
are found.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import scoring
from diagnose_bench.outcome import Outcome, Profile

OUTCOMES = tuple(Outcome)
_OUTCOME_NUMBERS = {outcome: number for number, outcome in enumerate(OUTCOMES)}
DIAGNOSED = _OUTCOME_NUMBERS[Outcome.DIAGNOSED]

_TRIAL = np.dtype(
    [
        ("line", np.int64),
        ("at", np.int64),
        ("size", np.int32),
        ("agent", np.int32),
        ("scenario", np.int32),
        ("repeat", np.int32),
        ("outcome", np.uint8),
        ("n_correct", np.uint16),
        ("n_wrong", np.uint16),
        ("strict_n_correct", np.uint16),
        ("strict_n_wrong", np.uint16),
        ("ranked", np.float64),
        ("strict_ranked", np.float64),
        ("n_events", np.int32),
    ]
)
TrialArray = NDArray[np.void]


@dataclass
class BlockRows:
    """Rows of a block that were read one by one, in lists; names are numbers of the name book."""

    lines: list[int] = field(default_factory=list)
    agents: list[int] = field(default_factory=list)
    scenarios: list[int] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def add(
        self, line: int, agent: int, scenario: int, repeat: int, outcome: Outcome, names: list[int]
    ) -> None:
        """Append a row."""
        self.lines.append(line)
        self.agents.append(agent)
        self.scenarios.append(scenario)
        self.repeats.append(repeat)
        self.outcomes.append(_OUTCOME_NUMBERS[outcome])
        self.names += names
        self.lengths.append(len(names))


@dataclass(frozen=True)
class TrialColumns:
    """Rows as columns; row ``i`` owns ``names[offsets[i]:offsets[i + 1]]``."""

    lines: NDArray[np.int64]
    agents: NDArray[np.int64]
    scenarios: NDArray[np.int64]
    repeats: NDArray[np.int64]
    outcomes: NDArray[np.int64]
    names: NDArray[np.int64]
    offsets: NDArray[np.int64]


def score_columns(
    rows: TrialColumns, table: scoring.NameTable, n_root_causes: NDArray[np.int64]
) -> TrialArray:
    """Score rows under both profiles.

    Parameters
    ----------
    rows : TrialColumns
        The rows.
    table : NameTable
        What the names are.
    n_root_causes : ndarray, int64, shape (n_scenarios,)
        By scenario.
    """
    scores = scoring.score_profiles(
        scoring.NamedBatch(
            names=rows.names.astype(np.int32),
            offsets=rows.offsets,
            n_root_causes=n_root_causes[rows.scenarios],
            has_diagnosis=rows.outcomes == DIAGNOSED,
            table=table,
        )
    )
    trials = np.zeros(rows.lines.size, dtype=_TRIAL)
    trials["line"], trials["agent"] = rows.lines, rows.agents
    trials["scenario"], trials["repeat"], trials["outcome"] = rows.scenarios, rows.repeats, rows.outcomes
    trials["n_correct"], trials["n_wrong"] = scores.logical.counts.n_correct, scores.logical.counts.n_wrong
    trials["strict_n_correct"] = scores.strict.counts.n_correct
    trials["strict_n_wrong"] = scores.strict.counts.n_wrong
    trials["ranked"] = scores.logical.ranked_precision_at_full_recall
    trials["strict_ranked"] = scores.strict.ranked_precision_at_full_recall
    return trials


class Trials:
    """All trials of a file, collected block by block."""

    def __init__(self) -> None:
        self._blocks: list[TrialArray] = []

    def add(self, trials: TrialArray) -> None:
        """Append the trials of a block."""
        self._blocks.append(trials)

    def finish(self) -> tuple[TrialArray, TrialArray]:
        """The trials by agent, scenario and repeat, and the rows that came second for a trial, by line."""
        everything = np.concatenate([np.zeros(0, dtype=_TRIAL), *self._blocks])
        self._blocks.clear()
        keys = everything["agent"].astype(np.int64)
        for name in ("scenario", "repeat"):
            keys = keys * (int(everything[name].max(initial=0)) + 1) + everything[name]
        if bool(np.all(keys[1:] > keys[:-1])):
            # In order as they came, as most files are.
            return everything, everything[:0]
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        is_second = np.zeros(order.size, dtype=np.bool_)
        is_second[1:] = ordered[1:] == ordered[:-1]
        second = everything[np.sort(order[is_second])]
        return everything[order[~is_second]], second


def counts_of(trials: TrialArray, n_root_causes: NDArray[np.int64], profile: Profile) -> scoring.MatchCounts:
    """The counts of trials under a profile."""
    prefix = "strict_" if profile is Profile.STRICT else ""
    return scoring.MatchCounts(
        n_correct=trials[f"{prefix}n_correct"].astype(np.int64),
        n_wrong=trials[f"{prefix}n_wrong"].astype(np.int64),
        n_root_causes=n_root_causes[trials["scenario"]],
        has_diagnosis=trials["outcome"] == DIAGNOSED,
    )


def measures_of(
    trials: TrialArray, n_root_causes: NDArray[np.int64], profile: Profile
) -> dict[str, NDArray[np.float64]]:
    """Every measure of trials under a profile."""
    counts = counts_of(trials, n_root_causes, profile)
    return {
        "precision_at_full_recall": scoring.precision_at_full_recall(counts),
        "ranked_precision_at_full_recall": trials["strict_ranked" if profile is Profile.STRICT else "ranked"],
        "precision": scoring.precision(counts),
        "recall": scoring.recall(counts),
        "f1": scoring.f1(counts),
    }
