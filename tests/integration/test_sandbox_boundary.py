"""What must not work in the shell. Each probe is also run on the host, where it has to find something."""

import os
import subprocess

import pytest
from sandbox_helpers import as_ordinary_user, sandbox_over

from diagnose_bench import layout
from diagnose_bench.sandbox import open_shell

pytestmark = pytest.mark.sandbox

CANARY = "canary-of-the-host-8842"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenario-with-a-telling-name")
    (folder / "events.jsonl").write_text('{"reason": "OOMKilled"}\n')
    return folder


@pytest.fixture(scope="module")
def sandbox(snapshot):
    with sandbox_over(snapshot) as sandbox:
        yield sandbox


def python(code):
    return f"python3 -c '{code}'"


def on_host(command):
    done = subprocess.run(["bash", "-c", command], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


OPENS_SOCKET = python(
    "import socket,sys\ntry: socket.socket(%s, socket.SOCK_STREAM); print(\"open\")\n"
    "except OSError as e: print(e.errno)"
)  # fmt: skip


def test_environment_of_the_harness_is_not_visible(sandbox, monkeypatch):
    monkeypatch.setenv("LLM_API_KEY", CANARY)
    probe = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"
    assert CANARY in on_host(probe)
    shown = sandbox.run(f"{probe}; env").text
    assert CANARY not in shown
    assert "PATH=/usr/bin:/bin" in shown


def test_process_one_has_only_a_path_in_its_environment(sandbox):
    assert sandbox.run("tr '\\0' '\\n' < /proc/1/environ").text == "PATH=/usr/bin:/bin\n"


def test_command_lines_name_no_host_path(sandbox, snapshot):
    shown = sandbox.run("cat /proc/*/cmdline | tr '\\0' '\\n'").text
    assert "--args" in shown
    for secret in (str(sandbox.snapshot), str(sandbox.scratch), snapshot.name):
        assert secret not in shown


def test_mount_table_does_not_tell_which_scenario_it_is(sandbox, snapshot):
    shown = sandbox.run("cat /proc/self/{mountinfo,mounts,mountstats,maps}").text
    assert " /snapshot ro" in shown
    assert snapshot.name not in shown


def test_memory_of_process_one_cannot_be_written(sandbox):
    for path in ("/proc/1/mem", "/proc/1/task/1/mem"):
        assert sandbox.run(f"exec 3<>{path}").exit_code != 0
    assert sandbox.run("exec 3<>/proc/self/mem && echo own").text == "own\n"


@pytest.mark.parametrize(
    "path",
    [
        "/snapshot/x",
        "/snapshot/events.jsonl",
        "/x",
        "/usr/x",
        "/etc/passwd",
        "/dev/x",
        "/opt",
        "/usr/local/x",
    ],
)
def test_nothing_outside_of_scratch_and_tmp_can_be_written(sandbox, path):
    result = sandbox.run(f"echo x > {path}")
    assert result.exit_code == 1
    assert sandbox.run("cat /snapshot/events.jsonl").text == '{"reason": "OOMKilled"}\n'


def test_snapshot_files_cannot_be_removed_renamed_or_changed(sandbox):
    for command in ("rm -f events.jsonl", "mv events.jsonl y", "chmod 777 events.jsonl", "ln events.jsonl z"):
        assert sandbox.run(f"cd /snapshot && {command}").exit_code != 0


@pytest.mark.parametrize("family", ["socket.AF_INET", "socket.AF_INET6", "socket.AF_NETLINK", "40"])
def test_no_socket_leaves_the_sandbox(sandbox, family):
    assert sandbox.run(OPENS_SOCKET % family).text == "1\n"  # EPERM


def test_internet_sockets_open_on_the_host():
    assert on_host(OPENS_SOCKET % "socket.AF_INET") == "open\n"


def test_network_namespace_is_empty(sandbox):
    assert sandbox.run(
        "ls /proc/self/net/ >/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1"
    ).text.split() in (
        [],
        ["lo"],
    )
    assert sandbox.run("exec 3<>/dev/tcp/127.0.0.1/80").exit_code != 0


def test_sockets_of_the_host_are_not_reachable(sandbox):
    assert sandbox.run("cat /proc/net/unix | tail -n +2").text == ""


@pytest.mark.parametrize(
    "path", ["/root", "/home", "/var", "/etc/shadow", "/etc/machine-id", "/sys", "/run", "/opt"]
)
def test_the_rest_of_the_host_does_not_exist(sandbox, path):
    assert sandbox.run(f"test -e {path}").exit_code == 1


def test_project_is_not_there(sandbox):
    assert layout.package_folder().is_dir()
    assert sandbox.run(f"test -e {layout.package_folder()}").exit_code == 1
    assert sandbox.run("python3 -c 'import diagnose_bench'").exit_code == 1


@pytest.mark.parametrize("mode", ["4755", "2755", "6755", "u+s", "g+s"])
def test_no_file_can_become_setuid(sandbox, mode):
    assert on_host(f"f=$(mktemp) && chmod {mode} $f && rm $f") == ""
    result = sandbox.run(f"cp /bin/true /scratch/f; chmod {mode} /scratch/f")
    assert result.exit_code == 1
    assert "Operation not permitted" in result.text
    assert (sandbox.scratch / "f").stat().st_mode & 0o6000 == 0


def test_no_new_namespace_and_no_mount(sandbox):
    for command in (
        "unshare -Ur true",
        "unshare -m true",
        "mount -t tmpfs t /tmp",
        "chroot / true",
    ):
        result = sandbox.run(command)
        assert result.exit_code != 0
        assert "not permitted" in result.text or "denied" in result.text or "superuser" in result.text
    assert sandbox.run("umount /usr/local").exit_code != 0


@pytest.mark.parametrize(
    "name", ["kernel/core_pattern", "vm/drop_caches", "kernel/hostname", "net/ipv4/ip_forward"]
)
def test_kernel_settings_cannot_be_written(sandbox, name):
    assert sandbox.run(f"echo x > /proc/sys/{name}").exit_code != 0


@pytest.mark.parametrize(
    "name", ["cmdline", "kallsyms", "keys", "modules", "version", "partitions", "diskstats"]
)
def test_kernel_tells_nothing_of_the_host(sandbox, name):
    assert sandbox.run(f"cat /proc/{name} 2>/dev/null").text == ""


def test_no_capability_and_a_filter(sandbox):
    lines = sandbox.run("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status").text.splitlines()
    status = dict(line.split(":\t") for line in lines)
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_kernel_sees_an_ordinary_user_even_if_the_harness_is_root(sandbox):
    sandbox.run("touch /scratch/mine")
    assert (sandbox.scratch / "mine").stat().st_uid == (61000 if os.geteuid() == 0 else os.geteuid())


def test_only_its_own_processes_are_visible(sandbox):
    assert sandbox.run("ls -d /proc/[0-9]* | wc -l").text.strip() in ("3", "4")
    assert sandbox.run("kill -9 -1; kill -9 1; kill -9 $PPID; echo alive").text.endswith("alive\n")


def test_no_descriptor_of_the_harness_is_inherited(sandbox):
    with open(os.devnull) as held:
        os.set_inheritable(held.fileno(), True)
        numbers = sandbox.run("for f in /proc/self/fd/*; do echo ${f##*/}; done").text.split()
    assert sorted(map(int, numbers))[:3] == [0, 1, 2]
    assert len(numbers) <= 4


def test_standard_input_is_at_its_end(sandbox):
    assert sandbox.run("cat; echo $?").text == "0\n"


def test_host_links_lead_nowhere(tmp_path):
    secret = tmp_path / "answer.yaml"
    secret.write_text(CANARY)
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "absolute").symlink_to(secret)
    (snapshot / "relative").symlink_to("../answer.yaml")
    with open_shell(snapshot, backend="bwrap", unchecked=True) as shell:
        result = shell.run("cat /snapshot/absolute /snapshot/relative")
    assert result.exit_code == 1
    assert CANARY not in result.text


def test_boundary_holds_for_an_ordinary_user_too(snapshot):
    commands = {
        "write": "echo x > /snapshot/x",
        "socket": OPENS_SOCKET % "socket.AF_INET",
        "environ": "tr '\\0' '\\n' < /proc/1/environ",
        "caps": "grep -c -E 'Cap(Eff|Prm|Bnd):.0*$' /proc/self/status",
        "namespace": "unshare -Ur true",
        "mem": "exec 3<>/proc/1/mem",
        "setuid": "touch /scratch/f && chmod u+s /scratch/f",
    }

    def run(home):
        copy = home / "snapshot"
        copy.mkdir()
        (copy / "a").write_text("evidence\n")
        with sandbox_over(copy) as sandbox:
            answers = {name: sandbox.run(command) for name, command in commands.items()}
            return (
                os.geteuid(),
                sandbox.run("cat /snapshot/a; id -u").text,
                {name: (answer.exit_code, answer.text) for name, answer in answers.items()},
            )

    uid, worked, answers = as_ordinary_user(run)
    assert uid != 0
    assert worked == "evidence\n1000\n"
    assert answers["socket"] == (0, "1\n")
    assert answers["environ"] == (0, "PATH=/usr/bin:/bin\n")
    assert answers["caps"] == (0, "3\n")
    for name in ("write", "namespace", "mem", "setuid"):
        assert answers[name][0] != 0, name
