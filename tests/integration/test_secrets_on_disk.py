"""A key that an agent shows everywhere is in no file of the run, and changes no number."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import atif
from cli_helpers import call, call_process, script, small_suite, tree

KEY = "Qm9vay1vZi1rZXlz/9+x"
GITHUB = "ghp_" + "aB3dE6" * 6
AGENT = r"""
"$DIAGNOSE_BENCH_SHELL" -c "echo 'key $SOME_API_KEY'; cat /snapshot/events.jsonl"
"$DIAGNOSE_BENCH_SHELL" -c "cat /snapshot/events.jsonl"
echo "I hold $SOME_API_KEY and {github}" >&2
cat >answer.json <<END
{{"root_causes": [{{"entity": "{entity}", "reasoning": "seen with $SOME_API_KEY and {github}"}}]}}
END
"$DIAGNOSE_BENCH_SUBMIT" answer.json
"""


def run_with(tmp_path: Path, entity: str) -> Path:
    suite, out = small_suite(tmp_path), tmp_path / "run"
    agent = script(tmp_path / "agent", AGENT.format(github=GITHUB, entity=entity))
    done = call_process(
        *("run", "--agent", agent, "--suite", suite, "--scenario", "scenario-001"),
        *("--repeats", "1", "--no-baselines", "--out", out),
        env=os.environ | {"SOME_API_KEY": KEY},
    )
    assert done.code == 0, done.err
    assert KEY not in done.out + done.err
    return out


def test_a_key_is_in_no_file_and_is_counted(tmp_path: Path) -> None:
    out = run_with(tmp_path, "shop/Deployment/cart")
    files = tree(out)
    assert [name for name, data in files.items() if KEY.encode() in data or GITHUB.encode() in data] == []
    folder = out / "trials" / "scenario-001" / "1"
    command = json.loads((folder / "commands.jsonl").read_bytes().splitlines()[0])
    assert command["command"].startswith("echo 'key [redacted:environment]'; cat ")
    assert command["output"].startswith('key [redacted:environment]\n{"reason": "OOMKilled"')
    errors = (folder / "agent_stderr.log").read_text()
    assert errors == "I hold [redacted:environment] and [redacted:api-key]\n"
    answer = json.loads((folder / "diagnosis.json").read_bytes())
    assert answer["root_causes"][0]["reasoning"] == "seen with [redacted:environment] and [redacted:api-key]"
    # In the command, in its output, on standard error, in the submission, in the diagnosis.
    trial = json.loads((folder / "trial.json").read_bytes())
    assert trial["n_redactions"] == 1 + 1 + 2 + 2 + 2
    atif.Trajectory.model_validate_json((folder / "trajectory.json").read_bytes())


def test_the_digest_of_the_output_is_that_of_what_the_agent_saw(tmp_path: Path) -> None:
    folder = run_with(tmp_path, "shop/Deployment/cart") / "trials" / "scenario-001" / "1"
    command = json.loads((folder / "commands.jsonl").read_bytes().splitlines()[0])
    seen = command["output"].replace("[redacted:environment]", KEY).encode()
    assert command["sha256"] == hashlib.sha256(seen).hexdigest()
    assert command["n_bytes"] == len(seen)


def test_a_name_that_is_scored_is_never_changed(tmp_path: Path) -> None:
    out = run_with(tmp_path, f"shop/Deployment/{KEY}")
    answer = json.loads((out / "trials/scenario-001/1/diagnosis.json").read_bytes())
    assert answer["root_causes"][0]["entity"] == f"shop/Deployment/{KEY}"


def test_a_redacted_run_is_scored_as_any(tmp_path: Path) -> None:
    out = run_with(tmp_path, "shop/Deployment/cart")
    scored = call("score", out, "--format", "json").json()
    (trial,) = scored["scenarios"][0]["trials"]
    assert (trial["precision_at_full_recall"], trial["verdict"]) == (1.0, "safe_pass")
