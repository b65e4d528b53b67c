"""The documents point at what exists and hold no placeholder."""

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_nothing_is_left_to_fill_in(path: Path) -> None:
    text = path.read_text()
    assert "@@" not in text
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (path.parent / target).exists(), target


def test_the_readme_names_the_two_commands_and_the_bundled_suite() -> None:
    text = (CHECKOUT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    assert "suite:postmortems@" in text
