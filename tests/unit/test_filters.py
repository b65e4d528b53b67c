"""A filter matches whole names, knows how specific it is, and takes linear time."""

from __future__ import annotations

import pytest

from diagnose_bench.filters import Filter


@pytest.mark.parametrize(
    ("pattern", "n_literal", "stem", "is_open"),
    [
        (r"cart\b", 4, "cart", False),
        ("cart", 4, "cart", False),
        ("^cart$", 4, "cart", False),
        ("cart-.*", 5, "cart", True),
        ("cart-[a-z0-9]+", 5, "cart", True),
        (r"cart\.db-.*", 8, "cart.db", True),
        (".*adservice", 0, None, False),
        ("cart-(a|b)-.*", 5, None, False),
        ("cart|web", 4, None, False),
        (".*", 0, None, True),
    ],
)
def test_what_a_filter_spells_out(pattern: str, n_literal: int, stem: str | None, is_open: bool) -> None:
    found = Filter(pattern)
    assert (found.n_literal, found.stem, found.is_open) == (n_literal, stem, is_open)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        (r"frontend\b", "frontend", True),
        (r"frontend\b", "frontend-proxy", False),
        (r"cart\b", "valkey-cart", False),
        ("checkout-.*", "checkout", False),
        (".*product-catalog", "delay-product-catalog", True),
        ("cart", "Cart", False),
        (".*", "a" * 253, True),
        (".*", "a" * 254, False),
    ],
)
def test_the_whole_name_must_match(pattern: str, name: str, fits: bool) -> None:
    assert Filter(pattern).fits(name) is fits


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a*)*b", "((a{1,})x?)+b", ".*.*.*.*.*.*b", "([a-z]+)*[0-9]{2,}b", "(a|a)*b", "(a?a?)*b"],
)
def test_a_filter_that_backtracks_without_end_still_answers(pattern: str) -> None:
    assert not Filter(pattern).fits("a" * 253)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("cart-([a-z0-9]+-)*[a-z0-9]+", "cart-5d8f-x2v5z", True),
        ("cart-([a-z0-9]+-)*[a-z0-9]+", "cart-", False),
        (r"([^\]]+x)+\b", "aaxbx", True),
        (r"([]a-z]+-)+[0-9]+", "ab-cd-7", True),
        (r"(?!web)([a-z]+-?)+", "cart-db", True),  # RE2 has no look-ahead
        (r"(?!web)([a-z]+-?)+", "web-db", False),
        (r"(\(a+\))+", "(a)(aa)", True),
    ],
)
def test_nested_repeats_mean_what_they_mean_elsewhere(pattern: str, name: str, fits: bool) -> None:
    assert Filter(pattern).fits(name) is fits


def test_a_name_that_is_no_text_is_no_crash() -> None:
    assert not Filter("(a+)+b").fits("\ud800")


def test_a_doubtful_set_is_no_warning() -> None:
    assert Filter("[[]a").fits("[a")
