"""Results of the coverage study -> the tables of docs/statistics.md. Simulates nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.models import BASES, DESIGNS, FIRST, FRESH

Row = dict[str, Any]


def table(
    rows: Sequence[Row], name: str, models: Sequence[str], designs: Sequence[str], key: str = "rate"
) -> str:
    """Markdown table of one method: a line per design, a column per model."""
    lines = ["| design | " + " | ".join(models) + " | worst |", "|" + "---|" * (len(models) + 2)]
    cells = {(r["design"], r["model"]): r[key] for r in rows if r["name"] == name}
    for design in designs:
        values = [cells.get((design, model)) for model in models]
        known = [value for value in values if value is not None]
        shown = ["n/a" if value is None else f"{value:.3f}" for value in values]
        lines.append(f"| {design} | " + " | ".join(shown) + f" | {min(known):.3f} |")
    return "\n".join(lines)


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Text of every table of the template."""
    designs = [f"{n} x {r}" for n, r in DESIGNS]
    first, fresh = [m.name for m in FIRST], [m.name for m in FRESH]
    out: dict[str, str] = {}
    for part, models in (("first", first), ("fresh", fresh)):
        rows = results[part]
        for name in ("half-atom", "t", "strict", "sequential"):
            safe = name.replace("-", "_")
            out[f"{part}_{safe}"] = table(rows, name, models, designs)
            out[f"{part}_{safe}_worst"] = f"{min(r['rate'] for r in rows if r['name'] == name):.3f}"
            out[f"{part}_{safe}_sets"] = f"{next(r['n_sets'] for r in rows if r['name'] == name):,}"
        lines = ["| interval | " + " | ".join(designs) + " |", "|" + "---|" * (len(designs) + 1)]
        for name in ("half-atom", "t", "strict", "sequential"):
            widths = [
                np.mean([r["width"] for r in rows if r["name"] == name and r["design"] == design])
                for design in designs
            ]
            lines.append(f"| {name} | " + " | ".join(f"{width:.3f}" for width in widths) + " |")
        out[f"{part}_widths"] = "\n".join(lines)
    out["rate"] = table(results["rate"], "half-atom", first, designs)
    out["clustered"] = _by_model(results["clustered"])
    paired = [name for name in BASES if name != ".04"]
    for name, safe in (("t", "t"), ("sign-flip", "flip")):
        out[f"type_one_{safe}"] = _range_table(results["type_one"], name, paired)
        out[f"type_one_fresh_{safe}"] = _range_table(results["type_one"], name, fresh)
    out["family_wise"] = _by_model(results["family_wise"])
    lines = [
        "| truth | design | mean of ICC(1) | bias | s.e. | sd over data sets |",
        "|---|---|---|---|---|---|",
    ]
    for r in results["icc"]:
        lines.append(
            f"| {r['truth']:.1f} | {r['design']} | {r['mean']:.3f} | {r['mean'] - r['truth']:+.4f} "
            f"| {r['error']:.4f} | {r['sd']:.3f} |"
        )
    out["icc"] = "\n".join(lines)
    out["icc_worst"] = (
        f"{max(abs(r['mean'] - r['truth']) for r in results['icc'] if r['design'] == '59 x 3'):.4f}"
    )
    for name in ("between", "within", "icc_1"):
        for part, models in (("first", first), ("fresh", fresh)):
            out[f"{part}_{name}"] = table(results["variance"], name, models, ["20 x 3", "59 x 3"])
    lines = ["| mean score | design | minimum detectable | power there |", "|---|---|---|---|"]
    for r in results["power"]:
        lines.append(f"| {r['model']} | {r['design']} | {r['difference']:.3f} | {r['rate']:.3f} |")
    out["power"] = "\n".join(lines)
    out["jeffreys"] = f"{results['jeffreys']:.0e}"
    return out


def _by_model(rows: Sequence[Row]) -> str:
    models = list(dict.fromkeys(r["model"] for r in rows))
    kinds = list(dict.fromkeys((r["name"], r["design"]) for r in rows))
    lines = ["| what | " + " | ".join(models) + " |", "|" + "---|" * (len(models) + 1)]
    for name, design in kinds:
        cells = [
            r["rate"]
            for model in models
            for r in rows
            if (r["name"], r["design"], r["model"]) == (name, design, model)
        ]
        lines.append(
            f"| {name}{', ' + design if design else ''} | " + " | ".join(f"{c:.3f}" for c in cells) + " |"
        )
    return "\n".join(lines)


def _range_table(rows: Sequence[Row], name: str, models: Sequence[str]) -> str:
    lines = ["| design | " + " | ".join(models) + " |", "|" + "---|" * (len(models) + 1)]
    for design in ("20 x 3", "59 x 3"):
        cells = {r["model"]: r["rate"] for r in rows if r["name"] == name and r["design"] == design}
        lines.append(f"| {design} | " + " | ".join(f"{cells[model]:.3f}" for model in models) + " |")
    return "\n".join(lines)
