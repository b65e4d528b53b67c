"""Claims about client programs of MCP in a run: what they are given, how they end, the documented ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cli_helpers import Called, call, script, small_suite

from diagnose_bench.layout import package_folder

pytestmark = pytest.mark.sandbox
CHECKOUT = package_folder().parent
EXAMPLE = CHECKOUT / "examples" / "mcp_agent.py"
SCRIPTS = CHECKOUT / "examples" / "mcp"
ANSWER = '{"root_causes": [{"entity": "shop/Deployment/cart"}]}'


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return small_suite(tmp_path)


def run(suite: Path, command: str | Path, out: Path, *more: str) -> Called:
    words = ["run", "--agent", f"mcp-client: {command}", "--suite", suite, "--scenario", "1"]
    return call(*words, "--repeats", "1", "--no-baselines", "--out", out, *more)


def record_of(run: Path) -> dict[str, object]:
    found = json.loads((run / "trials" / "scenario-001" / "1" / "trial.json").read_text())
    assert isinstance(found, dict)
    return found


def trial_file(run: Path, name: str) -> str:
    return (run / "trials" / "scenario-001" / "1" / name).read_text()


def python(path: Path, text: str) -> Path:
    """An executable that may use the SDK."""
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("transport", ["", " --stdio"])
def test_the_example_diagnoses_the_bundled_suite_over_both_transports(tmp_path: Path, transport: str) -> None:
    out = tmp_path / "run"
    command = f"{sys.executable} {EXAMPLE}{transport}"
    words = ["run", "--agent", f"mcp-client: {command}", "--scenario", "1", "--scenario", "2"]
    done = call(*words, "--repeats", "1", "--no-baselines", "--out", out)
    assert done.code == 0, done.err
    assert "Outcomes: diagnosed 2" in done.out
    assert "agent process confined" in done.out
    record = record_of(out)
    assert (record["n_commands"], record["n_turns"], record["observed"]) == (1, 1, True)


def test_a_client_may_start_the_server_of_its_trial_by_our_own_command(suite: Path, tmp_path: Path) -> None:
    agent = python(
        tmp_path / "agent.py",
        """
        import asyncio, os, sys
        from mcp import Client, StdioServerParameters

        async def main():
            words = ["-m", "diagnose_bench", "mcp", "--trial"]
            server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
            async with Client(server) as client:
                await client.call_tool("run_command", {"command": "ls /snapshot"})
                await client.call_tool("submit_diagnosis", {"root_causes": []})

        asyncio.run(main())
        """,
    )
    done = run(suite, agent, tmp_path / "run")
    assert done.code == 0, done.err
    record = record_of(tmp_path / "run")
    assert (record["outcome"], record["n_commands"]) == ("diagnosed", 1)


def test_a_client_is_told_where_its_trial_is_and_nothing_of_it_is_kept(suite: Path, tmp_path: Path) -> None:
    agent = script(
        tmp_path / "agent.sh",
        """
        env | grep ^DIAGNOSE_BENCH_ | sort >&2
        cat "$DIAGNOSE_BENCH_MCP_CONFIG" >&2
        stat -c %a "$DIAGNOSE_BENCH_MCP_CONFIG" >&2
        token="Bearer $DIAGNOSE_BENCH_MCP_TOKEN"
        grep -qF "\"$token\"" "$DIAGNOSE_BENCH_MCP_CONFIG" && echo "the token is in it" >&2
        printf '%s' '{"root_causes": []}' | "$DIAGNOSE_BENCH_SUBMIT" >&2
        """,
    )
    done = run(suite, agent, tmp_path / "run")
    assert done.code == 0, done.err
    log = trial_file(tmp_path / "run", "agent_stderr.log")
    lines = log.splitlines()
    given = dict(line.split("=", 1) for line in lines if line.startswith("DIAGNOSE_BENCH_"))
    assert {f"DIAGNOSE_BENCH_MCP_{name}" for name in ("URL", "TOKEN", "CONFIG", "STDIO")} <= set(given)
    config = json.loads(log[log.index("{") : log.rindex("}", 0, log.index("\n600\n")) + 1])
    entry = config["mcpServers"]["diagnose-bench"]
    assert entry["type"] == "http"
    assert entry["url"] == given["DIAGNOSE_BENCH_MCP_URL"]
    assert "the token is in it" in lines
    # What the program prints goes to the disk without it.
    assert entry["headers"]["Authorization"].startswith("Bearer [redacted:")
    assert not os.path.exists(given["DIAGNOSE_BENCH_MCP_CONFIG"])
    assert lines[-1] == "accepted"


@pytest.mark.parametrize(
    ("text", "more", "outcome"),
    [
        ("exit 3", [], "agent_error"),
        ("exit 0", [], "no_diagnosis"),
        ('"$DIAGNOSE_BENCH_MCP_STDIO" < /dev/null; exit 0', [], "no_diagnosis"),
        # A line without an end, and one longer than any message: the connection ends, the trial goes on.
        (f"printf '{{' | \"$DIAGNOSE_BENCH_MCP_STDIO\"; echo '{ANSWER}'", [], "diagnosed"),
        (f"yes | tr -d '\\n' | \"$DIAGNOSE_BENCH_MCP_STDIO\"; echo '{ANSWER}'", [], "diagnosed"),
        (f"yes nonsense | head -2000 | \"$DIAGNOSE_BENCH_MCP_STDIO\"; echo '{ANSWER}'", [], "diagnosed"),
        ('sleep 1000 | "$DIAGNOSE_BENCH_MCP_STDIO"', ["--time-limit", "3"], "time_limit"),
    ],
)
def test_a_client_that_misbehaves_is_an_outcome(
    suite: Path, tmp_path: Path, text: str, more: list[str], outcome: str
) -> None:
    done = run(suite, script(tmp_path / "agent.sh", text + "\n"), tmp_path / "run", *more)
    assert done.code == 0, done.err
    assert record_of(tmp_path / "run")["outcome"] == outcome


CLIENT = """
import asyncio, json, os, sys
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

async def diagnose(server):
    async with server as client:
        result = await client.call_tool("run_command", {"command": "cat /snapshot/events.jsonl"})
        event = json.loads(result.content[0].text.splitlines()[0])["involvedObject"]
        entity = f"{event['namespace']}/{event['kind']}/{event['name']}"
        result = await client.call_tool("submit_diagnosis", {"root_causes": [{"entity": entity}]})
        print(result.content[0].text)

async def http(url, headers):
    async with httpx2.AsyncClient(headers=headers, timeout=300) as http:
        await diagnose(Client(streamable_http_client(url, http_client=http)))

def stdio(command, args):
    return diagnose(Client(StdioServerParameters(command=command, args=args)))

def option(name):
    return sys.argv[sys.argv.index(name) + 1]

def only(given, **known):
    for key, value in given.items():
        assert isinstance(value, known[key]), (key, value)
    return given
"""

CLAUDE_CODE = """
# As Claude Code documents it: "mcpServers", each with type, url and headers; names of tools are
# mcp__<server>__<tool>.
assert "--print" in sys.argv and "--strict-mcp-config" in sys.argv and option("--tools") == ""
((name, entry),) = json.load(open(option("--mcp-config")))["mcpServers"].items()
only(entry, type=str, url=str, headers=dict)
assert entry["type"] == "http"
tools = {f"mcp__{name}__{tool}" for tool in ("run_command", "read_file", "submit_diagnosis")}
assert set(option("--allowedTools").split(",")) == tools
assert "incident" in sys.stdin.read()
asyncio.run(http(entry["url"], entry["headers"]))
"""

CODEX = """
# codex-rs/core/config.schema.json, RawMcpServerConfig: unknown keys are refused; the token is in a variable.
import tomllib
assert sys.argv[1] == "exec" and sys.argv[-1] == "-"
with open(os.path.join(os.environ["CODEX_HOME"], "config.toml"), "rb") as file:
    ((_, entry),) = tomllib.load(file)["mcp_servers"].items()
number = (int, float)
only(entry, url=str, bearer_token_env_var=str, tool_timeout_sec=number, default_tools_approval_mode=str)
assert entry["default_tools_approval_mode"] in ("auto", "prompt", "writes", "approve")
assert "incident" in sys.stdin.read()
token = os.environ[entry["bearer_token_env_var"]]
asyncio.run(http(entry["url"], {"Authorization": f"Bearer {token}"}))
"""

GOOSE = """
# Goose's "Configuration Files": GOOSE_PATH_ROOT/config/config.yaml, an extension of type stdio.
import yaml
assert sys.argv[1] == "run" and "--no-session" in sys.argv
with open(os.path.join(os.environ["GOOSE_PATH_ROOT"], "config", "config.yaml")) as file:
    ((name, entry),) = yaml.safe_load(file)["extensions"].items()
only(entry, type=str, name=str, enabled=bool, cmd=str, args=list, envs=dict, env_keys=list, timeout=int)
assert entry["type"] == "stdio" and entry["name"] == name and entry["enabled"]
assert "incident" in open(option("--instructions")).read()
asyncio.run(stdio(entry["cmd"], entry["args"]))
"""


HARD = """
def bridge():
    return Client(StdioServerParameters(command=os.environ["DIAGNOSE_BENCH_MCP_STDIO"]))

async def run(client, command):
    result = await client.call_tool("run_command", {"command": command})
    return result.content[0].text

async def both():
    headers = {"Authorization": f"Bearer {os.environ['DIAGNOSE_BENCH_MCP_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=300) as http:
        over_http = Client(streamable_http_client(os.environ["DIAGNOSE_BENCH_MCP_URL"], http_client=http))
        async with over_http as one, bridge() as two, bridge() as three:
            clients = [one, two, three] * 2
            texts = await asyncio.gather(*(run(client, "echo a >> /scratch/both") for client in clients))
            assert set(texts) == {"[exit code 0]"}, texts
            assert await run(two, "wc -l < /scratch/both") == "6\\n[exit code 0]"
            long = await run(two, "yes 0123456789abcde | head -c 50000000")
            assert len(long) < 40000 and "read_file" in long
            result = await two.call_tool("submit_diagnosis", {"root_causes": []})
            assert result.content[0].text == "accepted"
            for client in (one, two, three):
                result = await client.call_tool("run_command", {"command": "ls"})
                assert result.is_error and "over" in result.content[0].text

asyncio.run(both())
"""


def test_several_clients_over_both_transports_share_a_trial(suite: Path, tmp_path: Path) -> None:
    agent = python(tmp_path / "agent.py", CLIENT + HARD)
    done = run(suite, agent, tmp_path / "run")
    assert done.code == 0, done.err
    assert record_of(tmp_path / "run")["outcome"] == "diagnosed", trial_file(
        tmp_path / "run", "agent_stderr.log"
    )
    lines = trial_file(tmp_path / "run", "commands.jsonl").splitlines()
    sizes = [json.loads(line)["n_bytes"] for line in lines]
    assert 50_000_000 in sizes
    assert len(lines) == 6 + 1 + 1


@pytest.mark.parametrize(
    ("program", "wrapper", "stand_in"),
    [("claude", "claude-code.sh", CLAUDE_CODE), ("codex", "codex.sh", CODEX), ("goose", "goose.sh", GOOSE)],
)
def test_the_documented_configuration_of_a_client_leads_it_to_the_trial(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, wrapper: str, stand_in: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    python(programs / program, CLIENT + stand_in)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run(suite, SCRIPTS / wrapper, tmp_path / "run")
    assert done.code == 0, done.err
    record = record_of(tmp_path / "run")
    assert record["outcome"] == "diagnosed", trial_file(tmp_path / "run", "agent_stderr.log")
    assert "shop/Deployment/cart" in trial_file(tmp_path / "run", "diagnosis.json")


def test_the_document_shows_the_scripts_as_they_are() -> None:
    text = (CHECKOUT / "docs" / "agents-mcp.md").read_text()
    for path in SCRIPTS.iterdir():
        assert f"```bash\n{path.read_text()}```" in text, path.name


@pytest.mark.parametrize(
    ("command", "message"), [("", "names no program"), (" no-such-client", "no program")]
)
def test_a_client_that_cannot_be_started_is_refused_at_once(command: str, message: str) -> None:
    assert message in call("run", "--agent", f"mcp-client:{command}").refused()


WITHOUT_SDK = """
import sys
sys.modules.update(mcp=None, mcp_types=None)
from diagnose_bench.cli import main
main()
"""


@pytest.mark.parametrize("words", [["run", "--agent", "mcp-client: true", "--out", "{out}"], ["mcp", "1"]])
def test_without_the_sdk_one_message_says_what_to_install(tmp_path: Path, words: list[str]) -> None:
    given = [word.format(out=tmp_path / "run") for word in words]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDK, *given], capture_output=True, text=True, cwd=CHECKOUT, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("diagnose-bench: ")
    assert "-m pip install 'mcp>=2.3'" in done.stderr
    assert done.stderr.count("\n") == 1
