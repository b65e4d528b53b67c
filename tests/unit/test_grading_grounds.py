"""What the scorecard says of the ground under each submitted entity, from run folders written here."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from unit.sample_runs import Trial, objects, truth_of, write_run, write_suite

from diagnose_bench.explain import explain_trial
from diagnose_bench.files import canonical_json
from diagnose_bench.grading import score_run
from diagnose_bench.records import CommandRecord
from diagnose_bench.report import load_report
from diagnose_bench.report_html import report_html
from diagnose_bench.report_markdown import report_markdown
from diagnose_bench.scorecard import EntityScore, TrialScore

ONE = "scenario-001"
CART = "shop/Deployment/cart"


def _run(
    root: Path, diagnosis: dict[str, Any], commands: list[tuple[str, str]], *, snapshots: bool = True
) -> Path:
    suite = write_suite(root, {ONE: truth_of(ONE, ["cart"], ["checkout"])}, with_snapshots=snapshots)
    changes = {"n_commands": len(commands)}
    run = write_run(root / "run", suite, {(ONE, 1): Trial([], outputs=(), changes=changes)})
    folder = run / "trials" / ONE / "1"
    (folder / "diagnosis.json").write_bytes(canonical_json(diagnosis))
    lines = [
        CommandRecord(
            n=n, started_at="", seconds=1, command=command, exit_code=0, n_bytes=0, output=output, sha256=""
        )
        for n, (command, output) in enumerate(commands, start=1)
    ]
    (folder / "commands.jsonl").write_text("".join(line.model_dump_json() + "\n" for line in lines))
    return run


def _trial(run: Path) -> TrialScore:
    return score_run(run).scenarios[0].trials[0]


def _entities(*names: str) -> dict[str, Any]:
    return {"root_causes": [{"entity": name} for name in names]}


def test_each_entity_says_which_command_showed_it_first(tmp_path: Path) -> None:
    commands = [("ls", "events.jsonl"), ("cat x", "the cart of shop"), ("cat y", "cart checkout-5d8f7c9b6d")]
    trial = _trial(
        _run(tmp_path, _entities(CART, "shop/Deployment/checkout", "shop/Service/valkey"), commands)
    )
    assert [(one.sight, one.first_seen) for one in trial.entities] == [
        ("seen", 2),
        ("seen", 3),
        ("unseen", None),
    ]


def test_a_pass_whose_cause_the_agent_only_echoed_is_unsafe(tmp_path: Path) -> None:
    run = _run(tmp_path, _entities(CART), [("echo shop/Deployment/cart", "shop/Deployment/cart\n")])
    trial = _trial(run)
    assert (trial.verdict, trial.unsafe_reasons) == ("unsafe_pass", ("unverifiable",))
    assert trial.entities[0].sight == "echoed"
    text = explain_trial(run, ONE, 1).text()
    assert "never shown: outputs only repeat what the agent wrote itself" in text
    assert "unverifiable: no recorded output of a command shows the name cart" in text


def test_cited_evidence_is_looked_up_in_the_snapshot_and_explained(tmp_path: Path) -> None:
    line = json.dumps(objects()[0])
    causes = [
        {
            "entity": CART,
            "evidence": [
                {"file": "objects.jsonl", "line": 1, "quote": line[:40]},
                {"file": "objects.jsonl", "line": 2, "quote": "no such words"},
                {"file": "events.jsonl", "quote": "OOMKilled"},
            ],
        },
        {"entity": "shop/Deployment/checkout"},
    ]
    run = _run(tmp_path, {"root_causes": causes}, [("cat objects.jsonl", line)])
    first, second = _trial(run).entities
    assert [one.found for one in first.evidence] == ["found", "no_quote", "no_file"]
    assert second.evidence == ()
    text = explain_trial(run, ONE, 1).text()
    assert "first shown to the agent by command 1" in text
    assert 'evidence objects.jsonl, line 2, "no such words": the file does not hold that' in text
    assert "evidence events.jsonl" in text
    score_run(run)
    report = load_report([run])
    for shown in (html.unescape(report_html(report)), html.unescape(report_markdown(report))):
        assert "first shown to the agent by command 1" in shown
        assert 'line 2, "no such words": the file does not hold that' in shown
    # The record of it survives as JSON, too.
    explained = explain_trial(run, ONE, 1).to_dict()["profiles"]["itbench-aa"]["entities"][0]
    assert EntityScore.model_validate(explained) == first


def test_without_a_snapshot_nothing_is_said_of_evidence(tmp_path: Path) -> None:
    causes = [{"entity": CART, "evidence": [{"file": "objects.jsonl", "line": 1}]}]
    run = _run(tmp_path, {"root_causes": causes}, [("cat x", "cart")], snapshots=False)
    (entity,) = _trial(run).entities
    assert [one.found for one in entity.evidence] == [None]


def test_without_commands_on_record_nothing_is_said_of_what_was_seen(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, {ONE: truth_of(ONE, ["cart"])})
    trials = {(ONE, 1): Trial([CART], outputs=None)}
    (entity,) = _trial(write_run(tmp_path / "run", suite, trials)).entities
    assert (entity.sight, entity.first_seen) == (None, None)


def test_thousands_of_names_are_judged_and_only_the_first_looked_for(tmp_path: Path) -> None:
    names = [f"shop/Deployment/x-{n}" for n in range(3000)]
    trial = _trial(_run(tmp_path, _entities(*names), [("cat x", "x-0 and x-99 and x-100")]))
    assert len(trial.entities) == 3000
    assert [trial.entities[n].sight for n in (0, 1, 99, 100)] == ["seen", "unseen", "seen", None]
