"""Hypothesis strategies that several property tests share."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class PlainTrial:
    """A trial as plain lists, before it becomes part of a batch."""

    codes: tuple[int, ...]
    n_root_causes: int
    has_diagnosis: bool


@st.composite
def plain_trials(draw: st.DrawFn, max_size: int = 12) -> PlainTrial:
    """One trial: few codes, so that repeats, full recall and empty lists all occur often."""
    n_root_causes = draw(st.integers(0, 4))
    has_diagnosis = draw(st.integers(0, 9)) > 0
    codes = draw(st.lists(st.integers(0, n_root_causes + 3), max_size=max_size)) if has_diagnosis else []
    return PlainTrial(tuple(codes), n_root_causes, has_diagnosis)


batches = st.lists(plain_trials(), max_size=12)

score_tables = st.integers(1, 4).flatmap(
    lambda n_repeats: st.lists(
        st.lists(st.floats(0, 1), min_size=n_repeats, max_size=n_repeats), min_size=1, max_size=6
    )
)
