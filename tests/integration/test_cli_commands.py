"""Claims about every command: where its result goes, that JSON is JSON, and what its exit code says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import ANSWER, call, call_process, replayed, script, small_suite, tree, write_answers

from diagnose_bench import __version__

pytestmark = pytest.mark.sandbox


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


def test_without_a_command_the_help_is_an_error_and_on_stderr() -> None:
    done = call()
    assert (done.code, done.out) == (2, "")
    assert "Commands:" in done.err


def test_help_and_version_are_results() -> None:
    assert call("--version").out == f"diagnose-bench {__version__}\n"
    done = call("run", "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: ")
    assert done.err == ""


def test_the_module_is_the_command(suite: Path) -> None:
    console_script = Path(sys.executable).with_name("diagnose-bench")
    for words in (["--help"], ["schema"], ["suite", "show", str(suite)], ["nonsense"]):
        as_module = call_process(*words)
        as_script = subprocess.run([console_script, *words], capture_output=True, text=True)
        assert (as_module.code, as_module.out, as_module.err) == (
            as_script.returncode,
            as_script.stdout,
            as_script.stderr,
        )


def test_no_line_of_the_list_of_commands_is_cut_off() -> None:
    for words in ([], ["suite"], ["import"]):
        listed = call(*words, "--help").out.partition("Commands:")[2]
        assert "..." not in listed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["run"], "Missing option '--agent'"),
        (["run", "--agent", "baseline:empty", "--repeats", "x"], "Invalid value for '--repeats'"),
        (["run", "--agent", "baseline:empty", "--nonsense"], "No such option: --nonsense"),
        (["score"], "Missing argument 'RUN|FILE'"),
        (["score", "a", "b"], "unexpected extra argument"),
        (["score", "a", "--profile", "lenient"], "'itbench-aa', 'strict'"),
        (["explain", "a", "1", "x"], "Invalid value for 'REPEAT'"),
        (["report"], "Missing argument 'RUN'"),
        (["suite", "nonsense"], "No such command 'nonsense'"),
        (["import", "diagnoses", "x"], "Missing option '--agent'"),
        (["suite", "show", "--format", "xml"], "'text', 'json'"),
    ],
)
def test_a_usage_error_is_2_and_says_how_to_get_help(words: list[str], said: str) -> None:
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: diagnose-bench")
    assert "--help' for help." in done.err
    assert said in done.err


def test_a_run_prints_where_it_is_and_what_comes_next(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "my runs" / "one"
    done = call("run", "--agent", "baseline:alerting", "--suite", suite, "--repeats", "1", "--out", out)
    assert done.code == 0
    walls = "Sandbox: bwrap, agent process builtin"
    assert done.out == f"Run: {out}\nOutcomes: diagnosed 2\n{walls}\nNext: diagnose-bench score '{out}'\n"
    assert done.err == ""


def test_a_run_as_json_is_its_manifest_and_its_outcomes(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["run", "--agent", "baseline:empty", "--suite", suite, "--repeats", "2", "--out", out]
    value = call(*words, "--format", "json").json()
    assert (value["run"], value["complete"], value["outcomes"]) == (str(out), True, {"diagnosed": 4})
    assert value["manifest"] == json.loads((out / "run.json").read_text())
    resumed = call(*words, "--resume", "--format", "json").json()
    assert (resumed["n_resumed"], resumed["outcomes"]) == (4, {"diagnosed": 4})


def test_a_dry_run_plans_and_leaves_nothing(suite: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    words = ["run", "--agent", "baseline:empty", "--suite", suite, "--out", tmp_path / "run", "--dry-run"]
    done = call(*words)
    assert done.code == 0
    assert "2 scenarios x 3 repeats = 6 trials" in done.out
    value = call(*words, "--format", "json").json()
    assert value["run"] is None
    assert len(value["manifest"]["plan"]) == 6
    assert tree(tmp_path) == before


def test_score_report_and_explain_render_one_run_in_every_format(suite: Path, tmp_path: Path) -> None:
    run = replayed(tmp_path, suite)
    table = call("score", run)
    assert table.code == 0
    # One of two scenarios is answered rightly: (1 + 0) / 2.
    assert "50.0" in table.out
    assert table.err == f"Scorecard: {run / 'scorecard.json'}\n"
    scored = call("score", run, "--format", "json").json()
    assert scored["headline"]["average_precision_at_full_recall"] == 0.5
    assert scored == json.loads((run / "scorecard.json").read_text())

    assert call("report", run).out == table.out
    html, markdown = tmp_path / "r.html", tmp_path / "r.md"
    done = call("report", run, "--html", html, "--markdown", markdown, "--format", "json")
    assert done.json()["scorecards"] == [scored]
    assert done.err == f"HTML report: {html}\nMarkdown report: {markdown}\n"
    assert html.read_text().startswith("<!doctype html>")
    assert "50.0" in markdown.read_text()

    explained = call("explain", run, "1", "1")
    assert explained.code == 0
    assert "full recall; precision = 1/1 = 1" in explained.out
    value = call("explain", run, "scenario-002", "1", "--format", "json").json()
    assert value["outcome"] == "no_diagnosis"


def test_a_run_is_scored_twice_to_the_same_bytes_and_under_both_profiles(suite: Path, tmp_path: Path) -> None:
    run = replayed(tmp_path, suite)
    call("score", run)
    first = (run / "scorecard.json").read_bytes()
    strict = call("score", run, "--profile", "strict", "--format", "json").json()
    assert strict["profile"] == "strict"
    assert "|profile:strict|" in strict["signature"]
    assert call("score", run).code == 0
    assert (run / "scorecard.json").read_bytes() == first
    assert set(json.loads(first)["profiles"]) == {"itbench-aa", "strict"}


def test_the_profiles_differ_where_a_pod_stands_for_its_workload(suite: Path, tmp_path: Path) -> None:
    # The Pod is not in the inventory: its form implies the workload, which strict does not take.
    answer = b'{"root_causes": [{"entity": "shop/Pod/cart-5d8f7c9b6d-x2v5z"}]}'
    answers = write_answers(tmp_path / "answers", {"scenario-001/1": answer})
    out = tmp_path / "run"
    words = ["run", "--agent", f"replay:{answers}", "--suite", suite, "--repeats", "1"]
    assert call(*words, "--scenario", "1", "--out", out).code == 0
    scored = call("score", out, "--format", "json").json()
    assert scored["profiles"] == {"itbench-aa": 1.0, "strict": 0.0}


def test_a_subset_has_a_number_but_no_headline(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["run", "--agent", "baseline:alerting", "--suite", suite, "--scenario", "2", "--out", out]
    assert call(*words, "--repeats", "1").code == 0
    scored = call("score", out, "--format", "json").json()
    assert scored["headline"]["average_precision_at_full_recall"] is None
    assert scored["subset"]["average_precision_at_full_recall"] == 1.0
    assert "|scenarios:1(scenario-002)|" in scored["signature"]
    assert "subset" in call("report", out).out


def test_an_excluded_scenario_is_in_the_signature_and_out_of_the_number(suite: Path, tmp_path: Path) -> None:
    run = replayed(tmp_path, suite)
    scored = call("score", run, "--exclude", "2", "--format", "json").json()
    assert scored["headline"]["average_precision_at_full_recall"] == 1.0
    assert "|scenarios:1|exclude:scenario-002|" in scored["signature"]
    assert "taken out by hand: scenario-002." in " ".join(call("report", run).out.split())


def test_an_incomplete_run_is_3_with_bounds_and_no_headline(suite: Path, tmp_path: Path) -> None:
    run = replayed(tmp_path, suite)
    (run / "trials" / "scenario-001" / "1" / "trial.json").unlink()
    done = call("score", run, "--format", "json")
    assert done.code == 3
    headline = done.json()["headline"]
    # Scenario-002 has no diagnosis (0); scenario-001 can still become 0 or 1: (0 + 0)/2 to (1 + 0)/2.
    assert (headline["average_precision_at_full_recall"], headline["bounds"]) == (None, [0.0, 0.5])
    assert "n/a (0.0 to 50.0)" in call("score", run).out


def test_a_program_runs_with_the_baselines_beside_it(suite: Path, tmp_path: Path) -> None:
    agent = script(tmp_path / "agent.sh", f"echo '{ANSWER}' | \"$DIAGNOSE_BENCH_SUBMIT\"\n")
    out = tmp_path / "run"
    words = ["run", "--agent", agent, "--name", "mine", "--suite", suite, "--repeats", "1", "--out", out]
    assert call(*words).code == 0
    scored = call("score", out, "--format", "json").json()
    assert scored["agent"]["name"] == "mine"
    assert scored["headline"]["average_precision_at_full_recall"] == 0.5
    beside = {row["name"]: row["score"] for row in scored["baselines"]["agents"]}
    assert beside["baseline:alerting"] == 1.0
    assert len(beside) == 4
    table = call("report", out).out
    assert all(name in table for name in beside)


def test_recorded_answers_become_a_run(suite: Path, tmp_path: Path) -> None:
    rows = [
        {"scenario_id": "scenario-001", "repeat": 1, "entities": ["shop/Deployment/cart"]},
        {"scenario_id": "2", "repeat": 1, "text": "I do not know"},
    ]
    source = tmp_path / "answers.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["import", "diagnoses", source, "--agent", "theirs", "--suite", suite]
    done = call(*words, "--out", tmp_path / "run")
    assert done.code == 0
    assert done.out == f"Run: {tmp_path / 'run'}\nNext: diagnose-bench score {tmp_path / 'run'}\n"
    assert "Planned repeats of each scenario: 1, the highest one seen." in done.err
    scored = call("score", tmp_path / "run", "--format", "json").json()
    assert scored["headline"]["average_precision_at_full_recall"] == 0.5
    assert scored["unsafe_reasons"]["unobserved"] == 1
    value = call(*words, "--out", tmp_path / "other", "--planned-repeats", "2", "--format", "json").json()
    assert value["outcomes"] == {"diagnosed": 1, "malformed_diagnosis": 1}
    assert (value["n_planned"], value["n_absent"], value["plan_is_guessed"]) == (4, 2, False)


def test_rejected_rows_are_3_listed_and_kept(suite: Path, tmp_path: Path) -> None:
    source = tmp_path / "answers.jsonl"
    source.write_text(
        '{"scenario_id": "scenario-001", "repeat": 1, "entities": []}\n'
        "no JSON\n"
        '{"scenario_id": "scenario-009", "repeat": 1, "entities": []}\n'
        '{"scenario_id": "scenario-001", "repeat": 1, "entities": []}\n'
        '{"scenario_id": "scenario-001", "repeat": 2, "entities": []}\n'
    )
    words = ["import", "diagnoses", source, "--agent", "a", "--suite", suite, "--planned-repeats", "1"]
    done = call(*words, "--out", tmp_path / "run", "--format", "json")
    assert done.code == 3
    assert done.json()["n_rejected"] == 4
    for line, reason in (("2", "no JSON"), ("3", "unknown"), ("4", "already"), ("5", "above the 1")):
        assert f"line {line}: " in done.err
        assert reason in done.err
    assert len((tmp_path / "run" / "rejected.jsonl").read_text().splitlines()) == 4
    scored = call("score", tmp_path / "run", "--format", "json")
    assert (scored.code, "4 rows were rejected" in scored.err) == (0, True)


def test_suites_are_listed_shown_and_digested(suite: Path) -> None:
    listed = call("suite", "list", "--format", "json").json()
    assert "postmortems" in [one["name"] for one in listed]
    assert call("suite", "list").out.count("\n") == len(listed)
    shown = call("suite", "show", suite, "--format", "json").json()
    assert [one["id"] for one in shown["scenarios"]] == ["scenario-001", "scenario-002"]
    assert "scenario-001: detected 2025-03-01T10:30:00Z" in call("suite", "show", suite).out
    assert "culprit" not in call("suite", "show", suite).out
    digested = call("suite", "digest", suite, "--format", "json")
    assert digested.code == 0
    assert (digested.json()["found"], digested.json()["matches"]) == (shown["digest"], True)


def test_a_digest_that_differs_is_1_until_it_is_written(suite: Path) -> None:
    with (suite / "scenario-001" / "events.jsonl").open("a") as file:
        file.write("{}\n")
    done = call("suite", "digest", suite)
    assert done.code == 1
    assert "scenario-001" in done.out
    assert "differs: events.jsonl" in done.out
    assert call("suite", "digest", suite, "--write").code == 0
    assert call("suite", "digest", suite).code == 0


def test_every_schema_is_printed_and_is_a_schema() -> None:
    import jsonschema

    names = call("schema").out.split()
    assert "diagnosis" in names
    for name in names:
        jsonschema.Draft202012Validator.check_schema(call("schema", name).json())


def test_the_doctor_says_what_works_here() -> None:
    done = call("doctor")
    assert done.code == 0
    assert "bwrap          works" in done.out
    assert call("doctor", "--format", "json").json()["works"] is True


def test_a_foreign_suite_of_truths_alone_can_be_scored_but_not_run(tmp_path: Path) -> None:
    truth = {
        "spec": {
            "metadata": {"name": "x"},
            "groups": [
                {"id": "a", "kind": "Deployment", "name": "cart", "namespace": "shop", "root_cause": True}
            ],
            "aliases": [],
            "propagations": [],
        }
    }
    source = tmp_path / "in" / "Scenario-7"
    source.mkdir(parents=True)
    (source / "ground_truth.yaml").write_text(json.dumps(truth))
    words = ["import", "itbench", tmp_path / "in", "--name", "lite", "--out", tmp_path, "--format", "json"]
    done = call(*words)
    assert done.code == 0, done.err
    assert Path(done.json()["suite_path"]) == tmp_path / "snapshots" / "lite"
    words = ["--suite", tmp_path / "snapshots" / "lite", "--out", tmp_path / "run"]
    message = call("run", "--agent", "baseline:empty", *words).refused()
    assert "there is no snapshot of this scenario" in message
    assert "diagnose-bench import diagnoses" in message
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"scenario_id": 7, "repeat": 1, "entities": ["shop/Deployment/cart"]}\n')
    assert call("import", "diagnoses", answers, "--agent", "a", *words).code == 0
    scored = call("score", tmp_path / "run", "--format", "json").json()
    assert scored["headline"]["average_precision_at_full_recall"] == 1.0
    assert scored["inventory"] == "none"
