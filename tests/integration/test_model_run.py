"""Claims about whole runs of a model through the command line: score, cost, cap, resume, and bad options."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_helpers import call, small_suite
from fake_model_server import KEY, Answer, FakeModelServer, Raw, completion, error, is_check, shell, submit

from diagnose_bench.layout import data_root, package_folder

EXAMPLE = package_folder().parent / "examples" / "openai_compatible.py"
CART = "shop/Deployment/cart"
USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
PRICES = {"models": {"m": {"input": 1.0, "output": 5.0}}}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def single_causes() -> dict[str, str]:
    """The bundled scenarios with one root cause of one entity, and that entity, read from their truths."""
    found = {}
    for path in sorted((data_root() / "ground_truth" / "postmortems").glob("scenario-*.yaml")):
        groups = [group for group in yaml.safe_load(path.read_text())["groups"] if group.get("root_cause")]
        if len(groups) == 1:
            found[path.stem] = groups[0]["entities"][0]
    return found


@pytest.mark.sandbox
def test_a_model_that_finds_one_of_two_causes_scores_a_half(tmp_path: Path) -> None:
    (solved, cause), (failed, _) = list(single_causes().items())[:2]
    name = cause.rsplit("/", 1)[-1]

    def answer(request: dict[str, Any]) -> Answer:
        told = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        if is_check(request):
            return completion("ready")
        if not told:
            return completion(
                calls=[shell(f"grep -oEm1 '.{{30}}{name}.{{30}}' /snapshot/objects.jsonl || true")]
            )
        # The other scenario has no object of this name, so there the model has to guess.
        return completion(calls=[submit(cause if name in told[0] else "nowhere/Deployment/guess")])

    out = tmp_path / "run"
    with FakeModelServer(answer) as server:
        words = ["--scenario", solved, "--scenario", failed, "--repeats", "1", "--no-baselines", "--out", out]
        done = call("run", "--agent", "openai:m", "--base-url", server.url, *words)
    assert done.code == 0, done.err
    scored = call("score", out, "--format", "json")
    assert scored.code == 0, scored.err
    by_scenario = {entry["scenario_id"]: entry for entry in scored.json()["scenarios"]}
    assert by_scenario[solved]["score"] == 1.0
    assert by_scenario[failed]["score"] == 0.0
    assert by_scenario[solved]["trials"][0]["verdict"] == "safe_pass"
    assert by_scenario[failed]["trials"][0]["verdict"] == "fail"


@pytest.mark.sandbox
def test_run_json_says_who_was_asked_and_how_and_holds_no_key(tmp_path: Path) -> None:
    suite, out = small_suite(tmp_path), tmp_path / "run"
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Find it.\n")
    with FakeModelServer(lambda request: completion(calls=[submit(CART)])) as server:
        options = ["--temperature", "0.5", "--seed", "3", "--prompt", prompt, "--repeats", "1"]
        done = call(
            "run",
            "--agent",
            "openai:m",
            "--base-url",
            server.url,
            "--suite",
            suite,
            *options,
            "--no-baselines",
            "--out",
            out,
        )
        assert done.code == 0, done.err
    trials = [request for request in server.requests if not is_check(request)]
    assert {request["messages"][0]["content"] for request in trials} == {"Find it.\n"}
    agent = json.loads((out / "run.json").read_text())["agent"]
    assert (agent["name"], agent["model"]) == ("openai:m", "m")
    assert agent["config"]["base_url"] == server.url
    assert (agent["config"]["temperature"], agent["config"]["seed"]) == (0.5, 3)
    # printf 'Find it.\n' | sha256sum
    digest = "857d7bc08dde84a3ecbaa073da6810658a025b34fe682d99d65ed6c29ab54cb1"
    assert agent["config"]["prompt_digest"] == digest
    for path in out.rglob("*"):
        assert not path.is_file() or KEY not in path.read_text()
    # Another temperature is another agent.
    with FakeModelServer(lambda request: completion(calls=[submit(CART)])) as other:
        done = call(
            "run",
            "--agent",
            "openai:m",
            "--base-url",
            other.url,
            "--suite",
            suite,
            *options,
            "--no-baselines",
            "--out",
            out,
            "--resume",
        )
    assert "cannot resume: agent.config" in done.refused()


@pytest.mark.sandbox
def test_the_cap_stops_the_run_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    suite, out, prices = small_suite(tmp_path), tmp_path / "run", tmp_path / "prices.json"
    prices.write_text(json.dumps(PRICES))

    def answer(request: dict[str, Any]) -> Answer:
        # One dollar a call, two calls a trial; the check before the run costs nothing here.
        if is_check(request):
            return completion("ready", usage={"prompt_tokens": 0, "completion_tokens": 0})
        if len(request["messages"]) == 2:
            return completion(calls=[shell("true")], usage=USAGE)
        return completion(calls=[submit(CART)], usage=USAGE)

    with FakeModelServer(answer) as server:
        words = [
            "run",
            "--agent",
            "openai:m",
            "--base-url",
            server.url,
            "--suite",
            suite,
            "--repeats",
            "2",
            "--prices",
            prices,
            "--no-baselines",
            "--out",
            out,
        ]
        stopped = call(*words, "--max-cost", "3")
        told = stopped.refused(3)
        assert "--max-cost 3 is reached: 3.0000 US dollars are spent" in told
        assert "a higher --max-cost" in told
        assert "--resume" in told
        finished = sorted(str(path.relative_to(out)) for path in out.glob("trials/*/*/trial.json"))
        assert finished == ["trials/scenario-001/1/trial.json"]
        n_before = sum(not is_check(request) for request in server.requests)
        assert n_before == 3
        # What is spent counts on: the same cap makes no call at all.
        again = call(*words, "--max-cost", "3", "--resume")
        assert "3.0000 US dollars are spent" in again.refused(3)
        assert sum(not is_check(request) for request in server.requests) == n_before
        done = call(*words, "--max-cost", "50", "--resume")
        assert done.code == 0, done.err
    # 3 calls before, then 3 trials of 2.
    assert sum(not is_check(request) for request in server.requests) == 9
    records = [json.loads(path.read_text()) for path in out.glob("trials/*/*/trial.json")]
    assert [record["usage"]["cost_usd"] for record in records] == [2.0] * 4


@pytest.mark.sandbox
def test_a_wrong_key_is_one_clear_message(tmp_path: Path) -> None:
    suite, out = small_suite(tmp_path), tmp_path / "run"
    wrong = Raw(401, error(f"Incorrect API key provided: {KEY}", "invalid_api_key"))
    with FakeModelServer(lambda request: wrong) as server:
        done = call(
            "run",
            "--agent",
            "openai:m",
            "--base-url",
            server.url,
            "--suite",
            suite,
            "--repeats",
            "1",
            "--no-baselines",
            "--out",
            out,
        )
    assert done.code in (2, 3)
    assert "The key is wrong" in done.err
    assert KEY not in done.err + done.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--temperature", "9"], "--temperature 9.0: give a number from 0 to 2."),
        (["--temperature", "nan"], "--temperature nan: give a finite number."),
        (["--seed", "-1"], "--seed -1: give a whole number from 0."),
        (["--max-output-tokens", "0"], "--max-output-tokens 0: give a number from 1."),
        (["--reasoning-effort", "a b"], "--reasoning-effort 'a b': give one word"),
        (["--base-url", "localhost:8000"], "is no address"),
        (["--base-url", "ftp://host/v1"], "is no address"),
        (["--base-url", "http://host:99999/v1"], "is no address"),
        (["--base-url", "http://user:secret-word@host/v1"], "Give the key in OPENAI_API_KEY"),
        (["--base-url", "http://host/v1?api-key=secret-word"], "Give the key in OPENAI_API_KEY"),
        (["--prompt", "missing.md"], "missing.md: the prompt does not exist"),
        (["--prices", "missing.json"], "missing.json: the file of prices does not exist"),
        (["--max-cost", "5"], "--max-cost needs --prices FILE"),
        (["--max-cost", "0", "--prices", "prices.json"], "--max-cost 0.0: give US dollars above 0."),
        (["--max-cost", "nan", "--prices", "prices.json"], "give US dollars above 0."),
        (["--max-cost", "5", "--prices", "others.json"], "has no price for 'm'"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    suite = small_suite(tmp_path)
    (tmp_path / "prices.json").write_text(json.dumps(PRICES))
    (tmp_path / "others.json").write_text('{"models": {}}')
    monkeypatch.chdir(tmp_path)
    message = call(
        "run", "--agent", "openai:m", "--suite", suite, "--out", tmp_path / "run", *options
    ).refused()
    assert told in " ".join(message.split())
    assert "secret-word" not in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "option",
    [
        "--base-url",
        "--temperature",
        "--seed",
        "--max-cost",
        "--prices",
        "--prompt",
        "--max-output-tokens",
        "--reasoning-effort",
    ],
)
def test_options_of_a_model_mean_nothing_for_other_agents(tmp_path: Path, option: str) -> None:
    done = call("run", "--agent", "baseline:empty", "--suite", small_suite(tmp_path), option, "1")
    assert f"{option} means nothing for --agent 'baseline:empty': it goes with openai:MODEL" in done.refused()


def test_no_key_and_no_server_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    done = call("run", "--agent", "openai:m", "--suite", small_suite(tmp_path), "--dry-run")
    assert "Set OPENAI_API_KEY" in done.refused()


def test_a_key_with_a_line_break_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
    message = call("run", "--agent", "openai:m", "--suite", small_suite(tmp_path), "--dry-run").refused()
    assert "line break" in message
    assert KEY not in message


def test_a_missing_sdk_is_one_message_that_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['openai'] = None; from diagnose_bench.cli import main; main()"
    words = ["run", "--agent", "openai:m", "--dry-run", "--suite", str(small_suite(tmp_path))]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "-m pip install 'openai>=3.57'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_starts_without_the_sdk() -> None:
    code = "import sys, diagnose_bench.cli, diagnose_bench.agents.factory; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.sandbox
def test_the_example_runs_on_the_bundled_suite(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["--scenario", "scenario-001", "--scenario", "scenario-004", "--repeats", "1", "--no-baselines"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *words, "--out", str(out)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "diagnosed 2" in done.stdout
    records = [json.loads(path.read_text()) for path in sorted(out.glob("trials/*/*/trial.json"))]
    assert [record["n_commands"] for record in records] == [1, 1]
    assert all(record["usage"]["input_tokens"] > 0 for record in records)


@pytest.fixture(scope="session", autouse=True)
def _no_proxy() -> Iterator[None]:
    """The servers of these tests are on this machine: no proxy stands before them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield
