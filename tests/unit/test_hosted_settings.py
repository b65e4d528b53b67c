"""Claims about what a person can get wrong with a hosted agent, and about the redaction list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diagnose_bench.agents.factory import make_agent
from diagnose_bench.agents.hosted_settings import make_settings
from diagnose_bench.agents.options import AgentOptions
from diagnose_bench.agents.redaction import RedactionList, load_redaction_list
from diagnose_bench.errors import UsageError

LOCAL = "http://127.0.0.1:8800/agent"


@pytest.mark.parametrize(
    ("url", "shown", "port", "target"),
    [
        (LOCAL, LOCAL, 8800, "/agent"),
        ("http://localhost", "http://localhost/", 80, "/"),
        ("https://127.0.0.1?key=abc", "https://127.0.0.1/", 443, "/?key=abc"),
        ("HTTP://[::1]:9/a?b#c", "http://[::1]:9/a", 9, "/a?b"),
    ],
)
def test_an_address_is_shown_without_its_query(url: str, shown: str, port: int, target: str) -> None:
    endpoint = make_settings(url, AgentOptions()).endpoint
    assert (endpoint.shown, endpoint.port, endpoint.target) == (shown, port, target)
    assert make_agent(url).info.name == shown


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("http://", {}, "is no address"),
        ("http://:80/", {}, "is no address"),
        ("http://127.0.0.1:99999/", {}, "is no address: Port out of range"),
        ("http://[::1/", {}, "is no address"),
        ("http://127.0.0.1/a b", {}, "is no address"),
        ("http://127.0.0.1/\u00fc", {}, "characters that an address cannot have"),
        ("http://name:word@127.0.0.1/", {}, "--header instead"),
        ("http://agent.example/", {}, "cannot reach 127.0.0.1.*--listen.*--public-url"),
        ("http://agent.example/", {"listen": "0.0.0.0:1"}, "--public-url URL how the agent reaches it"),
        (LOCAL, {"listen": "8700"}, "give HOST:PORT"),
        (LOCAL, {"listen": ":8700"}, "give HOST:PORT"),
        (LOCAL, {"listen": "127.0.0.1:70000"}, "give HOST:PORT"),
        (LOCAL, {"public_url": "bench.example"}, "--public-url 'bench.example': is no address"),
        (LOCAL, {"headers": ("Authorization",)}, "give 'NAME: VALUE'"),
        (LOCAL, {"headers": ("Host: x",)}, "is set by diagnose-bench itself"),
        (LOCAL, {"headers": ("X-Key: $NO_SUCH_VARIABLE",)}, "no variable NO_SUCH_VARIABLE"),
        (LOCAL, {"headers": ("X-Key: $BROKEN",)}, "characters that a header cannot have"),
        (LOCAL, {"ca_file": Path("/none")}, "goes with an https:// agent"),
        ("https://127.0.0.1/", {"ca_file": Path("/none")}, "--ca-file /none: No such file or directory"),
        ("https://127.0.0.1/", {"ca_file": Path(__file__)}, "holds no certificate in PEM form"),
        (LOCAL, {"redact": Path("/none")}, "--redact /none: No such file or directory"),
        (LOCAL, {"seed": 1}, "--seed means nothing for --agent"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    url: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "a\r\nX-Other: b")
    with pytest.raises(UsageError, match=message):
        make_agent(url, options=AgentOptions(**options))


def test_options_of_hosted_agents_are_refused_for_others(tmp_path: Path) -> None:
    for options in ({"listen": "127.0.0.1:0"}, {"headers": ("A: b",)}, {"ca_file": tmp_path}):
        with pytest.raises(UsageError, match="means nothing for --agent 'baseline:empty'"):
            make_agent("baseline:empty", options=AgentOptions(**options))  # type: ignore[arg-type]


def test_secrets_are_neither_shown_nor_part_of_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for key in ("first-key", "other-key"):
        monkeypatch.setenv("KEY", key)
        settings = make_settings(f"{LOCAL}?token={key}", AgentOptions(headers=("X-Key: Bearer $KEY",)))
        assert settings.headers == {"X-Key": f"Bearer {key}"}
        assert key not in repr(settings)
        assert settings.mask(f"got Bearer {key} and {key} at token={key}") == "got *** and *** at ***"
        digests.add(settings.config_digest())
    assert len(digests) == 1
    assert digests != {make_settings(LOCAL, AgentOptions()).config_digest()}


def test_each_string_is_cut_out_and_counted_the_longest_first() -> None:
    words = RedactionList(("acme", "acme-corp", 'say "x"', "straße"))
    assert words.redact("acme-corp at acme, Acme") == ("[redacted] at [redacted], Acme", 2)
    assert words.redact('say "x", "say \\"x\\"", "stra\\u00dfe", straße') == (
        '[redacted], "[redacted]", "[redacted]", [redacted]',
        4,
    )
    assert words.redact("nothing") == ("nothing", 0)
    assert RedactionList().redact("acme") == ("acme", 0)
    assert RedactionList().digest is None


def test_a_piece_of_a_string_at_the_place_of_a_cut_is_cut_out_too() -> None:
    words = RedactionList(("secret-name",))
    cut = "\n[... 1000 bytes of output cut here ...]\n"
    text, n = words.redact(f"secret-name secret-n{cut}-name is it")
    assert text == f"[redacted] [redacted]{cut}[redacted] is it"
    assert n == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no string"),
        (b"\n \n", "holds no string"),
        (b"good\nab\n", "line 2: 'ab' has fewer than 3 characters"),
        (b"\xff\xfe", "is no UTF-8 text"),
        (b"x" * 1001, "line 1: longer than 1000 characters"),
        (b"abc\n" * 1001, "1001 strings; at most 1000"),
        (b"x" * ((1 << 20) + 1), "larger than 1 MiB"),
    ],
)
def test_a_list_that_cannot_be_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "words"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=message):
        load_redaction_list(path)


def test_a_list_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(b"\xef\xbb\xbfacme\r\nother\r\n")
    assert load_redaction_list(path).redact("acme other") == ("[redacted] [redacted]", 2)
