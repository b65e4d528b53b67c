"""Claims about programs as agents at their limits, and about what they do to the harness around them."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_stage import ACCEPTED, EXAMPLES, TRIAL, Stage, open_stage

from diagnose_bench.agents.command import CommandAgent
from diagnose_bench.agents.factory import make_agent
from diagnose_bench.layout import package_folder
from diagnose_bench.outcome import Limit, Outcome

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


def test_in_the_last_turns_it_is_told_what_is_left_and_in_the_last_to_submit(stage: Stage) -> None:
    record = stage.bash(
        """
        for n in 1 2 3; do
          "$DIAGNOSE_BENCH_SHELL" -c "echo run $n" 2>>notices >>outputs; echo $? >>outputs
        done
        cat outputs notices >&2
        echo '[]' | "$DIAGNOSE_BENCH_SUBMIT"
        """,
        max_turns=3,
    )
    assert stage.errors() == (
        "run 1\n0\nrun 2\n0\n"
        "The turns are used up and the command was not run. It is time to submit the diagnosis.\n125\n"
        "[diagnose-bench] 2 turns are left.\n"
        "[diagnose-bench] 1 turn is left: it is time to submit the diagnosis.\n"
    )
    assert (record.n_turns, record.n_commands) == (3, 2)
    assert (record.outcome, record.limit_hit) == (Outcome.DIAGNOSED, Limit.TURNS)


def test_before_the_last_20_turns_nothing_is_said(stage: Stage) -> None:
    stage.bash('"$DIAGNOSE_BENCH_SHELL" -c true; "$DIAGNOSE_BENCH_SHELL" -c true', max_turns=22)
    assert stage.errors() == "[diagnose-bench] 20 turns are left.\n"


@pytest.mark.parametrize(("forced_final", "n_turns"), [(False, 2), (True, 3)])
def test_a_call_after_the_last_turn_ends_the_trial(stage: Stage, forced_final: bool, n_turns: int) -> None:
    record = stage.bash(
        'while :; do "$DIAGNOSE_BENCH_SHELL" -c true; sleep 0.05; done',
        max_turns=2,
        forced_final=forced_final,
    )
    assert (record.outcome, record.limit_hit) == (Outcome.TURN_LIMIT, Limit.TURNS)
    assert (record.n_turns, record.n_commands) == (n_turns, 1)
    assert record.reason == "No diagnosis within 2 turns."


def test_calls_at_the_same_time_are_served_and_counted(stage: Stage) -> None:
    record = stage.bash(
        """
        for n in 1 2 3 4 5 6; do "$DIAGNOSE_BENCH_SHELL" -c "echo $n" >out.$n & done; wait
        cat out.* | sort | tr -d '\\n' >&2
        """
    )
    assert stage.errors() == "123456"
    assert record.n_commands == 6


def test_a_caller_that_dies_in_the_middle_holds_up_nothing(stage: Stage) -> None:
    record = stage.bash(
        """
        "$DIAGNOSE_BENCH_SHELL" -c "sleep 2; echo late" & caller=$!
        sleep 0.5; kill -9 $caller
        "$DIAGNOSE_BENCH_SHELL" -c "echo next" >&2
        """
    )
    assert "next\n" in stage.errors()
    # On a slow machine it may die before its call arrives.
    assert record.n_commands in (1, 2)


@pytest.fixture
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that no other test uses at the same time."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    "script",
    [
        'rm -rf "$(dirname "$DIAGNOSE_BENCH_TASK")"',
        "chmod 000 .. 2>/dev/null; chmod 000 .",
        "for n in {1..1500}; do mkdir d && cd d || exit 0; done",
        "kill -STOP $$",
    ],
)
def test_what_an_agent_does_to_its_folder_or_itself_harms_only_itself(
    stage: Stage, own_temporary_folder: Path, script: str
) -> None:
    record = stage.bash(script, time_limit_s=1.0)
    assert record.outcome in (Outcome.NO_DIAGNOSIS, Outcome.AGENT_ERROR, Outcome.TIME_LIMIT)
    assert os.listdir(own_temporary_folder) == []


def test_a_link_in_the_place_of_its_folder_leads_the_cleaning_nowhere(
    stage: Stage, own_temporary_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("kept")
    script = f"""
        folder=$(dirname "$DIAGNOSE_BENCH_TASK")
        ln -s {tmp_path} link; rm -rf "$folder/tools"; ln -s {tmp_path} "$folder/tools"
        mv "$folder" "$folder.moved"; ln -s {tmp_path} "$folder"; rm -rf "$folder.moved"
        """
    record = stage.bash(script)
    assert (tmp_path / "precious").read_text() == "kept"
    assert os.listdir(own_temporary_folder) == []
    assert record.outcome is not Outcome.DIAGNOSED


def test_a_very_long_path_of_temporary_files_does_no_harm(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 40) / ("path's name " * 5)
    place.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    record = stage.bash(f"""echo '{ACCEPTED}' | "$DIAGNOSE_BENCH_SUBMIT" """)
    assert record.outcome is Outcome.DIAGNOSED, stage.errors()


def test_nonsense_on_the_socket_holds_up_nothing(stage: Stage) -> None:
    record = stage.python(
        """
        import os, socket, subprocess
        folder = os.path.dirname(os.environ["DIAGNOSE_BENCH_SHELL"])
        os.chdir(folder)
        def connect():
            connection = socket.socket(socket.AF_UNIX)
            connection.connect("socket")
            return connection
        silent = [connect() for _ in range(5)]
        for data in (b"", b"\\n", b"[" * 5000, b'{"token": 1}\\n', b"\\xff" * 100 + b"\\n"):
            connection = connect()
            connection.sendall(data)
            connection.close()
        token = open("token").read()
        wrong = connect()
        wrong.sendall(b'{"token": "guess", "kind": "submit", "n_bytes": 2}\\n[]')
        assert wrong.recv(100) == b""
        huge = connect()
        huge.sendall(('{"token": "%s", "kind": "shell", "n_bytes": 99999999999}\\n' % token).encode())
        assert huge.recv(100) == b""
        print(subprocess.run([os.environ["DIAGNOSE_BENCH_SHELL"], "-c", "echo fine"]).returncode)
        """
    )
    assert stage.outputs() == ["fine\n"], stage.errors()
    assert record.outcome is Outcome.MALFORMED_DIAGNOSIS


def test_a_submission_does_not_wait_for_a_command_that_runs(stage: Stage) -> None:
    record = stage.bash(
        f"""
        "$DIAGNOSE_BENCH_SHELL" -c "sleep 100" &
        sleep 0.5
        echo '{ACCEPTED}' | "$DIAGNOSE_BENCH_SUBMIT"
        """
    )
    assert record.outcome is Outcome.DIAGNOSED
    assert {command.limit_hit for command in stage.store.commands(TRIAL)} <= {"trial"}


def test_an_agent_finds_no_truth_no_run_and_no_snapshot(stage: Stage) -> None:
    stage.bash(
        f"""
        ls -A {stage.folder}/ground_truth/small {stage.folder}/snapshots/small {stage.folder}/run-* \
            {stage.shells.folder} >&2
        grep -rs TRUTH-OF {stage.folder} >&2
        ls -A {package_folder().parent}/ground_truth {package_folder().parent}/snapshots \
            {package_folder()}/_data 2>/dev/null >&2
        ls -d /proc/[0-9]* | wc -l >seen; test "$(cat seen)" -lt 20 || echo "sees processes" >&2
        """
    )
    for word in ("scenario", "TRUTH", "trial", "postmortems", "sees processes", "snapshot.json"):
        assert word not in stage.errors()


@pytest.mark.parametrize("command", ["{examples}/agent.sh", "python3 {examples}/agent.py"])
def test_the_examples_name_the_broken_object(stage: Stage, command: str) -> None:
    agent = make_agent(command.format(examples=EXAMPLES))
    assert isinstance(agent, CommandAgent)
    record = stage.agent(agent)
    assert record.outcome is Outcome.DIAGNOSED, stage.errors()
    assert b'"shop/Deployment/cart"' in (stage.diagnosis() or b"")
    assert record.n_commands == 1


def test_the_bash_example_has_fewer_than_40_lines_and_the_python_one_no_dependency() -> None:
    assert len((EXAMPLES / "agent.sh").read_text().splitlines()) < 40
    modules = {
        line.split()[1]
        for line in (EXAMPLES / "agent.py").read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    assert modules <= set(sys.stdlib_module_names) | {"collections,"}


def test_an_agent_may_have_fewer_descriptors_than_the_harness(stage: Stage) -> None:
    stage.python(
        """
        import resource, sys
        print(*resource.getrlimit(resource.RLIMIT_NOFILE), file=sys.stderr)
        """
    )
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
    assert stage.errors().split() == [str(min(4096, most))] * 2
