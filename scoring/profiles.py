"""Both profiles from one pass: names as numbers, and a table that says what each name is under each profile.

A name is resolved once, however often it was submitted; the table is what resolving gave. Scores themselves
are those of `precision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from scoring import _checks
from scoring._checks import BoolArray, CodeArray, IntArray
from scoring._tally import Meaning, blocks, tally
from scoring.errors import ScoringError
from scoring.precision import ScoreArrays, TrialScores, cutoffs


@dataclass(frozen=True, eq=False)
class NameTable:
    """What each distinct name is; each array has integers and shape (n_names,).

    Parameters
    ----------
    logical : ndarray
        Which logical entity: equal for names that count once under the first profile. Only names that occur
        in one trial are ever compared, so scenarios may use the same numbers.
    logical_root : ndarray
        Which root-cause set it hits there, from 0; -1 for a wrong entity. Names of one set have one logical
        entity.
    object_, object_root : ndarray
        The same for the strict profile, where each object is itself: several objects may hit one set, and the
        first of them in a trial is right while the others are wrong.

    Raises
    ------
    ScoringError
        The arrays are no such table.
    """

    logical: CodeArray
    logical_root: CodeArray
    object_: CodeArray
    object_root: CodeArray

    def __post_init__(self) -> None:
        for field in fields(self):
            array = _checks.codes(getattr(self, field.name), field.name)
            if array.shape != np.shape(self.logical):
                raise ScoringError(
                    f"{field.name} must have shape {np.shape(self.logical)}, not {array.shape}."
                )
            if array.size and int(array.min()) < (-1 if field.name.endswith("_root") else 0):
                raise ScoringError(f"{field.name} holds a number that is too small.")
            object.__setattr__(self, field.name, array)


@dataclass(frozen=True, eq=False)
class NamedBatch:
    """Submitted names of many trials, in the agents' order, to be scored under both profiles.

    Parameters
    ----------
    names : ndarray, int64 or int32, shape (n_codes,)
        Row of the table for each submission.
    offsets : ndarray, int64, shape (n_trials + 1,)
        Trial ``i`` owns ``names[offsets[i]:offsets[i + 1]]``.
    n_root_causes : ndarray, int64, shape (n_trials,)
        Root-cause sets of the trial's scenario; 0 marks one without a fault.
    has_diagnosis : ndarray, bool, shape (n_trials,)
        False where no readable diagnosis exists.
    table : NameTable
        What the names are.

    Raises
    ------
    ScoringError
        The arrays do not describe trials, or a name hits a root-cause set that its trial does not have.
    """

    names: CodeArray
    offsets: IntArray
    n_root_causes: IntArray
    has_diagnosis: BoolArray
    table: NameTable

    def __post_init__(self) -> None:
        names = _checks.codes(self.names, "names")
        offsets, n_root_causes, has_diagnosis = _checks.trials(
            names.size, self.offsets, self.n_root_causes, self.has_diagnosis
        )
        n_names = self.table.logical.size
        if names.size and (int(names.min()) < 0 or int(names.max()) >= n_names):
            raise ScoringError(f"names must lie in 0 .. {n_names - 1}, the rows of the table.")
        most_roots = np.maximum(self.table.logical_root, self.table.object_root)
        for trials in blocks(offsets):
            rows = offsets[trials.start : trials.stop + 1]
            limits = np.repeat(n_root_causes[trials], np.diff(rows))
            if bool(np.any(most_roots[names[rows[0] : rows[-1]]] >= limits)):
                raise ScoringError("a name hits a root-cause set beyond those of its trial.")
        for name, array in (
            ("names", names),
            ("offsets", offsets),
            ("n_root_causes", n_root_causes),
            ("has_diagnosis", has_diagnosis),
        ):
            object.__setattr__(self, name, array)


@dataclass(frozen=True, eq=False)
class ProfileScores:
    """The scores of each trial when workloads are one (``logical``), and object by object (``strict``)."""

    logical: TrialScores
    strict: TrialScores


def score_profiles(batch: NamedBatch, *, hits_at: Sequence[int] = ()) -> ProfileScores:
    """Score a batch under both profiles; each submission is read once.

    Parameters
    ----------
    batch : NamedBatch
        The trials.
    hits_at : sequence of int
        Numbers k, from 1, as for `score_trials`.
    """
    ks = cutoffs(hits_at)
    arrays = tuple(ScoreArrays(batch.n_root_causes, batch.has_diagnosis, ks) for _ in range(2))
    meanings = (
        Meaning(batch.table.logical, batch.table.logical_root),
        Meaning(batch.table.object_, batch.table.object_root),
    )
    for trials in blocks(batch.offsets):
        rows, n_roots = batch.offsets[trials.start : trials.stop + 1], batch.n_root_causes[trials]
        found = tally(batch.names, rows, n_roots, meanings, ranked=True, ks=ks)
        for array, one in zip(arrays, found, strict=True):
            array.fill(trials, one)
    logical, strict = arrays
    return ProfileScores(logical.frozen(), strict.frozen())
