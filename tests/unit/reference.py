"""The score in a few lines of sets and loops, from the rules and not from the code: the tests' oracle."""

from __future__ import annotations

from collections.abc import Sequence


def reference_scores(codes: Sequence[int], n_roots: int, has_diagnosis: bool = True) -> dict[str, float]:
    """Every measure of one trial."""
    names = ("precision_at_full_recall", "ranked_precision_at_full_recall", "precision", "recall", "f1")
    distinct = list(dict.fromkeys(codes))
    if not has_diagnosis or n_roots == 0:
        return dict.fromkeys(names, float(has_diagnosis and not distinct))
    hits = [code for code in distinct if code < n_roots]
    precision = len(hits) / len(distinct) if distinct else 0.0
    recall = len(hits) / n_roots
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    ranked = sum(
        len(set(distinct[:k]) & set(hits)) / k for k in range(1, len(distinct) + 1) if distinct[k - 1] in hits
    )
    full = set(hits) == set(range(n_roots))
    values = (precision if full else 0.0, ranked / n_roots if full else 0.0, precision, recall, f1)
    return dict(zip(names, values, strict=True))
