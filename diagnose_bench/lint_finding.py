"""What a check of a suite found. Holds results, checks nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SUITE = "*"
"""Stands for the scenario id where a finding is about the suite as a whole."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """The result of one check on one scenario (or on the suite).

    Attributes
    ----------
    ok : bool or None
        None where the check cannot be applied; ``detail`` says why.
    """

    scenario_id: str
    check: str
    ok: bool | None
    detail: str

    def line(self) -> str:
        """One line for a terminal."""
        state = "not checked" if self.ok is None else "ok" if self.ok else "BROKEN"
        return f"{self.scenario_id} {self.check}: {state}: {self.detail}"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "scenario_id": self.scenario_id,
            "check": self.check,
            "ok": self.ok,
            "detail": self.detail,
        }


def judge(scenario_id: str, check: str, problems: list[str], fine: str) -> LintFinding:
    """A finding that holds unless there are problems; the first few are named."""
    if not problems:
        return LintFinding(scenario_id, check, True, fine)
    shown = "; ".join(problems[:3])
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return LintFinding(scenario_id, check, False, shown + more)
