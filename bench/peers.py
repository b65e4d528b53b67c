"""The same work by other means: both measures of each trial, and the mean of scenario means of each agent.

Each returns the means by agent, so that what is timed is also checked.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scoring
from bench.data import N_AGENTS, Trials

Means = NDArray[np.float64]


def one_pass(drawn: Trials) -> float:
    """The floor: read every input once, write both result columns once."""
    total = int(drawn.codes.sum()) + int(drawn.offsets.sum()) + int(drawn.scenario.sum())
    for _ in range(2):
        np.empty(drawn.n_trials)[:] = total
    return total


def core(drawn: Trials, batch: scoring.TrialBatch) -> Means:
    scores = scoring.headline_scores(batch)
    return _means(drawn, scores.precision_at_full_recall, scores.ranked_precision_at_full_recall)


def _means(drawn: Trials, *scores: Means) -> Means:
    cell = drawn.agent * drawn.n_scenarios + drawn.scenario
    n_cells = N_AGENTS * drawn.n_scenarios
    sizes = np.maximum(np.bincount(cell, minlength=n_cells), 1)
    means = np.stack([np.bincount(cell, weights=score, minlength=n_cells) / sizes for score in scores])
    return np.asarray(means.reshape(len(scores), N_AGENTS, drawn.n_scenarios).mean(axis=2))


def plain_loop(drawn: Trials, lists: list[list[int]]) -> Means:
    first, second = [], []
    for codes, n_roots in zip(lists, drawn.n_root_causes.tolist(), strict=True):
        distinct = list(dict.fromkeys(codes))
        n_hits, ranked = 0, 0.0
        for rank, code in enumerate(distinct, 1):
            if code < n_roots:
                n_hits += 1
                ranked += n_hits / rank
        full = n_hits == n_roots
        first.append(n_hits / len(distinct) if full else 0.0)
        second.append(ranked / n_roots if full else 0.0)
    return _means(drawn, np.array(first), np.array(second))


def _long(drawn: Trials) -> dict[str, Any]:
    trial = np.repeat(np.arange(drawn.n_trials), np.diff(drawn.offsets))
    return {
        "trial": trial,
        "place": np.arange(drawn.codes.size),
        "code": drawn.codes,
        "n_roots": drawn.n_root_causes[trial],
        "scenario": drawn.scenario[trial],
        "agent": drawn.agent[trial],
    }


def pandas_frame(drawn: Trials) -> Any:
    import pandas as pd

    return pd.DataFrame(_long(drawn))


def by_pandas(drawn: Trials, frame: Any) -> Means:
    distinct = frame.drop_duplicates(["trial", "code"])
    is_hit = distinct["code"] < distinct["n_roots"]
    rank = distinct.groupby("trial").cumcount() + 1
    nth = is_hit.groupby(distinct["trial"]).cumsum()
    work = distinct.assign(hit=is_hit, part=np.where(is_hit, nth / rank, 0.0))
    trial = work.groupby("trial").agg(
        n=("code", "size"),
        hits=("hit", "sum"),
        part=("part", "sum"),
        n_roots=("n_roots", "first"),
        scenario=("scenario", "first"),
        agent=("agent", "first"),
    )
    full = trial["hits"] == trial["n_roots"]
    trial["first"] = np.where(full, trial["hits"] / trial["n"], 0.0)
    trial["second"] = np.where(full, trial["part"] / trial["n_roots"], 0.0)
    cells = trial.groupby(["agent", "scenario"])[["first", "second"]].mean()
    return np.asarray(cells.groupby("agent").mean().to_numpy().T)


_SQL = """
WITH firsts AS (
  SELECT trial, code, any_value(n_roots) AS n_roots, any_value(scenario) AS scenario,
         any_value(agent) AS agent, min(place) AS place
  FROM long GROUP BY trial, code),
ranks AS (
  SELECT *, code < n_roots AS hit, row_number() OVER w AS rank,
         sum((code < n_roots)::INT) OVER w AS nth
  FROM firsts WINDOW w AS (PARTITION BY trial ORDER BY place)),
trials AS (
  SELECT any_value(agent) AS agent, any_value(scenario) AS scenario,
         CASE WHEN sum(hit::INT) = any_value(n_roots) THEN sum(hit::INT) / count(*) ELSE 0 END AS a,
         CASE WHEN sum(hit::INT) = any_value(n_roots)
              THEN sum(CASE WHEN hit THEN nth / rank ELSE 0 END) / any_value(n_roots) ELSE 0 END AS b
  FROM ranks GROUP BY trial),
cells AS (SELECT agent, scenario, avg(a) AS a, avg(b) AS b FROM trials GROUP BY ALL)
SELECT avg(a) AS a, avg(b) AS b FROM cells GROUP BY agent ORDER BY agent
"""


def duckdb_table(drawn: Trials) -> Any:
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    connection.register("columns", _long(drawn))
    connection.execute("CREATE TABLE long AS FROM columns")
    return connection


def by_duckdb(drawn: Trials, connection: Any) -> Means:
    found = connection.execute(_SQL).fetchnumpy()
    return np.stack([found["a"], found["b"]])


def polars_frame(drawn: Trials) -> Any:
    import polars as pl

    return pl.DataFrame(_long(drawn))


def by_polars(drawn: Trials, frame: Any) -> Means:
    import polars as pl

    hit = pl.col("code") < pl.col("n_roots")
    trial = (
        frame.lazy()
        .unique(["trial", "code"], keep="first", maintain_order=True)
        .with_columns(hit=hit)
        .with_columns(
            rank=pl.int_range(1, pl.len() + 1).over("trial"), nth=pl.col("hit").cum_sum().over("trial")
        )
        .group_by("trial")
        .agg(
            pl.len().alias("n"),
            pl.col("hit").sum().alias("hits"),
            pl.when("hit").then(pl.col("nth") / pl.col("rank")).otherwise(0.0).sum().alias("part"),
            pl.first("n_roots", "scenario", "agent"),
        )
    )
    full = pl.col("hits") == pl.col("n_roots")
    cells = (
        trial.with_columns(
            first=pl.when(full).then(pl.col("hits") / pl.col("n")).otherwise(0.0),
            second=pl.when(full).then(pl.col("part") / pl.col("n_roots")).otherwise(0.0),
        )
        .group_by("agent", "scenario")
        .agg(pl.mean("first", "second"))
    )
    means = cells.group_by("agent").agg(pl.mean("first", "second")).sort("agent").collect()
    return np.asarray(means.select("first", "second").to_numpy().T)


def trec_dicts(drawn: Trials, lists: list[list[int]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Judgements and rankings as pytrec_eval wants them; made before the clock starts."""
    judged, ranked = {}, {}
    for number, (codes, n_roots) in enumerate(zip(lists, drawn.n_root_causes.tolist(), strict=True)):
        distinct = list(dict.fromkeys(codes))
        judged[str(number)] = {str(code): 1 for code in range(n_roots)}
        ranked[str(number)] = {str(code): float(-rank) for rank, code in enumerate(distinct)}
    return judged, ranked


def by_pytrec_eval(drawn: Trials, prepared: tuple[dict[str, Any], dict[str, Any]]) -> Means:
    """Ranked precision at full recall alone: its average precision, where its recall is 1."""
    import pytrec_eval

    judged, ranked = prepared
    found = pytrec_eval.RelevanceEvaluator(judged, {"map", "recall_1000"}).evaluate(ranked)
    scores = np.zeros(drawn.n_trials)
    for number, one in found.items():
        scores[int(number)] = one["map"] if one["recall_1000"] == 1 else 0.0
    return _means(drawn, scores)[0]


def plain_script(path: Path, n_scenarios: int) -> dict[str, float]:
    """What one would write in an afternoon: a line at a time, regular expressions for each name."""
    roots = {
        f"scenario-{s + 1:04d}": [
            (f"namespace-{s % 7}", re.compile(rf"service-{s}-{code}-abcd(-.*)?")) for code in range(s % 4 + 1)
        ]
        for s in range(n_scenarios)
    }
    form = re.compile(r"(?P<namespace>[^/]+)/(?P<kind>[^/]+)/(?P<name>[^/]+)")
    generated = re.compile(r"(-[0-9a-f]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}")
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    with path.open() as file:
        for line in file:
            row = json.loads(line)
            patterns = roots[row["scenario_id"]]
            named = []
            for name in row["entities"]:
                match = form.fullmatch(name)
                if match is None:
                    named.append(("", "", name))
                    continue
                stem = match["name"]
                if match["kind"].lower() in ("pod", "pods"):
                    stem = generated.sub("", stem)
                named.append((match["namespace"], match["kind"].lower(), stem))
            distinct = list(dict.fromkeys(named))
            hits = {
                number
                for namespace, _, name in distinct
                for number, (where, pattern) in enumerate(patterns)
                if namespace == where and pattern.fullmatch(name)
            }
            score = len(hits) / len(distinct) if len(hits) == len(patterns) else 0.0
            cells[row["agent"], row["scenario_id"]].append(score)
    means: dict[str, list[float]] = defaultdict(list)
    for (agent, _), scores in cells.items():
        means[agent].append(sum(scores) / len(scores))
    return {agent: sum(scores) / len(scores) for agent, scores in means.items()}
