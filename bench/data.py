"""Synthetic trials, the same on every machine: about 8 names each, 36 % at full recall, names that repeat."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scoring

N_AGENTS = 30
N_WRONG = 60


@dataclass(frozen=True)
class Trials:
    """Codes of trials, sorted by agent and scenario."""

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    n_root_causes: NDArray[np.int64]
    scenario: NDArray[np.int32]
    agent: NDArray[np.int32]
    n_scenarios: int

    @property
    def n_trials(self) -> int:
        return self.scenario.size

    @property
    def n_bytes(self) -> int:
        """What has to be read: codes, offsets and scenarios."""
        return self.codes.nbytes + self.offsets.nbytes + self.scenario.nbytes

    def batch(self) -> scoring.TrialBatch:
        return scoring.TrialBatch(
            self.codes, self.offsets, self.n_root_causes, np.ones(self.n_trials, dtype=np.bool_)
        )

    def lists(self) -> list[list[int]]:
        edges = self.offsets.tolist()
        codes = self.codes.tolist()
        return [codes[a:b] for a, b in pairwise(edges)]


def trials(n_trials: int, n_scenarios: int = 1000) -> Trials:
    """Draw trials; each has 1 to 4 root causes, found with a chance that shrinks with their number."""
    rng = np.random.default_rng(20_261_130)
    cell = np.arange(n_trials) * (N_AGENTS * n_scenarios) // n_trials
    agent, scenario = (part.astype(np.int32) for part in np.divmod(cell, n_scenarios))
    n_root_causes = (scenario % 4 + 1).astype(np.int64)
    lengths = rng.integers(1, 16, n_trials)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    roots = np.repeat(n_root_causes, lengths)
    right = rng.random(offsets[-1]) < 0.3
    codes = np.where(
        right, rng.integers(0, roots), roots + np.minimum(rng.geometric(0.1, offsets[-1]) - 1, N_WRONG - 1)
    )
    return Trials(codes.astype(np.int32), offsets, n_root_causes, scenario, agent, n_scenarios)


def name_of(scenario: int, code: int) -> str:
    """The entity that a code stands for; unlike real ones, no two scenarios share a name."""
    return f"namespace-{scenario % 7}/Deployment/service-{scenario}-{code}-abcd"


def write_suite(root: Path, n_scenarios: int) -> Path:
    """Write a suite of truths alone whose root causes are those of `trials`; return its folder."""
    suite, truths = root / "snapshots" / "bench", root / "ground_truth" / "bench"
    suite.mkdir(parents=True)
    truths.mkdir(parents=True)
    ids = [scenario_id(number) for number in range(n_scenarios)]
    document = {
        "format_version": 1,
        "name": "bench",
        "version": "1",
        "pass_score": 1.0,
        "scenarios": [{"id": one, "digest": None} for one in ids],
    }
    (suite / "suite.json").write_text(json.dumps(document))
    for number, one in enumerate(ids):
        groups = [
            {"id": f"root-{code}", "entities": [name_of(number, code)], "root_cause": True}
            for code in range(number % 4 + 1)
        ]
        truth: dict[str, Any] = {"format_version": 1, "scenario_id": one, "title": one, "groups": groups}
        (truths / f"{one}.yaml").write_text(json.dumps(truth))
    return suite


def scenario_id(number: int) -> str:
    return f"scenario-{number + 1:04d}"


def write_rows(path: Path, drawn: Trials) -> Path:
    """Write trials as rows of JSON."""
    names = [[name_of(s, code) for code in range(N_WRONG + 4)] for s in range(drawn.n_scenarios)]
    repeats: dict[tuple[int, int], int] = {}
    with path.open("w") as file:
        for agent, scenario, codes in zip(
            drawn.agent.tolist(), drawn.scenario.tolist(), drawn.lists(), strict=True
        ):
            repeat = repeats[agent, scenario] = repeats.get((agent, scenario), 0) + 1
            row = {
                "agent": f"agent-{agent}",
                "scenario_id": scenario_id(scenario),
                "repeat": repeat,
                "entities": [names[scenario][code] for code in codes],
            }
            file.write(json.dumps(row) + "\n")
    return path
