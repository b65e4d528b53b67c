"""What must work in the shell: ordinary investigation with ordinary tools."""

import json
import os
from pathlib import Path

import pytest
from sandbox_helpers import as_ordinary_user, passable_folder, sandbox_over

from diagnose_bench import layout
from diagnose_bench.errors import SandboxError, SandboxPolicyError, SandboxUnavailableError
from diagnose_bench.sandbox import Limits, SnapshotStore, open_sandbox, open_shell
from diagnose_bench.sandbox.self_check import check_sandbox, self_check
from diagnose_bench.sandbox.tools import ESSENTIAL_TOOLS, PUBLISHED_TOOLS, probe_tools

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    rows = [{"reason": "OOMKilled", "count": 3}, {"reason": "Started", "count": 1}]
    (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "logs").mkdir()
    (folder / "logs" / "shop_cart.log").write_text("2024-01-01T00:00:00Z out of memory\n")
    (folder / "latest.log").symlink_to("logs/shop_cart.log")
    return folder


@pytest.fixture(scope="module")
def sandbox(snapshot):
    with sandbox_over(snapshot) as sandbox:
        yield sandbox


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cat /snapshot/latest.log", "2024-01-01T00:00:00Z out of memory\n"),
        ("grep -rl memory /snapshot | sort", "/snapshot/logs/shop_cart.log\n"),
        ("find /snapshot -name '*.log' -type f | wc -l", "1\n"),
        ("awk '{n += NF} END {print n}' /snapshot/latest.log", "4\n"),
        ("sed -n 's/.*out of/no/p' < /snapshot/latest.log", "no memory\n"),
        ("python3 -c 'print(6 * 7)'", "42\n"),
        ("python3 - <<'END'\nimport json, sqlite3, csv\nprint('here')\nEND", "here\n"),
        ("diff <(seq 3) <(seq 3) && echo same", "same\n"),
        ("pwd; cd /snapshot; pwd", "/scratch\n/snapshot\n"),
        ("printf 'one\\n' >&2; echo two", "one\ntwo\n"),
        ("seq 5 | sort -rn | head -n 1", "5\n"),
        ("echo $((1 << 40)); exit 0", "1099511627776\n"),
        ("whoami; id -un; hostname", "agent\nagent\nincident\n"),
        ("date -d 2024-01-01T00:00:00Z +%s; date +%Z", "1704067200\nUTC\n"),
        ("mktemp -d | cut -c1-5; ls -d $HOME $TMPDIR", "/tmp/\n/scratch\n/tmp\n"),
        ("echo é | wc -m", "2\n"),
    ],
)
def test_investigation(sandbox, command, shown):
    assert sandbox.run(command).text == shown


def test_optional_tools_work_where_they_are_installed(sandbox):
    versions = probe_tools(sandbox).versions
    probes = {
        "jq": ("jq -r 'select(.count > 2).reason' /snapshot/events.jsonl", "OOMKilled\n"),
        "sqlite3": (
            "sqlite3 x.db 'create table t(a); insert into t values (7); select a from t'",
            "7\n",
        ),
        "tar": ("tar cf /scratch/x.tar -C /snapshot logs && tar tf /scratch/x.tar | wc -l", "2\n"),
        "gzip": ("echo z | gzip | gzip -d", "z\n"),
    }
    for name, (command, shown) in probes.items():
        if versions[name] is not None:
            assert sandbox.run(command).text == shown


def test_exit_code_is_the_commands_own(sandbox):
    for code in (0, 1, 7, 124, 125, 126, 127, 255):
        assert sandbox.run(f"exit {code}").exit_code == code
    assert sandbox.run("no-such-program").exit_code == 127
    assert sandbox.run("kill -TERM $$").exit_code == 128 + 15
    assert sandbox.run("if then").exit_code == 2


def test_files_in_scratch_last_and_all_else_is_fresh(sandbox):
    sandbox.run("echo note > /scratch/note; echo tmp > /tmp/t; cd /snapshot; export SEEN=1; ulimit -n 10")
    assert sandbox.run("cat note; ls /tmp; echo [$SEEN]; pwd; ulimit -n").text == "note\n[]\n/scratch\n256\n"


def test_output_is_taken_as_it_is(sandbox):
    result = sandbox.run("printf '\\000\\377\\033[31m\\r\\n'")
    assert result.shown == b"\x00\xff\x1b[31m\r\n"
    assert result.text == "\x00�\x1b[31m\r\n"


def test_tools_are_recorded_with_their_versions(sandbox):
    report = probe_tools(sandbox)
    assert set(report.versions) == set(PUBLISHED_TOOLS)
    assert all(report.versions[name] for name in ESSENTIAL_TOOLS)
    assert report.versions["python3"].startswith("Python 3.")
    assert report.digest == probe_tools(sandbox).digest


def test_shell_without_an_essential_tool_is_refused(snapshot, tmp_path):
    class Without:
        def __init__(self, sandbox, folder):
            self.run = lambda command: sandbox.run(f"PATH={folder}; {command}")

    with sandbox_over(snapshot) as sandbox:
        sandbox.run("mkdir bin; ln -s /usr/bin/{bash,sort,find,grep,sed,awk,head} bin/")
        with pytest.raises(SandboxUnavailableError, match="python3 from the system's packages"):
            probe_tools(Without(sandbox, "/scratch/bin"))
        sandbox.run("rm bin/sed")
        with pytest.raises(SandboxUnavailableError, match="lacks sed, python3"):
            probe_tools(Without(sandbox, "/scratch/bin"))
        sandbox.run("ln -s /usr/bin/{sed,python3} bin/")
        assert [warning.split()[0] for warning in probe_tools(Without(sandbox, "/scratch/bin")).warnings] == [
            "jq",
            "sqlite3",
        ]


def test_self_check_passes_and_asks_nine_questions():
    results = self_check("bwrap")
    assert [result.passed for result in results] == [True] * 9
    assert as_ordinary_user(lambda _: [result.passed for result in self_check("auto")]) == [True] * 9


def test_self_check_sees_a_forbidden_file(sandbox):
    failed = [result.name for result in check_sandbox(sandbox, [Path("/usr/bin/env")]) if not result.passed]
    assert failed == ["the project, the home and the harness are not visible"]


def test_self_check_fails_on_a_shell_without_isolation(snapshot, tmp_path, capfd):
    with open_sandbox("none", snapshot, scratch=tmp_path) as shell:
        assert "WARNING" in capfd.readouterr().err
        results = check_sandbox(shell)
    assert not all(result.passed for result in results)


def test_bubblewrap_that_isolates_nothing_is_refused(monkeypatch):
    with passable_folder() as folder:
        (folder / "bwrap").write_text(
            "#!/usr/bin/python3\nimport os, subprocess, sys\n"
            "options = open(int(sys.argv[2]), 'rb').read().split(b'\\0')\n"
            "status = int(options[options.index(b'--json-status-fd') + 1])\n"
            "code = subprocess.call(sys.argv[4:])\n"
            "os.write(status, b'{\"exit-code\": %d}\\n' % code)\n"
        )
        (folder / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        with pytest.raises(SandboxUnavailableError, match="self-check failed"):
            self_check("bwrap")


def test_closed_sandbox_runs_nothing(snapshot):
    with sandbox_over(snapshot) as sandbox:
        pass
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run("true")


def test_scratch_folder_of_a_person_stays(snapshot):
    with passable_folder() as folder:
        for text in ("one\n", "one\ntwo\n"):
            with open_shell(snapshot, backend="auto", scratch=folder / "mine") as shell:
                shell.run(f"echo {text.split()[-1]} >> /scratch/note")
            assert (folder / "mine" / "note").read_text() == text


def test_folder_that_the_shell_cannot_enter_is_named(snapshot):
    with passable_folder() as folder:
        closed = folder / "closed"
        (closed / "inner").mkdir(parents=True)
        closed.chmod(0o600)
        try:
            with (
                pytest.raises(SandboxError, match=r"/closed\b.*chmod"),
                open_shell(snapshot, scratch=closed / "inner"),
            ):
                pass
        finally:
            closed.chmod(0o700)


def test_files_of_somebody_else_are_not_taken_over(snapshot):
    with passable_folder() as folder:
        (folder / "kept").write_text("mine")
        if os.geteuid() == 0:
            with pytest.raises(SandboxPolicyError, match="files of another user"):
                open_sandbox("bwrap", snapshot, scratch=folder)
        assert (folder / "kept").stat().st_uid == os.geteuid()


def test_folder_with_the_project_in_it_cannot_be_the_snapshot():
    with (
        pytest.raises(SandboxPolicyError, match="lies in it"),
        open_shell(layout.package_folder().parent, backend="auto"),
    ):
        pass


def test_forbidden_folder_among_the_system_folders_is_covered(snapshot):
    covered = Path("/usr/share/zoneinfo")
    assert any(covered.iterdir())
    with sandbox_over(snapshot, forbidden=[covered]) as sandbox:
        assert sandbox.run("ls -A /usr/share/zoneinfo | wc -l").text == "0\n"
        assert sandbox.run("ls -A /usr/share | wc -l").text != "0\n"
    with (
        pytest.raises(SandboxPolicyError, match="system's own programs"),
        sandbox_over(snapshot, forbidden=[Path("/usr")]),
    ):
        pass


def test_limits_are_a_record(sandbox):
    assert sandbox.limits.as_dict()["scratch_mb"] == 256
    assert Limits().adjusted(command_s=300).max_command_s == 300


def test_store_serves_the_same_copy_again_and_removes_it(snapshot):
    with SnapshotStore() as store:
        copy = store.stage(snapshot)
        assert store.stage(snapshot) == copy
        store.remove(copy)
        assert not copy.exists()
        assert store.stage(snapshot) != copy
    assert not store.folder.exists()
