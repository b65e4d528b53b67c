"""Untrusted text is shown, never interpreted."""

import pytest

from diagnose_bench.text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain café 字", "plain café 字"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\r\nb\tc", "a\\x0d\nb\tc"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202edcb", "abc\\u202edcb"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone \ud800", "lone \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("line\u2028sep", "line\\u2028sep"),
    ],
)
def test_control_and_format_characters_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_single_line_keeps_no_line_breaks() -> None:
    assert visible("a\nb\tc", keep_lines=False) == "a\\nb\\tc"


def test_the_result_holds_no_terminal_control_character() -> None:
    everything = "".join(chr(point) for point in range(0x3000))
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in visible(everything, keep_lines=False))
