"""SQL over runs: what the tables hold, and that nothing but reading is possible."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from unit.sample_runs import Trial, write_run
from unit.scored_runs import RIGHT, WRONG, ids_of, scored, suite_of

import diagnose_bench
from diagnose_bench.errors import RunError, UsageError
from diagnose_bench.outcome import Outcome
from diagnose_bench.query import run_query
from diagnose_bench.query_text import MAX_TABLE_ROWS, plain, write_csv, write_json, write_table
from diagnose_bench.run_tables import COLUMNS

TABLE = [[1, 0.5], [0, 1]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return scored(tmp_path / "run", suite_of(tmp_path, 2, ["dns", None]), TABLE)


def ask(sql: str, *paths: Path) -> list[tuple[Any, ...]]:
    with run_query(sql, paths) as result:
        return list(result.rows)


def test_trials_hold_the_scores(run: Path) -> None:
    sql = "SELECT scenario_id, repeat, precision_at_full_recall, verdict, n_entities FROM trials ORDER BY ALL"
    one, two = ids_of(2)
    assert ask(sql, run) == [
        (one, 1, 1.0, "safe_pass", 1),
        (one, 2, 0.5, "fail", 2),
        (two, 1, 0.0, "fail", 1),
        (two, 2, 1.0, "safe_pass", 1),
    ]


def test_every_table_has_its_declared_columns(run: Path) -> None:
    for name, columns in COLUMNS.items():
        described = ask(f"DESCRIBE {name}", run)
        assert [(row[0], row[1]) for row in described] == list(columns.items())
    assert {row[0] for row in ask("SHOW TABLES", run)} == set(COLUMNS)


def test_tables_join_over_runs_and_scorecards(run: Path, tmp_path: Path) -> None:
    suite = tmp_path / "snapshots" / "small"
    other = scored(tmp_path / "other", suite, [[0, 0], [0, 0]])
    sql = """
        SELECT a.agent, a.score, s.family, count(*) AS n
        FROM agents AS a JOIN scenarios AS s USING (run) JOIN entities AS e USING (run, scenario_id)
        WHERE e.class = 'root_cause' GROUP BY ALL ORDER BY ALL
    """
    # The run scores (.75 + .5) / 2, with cart named twice in the first scenario and once in the second.
    assert ask(sql, run, other / "scorecard.json") == [("run", 0.625, "dns", 2), ("run", 0.625, None, 1)]
    assert ask("SELECT agent, score FROM agents ORDER BY score", run, other) == [
        ("other", 0.0),
        ("run", 0.625),
    ]


def test_commands_are_there_with_their_outputs(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 1)
    outputs = ["line\nwith \x00 and \x1b[31m", "\udc80 lone", "x" * 300_000]
    trial = Trial([RIGHT], outputs=outputs)
    run = write_run(tmp_path / "run", suite, {("scenario-001", 1): trial})
    found = ask("SELECT n, command, output FROM Commands ORDER BY n", run)
    assert found[0] == (1, "cat file-1", outputs[0])
    # A lone surrogate is no Unicode text.
    assert found[1][2] == "? lone"
    assert found[2][2] == outputs[2]


def test_many_large_outputs_are_loaded_in_chunks(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 1)
    trial = Trial([RIGHT], outputs=["y" * 1_000_000] * 20)
    run = write_run(tmp_path / "run", suite, {("scenario-001", 1): trial})
    assert ask("SELECT count(*), sum(length(output))::BIGINT FROM commands", run) == [(20, 20_000_000)]


def test_run_that_was_not_scored_has_trials_without_scores(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, 2)
    trials = {("scenario-001", 1): Trial([WRONG]), ("scenario-002", 1): Trial(None, Outcome.AGENT_ERROR)}
    run = write_run(tmp_path / "run", suite, trials, repeats=2)
    sql = "SELECT scenario_id, repeat, outcome, precision_at_full_recall, n_turns FROM trials ORDER BY ALL"
    assert ask(sql, run) == [
        ("scenario-001", 1, "diagnosed", None, 3),
        ("scenario-001", 2, "pending", None, None),
        ("scenario-002", 1, "agent_error", None, 3),
        ("scenario-002", 2, "pending", None, None),
    ]
    assert ask("SELECT score, n_scenarios FROM agents", run) == [(None, 2)]
    assert ask("SELECT count(*) FROM scenarios", run) == [(2,)]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO trials SELECT * FROM trials",
        "UPDATE trials SET repeat = 1",
        "DELETE FROM trials",
        "DROP TABLE trials",
        "CREATE TABLE t AS SELECT 1",
        "CREATE TEMP TABLE t AS SELECT 1",
        "COPY trials TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/out.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "PRAGMA enable_profiling",
        "SELECT 1; SELECT 2",
        "",
        "SELECT * FROM read_text('{folder}/secret')",
        "SELECT * FROM read_csv('{folder}/secret')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM outputs",
        "SELEC 1",
        "SELECT CAST(raw AS INT) FROM entities",
    ],
)
def test_sql_that_does_more_than_read_the_tables_is_refused(run: Path, tmp_path: Path, sql: str) -> None:
    (tmp_path / "secret").write_text("secret")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    outputs = [1, 2]
    with pytest.raises(UsageError, match="DESCRIBE"):
        ask(sql.format(folder=tmp_path), run)
    assert outputs
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_query_that_needs_too_much_memory_is_told_what_to_do(run: Path) -> None:
    sql = "SELECT length(string_agg(repeat('x', 1000000), '')) FROM range(3000)"
    with pytest.raises(UsageError, match="needs more than 1GB of memory"):
        ask(sql, run)


def test_pivot_and_explain_are_reading(run: Path) -> None:
    assert ask("PIVOT trials ON verdict USING count(*) GROUP BY agent", run) == [("run", 2, 2)]
    assert ask("EXPLAIN SELECT * FROM trials", run)


def test_half_written_files_are_named(run: Path) -> None:
    commands = run / "trials" / "scenario-001" / "1" / "commands.jsonl"
    commands.write_bytes(commands.read_bytes()[:-20])
    with pytest.raises(RunError, match=r"commands\.jsonl: line 1: the command record is damaged"):
        ask("SELECT * FROM commands", run)
    # What the query does not ask for is not read.
    assert ask("SELECT count(*) FROM trials", run) == [(4,)]
    card = run / "scorecard.json"
    card.write_bytes(card.read_bytes()[:100])
    with pytest.raises(RunError, match=r"scorecard\.json.*diagnose-bench score"):
        ask("SELECT 1", run)


def test_commands_of_a_trial_that_is_going_on_are_left_out(run: Path) -> None:
    trial = run / "trials" / "scenario-001" / "1"
    (trial / "trial.json").unlink()
    (trial / "commands.jsonl").write_bytes(b'{"n": 1')
    assert ask("SELECT count(*) FROM commands", run) == [(3,)]


def test_folder_that_is_neither_run_nor_scorecard_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RunError, match="neither a run's folder nor a scorecard"):
            ask("SELECT 1", path)


def test_rows_as_json_csv_and_table(run: Path) -> None:
    sql = (
        "SELECT repeat, verdict, verdict, 1.5::DECIMAL(3, 1) AS d, unsafe_reasons, NULL AS nothing, "
        "'nan'::DOUBLE AS x FROM trials ORDER BY scenario_id, repeat LIMIT 1"
    )
    rendered = []
    for write in (write_json, write_csv, write_table):
        out = io.StringIO()
        with run_query(sql, [run]) as result:
            write(result, out)
        rendered.append(out.getvalue())
    as_json, as_csv, as_table = rendered
    assert json.loads(as_json) == [
        {
            "repeat": 1,
            "verdict": "safe_pass",
            "verdict_2": "safe_pass",
            "d": 1.5,
            "unsafe_reasons": [],
            "nothing": None,
            "x": None,
        }
    ]
    assert as_csv == "repeat,verdict,verdict_2,d,unsafe_reasons,nothing,x\n1,safe_pass,safe_pass,1.5,[],,\n"
    assert as_table.splitlines()[0].split() == [
        "repeat",
        "verdict",
        "verdict_2",
        "d",
        "unsafe_reasons",
        "nothing",
        "x",
    ]


def test_no_rows_are_an_empty_list(run: Path) -> None:
    out = io.StringIO()
    with run_query("SELECT * FROM trials WHERE false", [run]) as result:
        write_json(result, out)
    assert json.loads(out.getvalue()) == []


def test_table_says_when_there_are_more_rows(run: Path) -> None:
    for n_rows, more in ((MAX_TABLE_ROWS, False), (MAX_TABLE_ROWS + 1, True)):
        out = io.StringIO()
        with run_query(f"SELECT * FROM range({n_rows})", [run]) as result:
            assert write_table(result, out) is more
        assert len(out.getvalue().splitlines()) == MAX_TABLE_ROWS + 2


def test_values_of_the_database_become_plain(run: Path) -> None:
    ((row),) = ask(
        "SELECT DATE '2025-01-02', TIMESTAMP '2025-01-02 03:04:05', INTERVAL 1 DAY, {'a': 1}, "
        "MAP {'k': 2.5}, 'ab'::BLOB, [1, NULL], true, 170141183460469231731687303715884105727::HUGEINT",
        run,
    )
    assert [plain(value) for value in row] == [
        "2025-01-02",
        "2025-01-02T03:04:05",
        "1 day, 0:00:00",
        {"a": 1},
        {"k": 2.5},
        "6162",
        [1, None],
        True,
        2**127 - 1,
    ]


def test_trials_as_a_data_frame(run: Path) -> None:
    frame = diagnose_bench.trials(run)
    assert list(frame.columns) == list(COLUMNS["trials"])
    means = frame.groupby("scenario_id").precision_at_full_recall.mean()
    assert means.to_dict() == {"scenario-001": 0.75, "scenario-002": 0.5}
    assert str(frame["n_correct"].dtype) == "Int64"
    assert str(frame["outcome"].dtype) == "string"


def test_data_frame_of_a_run_that_was_not_scored(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite_of(tmp_path, 1), {("scenario-001", 1): Trial([WRONG])})
    frame = diagnose_bench.trials(str(run))
    assert frame["precision_at_full_recall"].isna().all()
    assert frame["n_turns"].tolist() == [3]
