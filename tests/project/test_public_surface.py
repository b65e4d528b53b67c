"""What users import and type: small, declared, and quick to load."""

import subprocess
import sys

import pytest

import diagnose_bench

HEAVY = ("numpy", "pandas", "duckdb")


@pytest.mark.parametrize("arguments", [["-c", "import diagnose_bench"], ["-m", "diagnose_bench", "--help"]])
def test_import_and_help_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True
    ).stderr
    names = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in loaded.splitlines() if "|" in line}
    assert "diagnose_bench" in names
    assert names.isdisjoint(HEAVY)


def test_every_command_shows_its_help_without_loading_anything_heavy() -> None:
    script = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from diagnose_bench.cli import app\n"
        "for words in sys.argv[1:]:\n"
        "    result = CliRunner().invoke(app, [*words.split(), '--help'])\n"
        "    assert result.exit_code == 0, result.output\n"
        "    assert 'Example:' in result.output, words\n"
        f"assert not set({HEAVY!r}) & set(sys.modules)\n"
    )
    commands = [
        *[
            "demo",
            "run",
            "score",
            "report",
            "explain",
            "compare",
            "plan",
            "query",
            "shell",
            "schema",
            "doctor",
        ],
        *[f"suite {name}" for name in ("list", "show", "lint", "digest")],
        *["import diagnoses", "import itbench"],
    ]
    subprocess.run([sys.executable, "-c", script, *commands], check=True)


def test_the_declared_names_exist_and_are_sorted() -> None:
    assert diagnose_bench.__all__ == sorted(diagnose_bench.__all__)
    for name in diagnose_bench.__all__:
        assert getattr(diagnose_bench, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = diagnose_bench.no_such_name
