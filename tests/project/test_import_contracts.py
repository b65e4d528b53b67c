"""The import contracts name every module: a new one cannot slip past the wall between runs and truths."""

import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

# Neither side: the command line on top, packages that serve both (importers read truths and write runs),
# and primitives that know no data at all.
NEITHER = {
    "__init__",
    "__main__",
    "cli",
    "errors",
    "files",
    "json_value",
    "layout",
    "outcome",
    "text",
    "text_table",
}


def test_every_module_is_on_one_side_of_the_wall() -> None:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    (wall,) = (
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if "run side" in contract["name"]
    )
    run_side = {name.removeprefix("diagnose_bench.") for name in wall["source_modules"]}
    score_side = {name.removeprefix("diagnose_bench.") for name in wall["forbidden_modules"]}
    package = CHECKOUT / "diagnose_bench"
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    assert run_side.isdisjoint(score_side)
    assert modules == run_side | score_side | NEITHER
