"""Lines about speed: the core against peers, files of rows from end to end, the command against an import."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bench import data, peers
from bench.measure import PEAK, Line, interleaved, milliseconds, peak_bytes_of

_MILLION = 1_000_000
_SCENARIOS_OF_ROWS = 100


def core_against_peers() -> Iterator[Line]:
    """Both measures of a million trials and their means by agent."""
    drawn = data.trials(_MILLION)
    batch = drawn.batch()
    lists = drawn.lists()
    frame, table, polars = peers.pandas_frame(drawn), peers.duckdb_table(drawn), peers.polars_frame(drawn)
    tasks: dict[str, Callable[[], object]] = {
        "floor": lambda: peers.one_pass(drawn),
        "core": lambda: peers.core(drawn, batch),
        "pandas": lambda: peers.by_pandas(drawn, frame),
        "DuckDB": lambda: peers.by_duckdb(drawn, table),
        "polars": lambda: peers.by_polars(drawn, polars),
        "plain loop": lambda: peers.plain_loop(drawn, lists),
        "all measures": lambda: drawn.batch() and _every_measure(batch),
    }
    expected = peers.core(drawn, batch)
    for name in ("pandas", "DuckDB", "polars", "plain loop"):
        np.testing.assert_allclose(np.asarray(tasks[name]()), expected, rtol=1e-9, err_msg=name)
    seconds = interleaved(tasks)
    detail = milliseconds(seconds)
    core = seconds["core"]
    yield Line("core, 1M trials / one pass over the data", core / seconds["floor"], 40, 20, detail=detail)
    yield Line("every measure, 1M trials / one pass", seconds["all measures"] / seconds["floor"], 80, 40)
    for name, ship, moonshot in (("pandas", 15, 40), ("DuckDB", 7, 15), ("polars", 12, 30)):
        yield Line(f"{name} / core, 1M trials", seconds[name] / core, ship, moonshot, at_most=False)
    yield Line(
        "plain loop, codes matched / core, 1M trials", seconds["plain loop"] / core, 6, 12, at_most=False
    )


def _every_measure(batch: object) -> object:
    import scoring

    return scoring.score_trials(batch)  # type: ignore[arg-type]


def core_against_retrieval() -> Iterator[Line]:
    """90,000 trials, as the libraries of information retrieval take them."""
    drawn = data.trials(90_000)
    batch, lists = drawn.batch(), drawn.lists()
    prepared = peers.trec_dicts(drawn, lists)
    np.testing.assert_allclose(peers.by_pytrec_eval(drawn, prepared), peers.core(drawn, batch)[1], rtol=1e-5)
    seconds = interleaved(
        {
            "core": lambda: peers.core(drawn, batch),
            "pytrec_eval": lambda: peers.by_pytrec_eval(drawn, prepared),
        }
    )
    ratio = seconds["pytrec_eval"] / seconds["core"]
    yield Line("pytrec_eval / core, 90k trials", ratio, 20, 40, at_most=False, detail=milliseconds(seconds))


def core_grows_linearly() -> Iterator[Line]:
    """Ten times the trials in about ten times the time."""
    small, large = data.trials(_MILLION), data.trials(10 * _MILLION)
    batches = {"1M": (small, small.batch()), "10M": (large, large.batch())}
    seconds = interleaved({name: lambda one=one: peers.core(*one) for name, one in batches.items()})  # type: ignore[misc]
    yield Line(
        "core, 10M / 1M trials", seconds["10M"] / seconds["1M"], 13, 10.5, detail=milliseconds(seconds)
    )


def core_memory() -> Iterator[Line]:
    """What scoring a million trials takes beyond its input."""
    code = (
        f"{PEAK}"
        "import scoring\n"
        "from bench import data\n"
        f"drawn = data.trials({_MILLION})\n"
        "batch = drawn.batch()\n"
        "import ctypes; ctypes.CDLL(None).malloc_trim(0)\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "open('/proc/self/clear_refs', 'w').write('5')\n"
        "before = resident()\n"
        "scores = scoring.headline_scores(batch)\n"
        "print(before, peak())\n"
    )
    extra = peak_bytes_of(code)
    n_bytes = data.trials(_MILLION).n_bytes
    detail = f"{extra / 1e6:.0f} MB beyond {n_bytes / 1e6:.0f} MB of input, 16 MB of it results"
    yield Line("extra peak memory of the core / input, 1M trials", extra / n_bytes, 1, 0.45, detail=detail)


def rows_end_to_end() -> Iterator[Line]:
    """A million lines of JSON to a scorecard for each agent; the memory with every trial listed as well."""
    import simdjson

    from diagnose_bench.bulk import score_file

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        suite = data.write_suite(root, _SCENARIOS_OF_ROWS)
        path = data.write_rows(root / "rows.jsonl", data.trials(_MILLION, _SCENARIOS_OF_ROWS))

        def parse_only() -> None:
            # 16 MB at a time as one document, out of which nothing is made.
            parser = simdjson.Parser()
            with path.open("rb") as file:
                while block := file.read(1 << 24):
                    block += file.readline()
                    parser.parse(b"[" + block[:-1].replace(b"\n", b",") + b"]")

        means = peers.plain_script(path, _SCENARIOS_OF_ROWS)
        result = score_file(path, str(suite), details=False)
        for agent in result.agents:
            found = agent.head["headline"]["average_precision_at_full_recall"]
            assert abs(found - means[agent.name]) < 5e-3, (agent.name, found, means[agent.name])
        tasks: dict[str, Callable[[], object]] = {
            "simdjson": parse_only,
            "rows": lambda: score_file(path, str(suite), details=False),
            "plain script": lambda: peers.plain_script(path, _SCENARIOS_OF_ROWS),
        }
        seconds = interleaved(tasks, n_rounds=3)
        # The lists of trials are several times as large as the file: what they cost is said, not compared.
        start = time.perf_counter()
        score_file(path, str(suite))
        listed = time.perf_counter() - start
        n_bytes = path.stat().st_size
        code = (
            f"{PEAK}import sys\nfrom pathlib import Path\nimport duckdb, numpy\n"
            "from diagnose_bench.bulk import score_file\nbefore = peak()\n"
            "score_file(Path(sys.argv[1]), sys.argv[2])\nprint(before, peak())\n"
        )
        extra = peak_bytes_of(code, str(path), str(suite))
    detail = f"{n_bytes / 1e6:.0f} MB; {milliseconds(seconds)}; with every trial listed {listed:.1f} s"
    yield Line(
        "rows end to end, 1M lines / simdjson parse",
        seconds["rows"] / seconds["simdjson"],
        12,
        5,
        detail=detail,
    )
    yield Line(
        "plain script / rows end to end, 1M lines",
        seconds["plain script"] / seconds["rows"],
        8,
        15,
        at_most=False,
    )
    yield Line("extra peak memory end to end / file, 1M lines", extra / n_bytes, 1.5, 0.5)
    yield Line(
        "names resolved / distinct (scenario, name), 1M lines",
        result.n_names
        / (_SCENARIOS_OF_ROWS * data.N_WRONG + sum(s % 4 + 1 for s in range(_SCENARIOS_OF_ROWS))),
        1.0,
        1.0,
    )


def command_of_usual_size() -> Iterator[Line]:
    """`score` on 30 agents x 59 scenarios x 3 repeats, the whole command, against `import numpy`."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        suite = data.write_suite(root, 59)
        path = data.write_rows(root / "rows.jsonl", data.trials(5_310, 59))

        # Compiled files are written in the warm-up round, whatever the caller's environment says.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def run(words: Sequence[str]) -> None:
            subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)

        score = ["-m", "diagnose_bench", "score", str(path), "--suite", str(suite)]
        seconds = interleaved({"score": lambda: run(score), "numpy": lambda: run(["-c", "import numpy"])})
    yield Line(
        "`score` of 5,310 trials / `import numpy`",
        seconds["score"] / seconds["numpy"],
        3,
        2,
        detail=milliseconds(seconds),
    )


LINES: tuple[Callable[[], Iterator[Line]], ...] = (
    core_against_peers,
    core_against_retrieval,
    core_grows_linearly,
    core_memory,
    rows_end_to_end,
    command_of_usual_size,
)
