"""Score incident-diagnosis agents on frozen Kubernetes incidents.

The public names load late, so that ``import diagnose_bench`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diagnose_bench.errors import DiagnoseBenchError
    from diagnose_bench.explain import explain_trial
    from diagnose_bench.grading import score_run
    from diagnose_bench.importers.diagnoses import import_diagnoses
    from diagnose_bench.importers.itbench import import_itbench
    from diagnose_bench.run import RunOptions, run_suite
    from diagnose_bench.run_tables import trials
    from diagnose_bench.scorecard import Scorecard, load_scorecard
    from diagnose_bench.suite import Suite, load_suite

__version__ = "0.1.0"

_HOMES = {
    "DiagnoseBenchError": "errors",
    "RunOptions": "run",
    "Scorecard": "scorecard",
    "Suite": "suite",
    "explain_trial": "explain",
    "import_diagnoses": "importers.diagnoses",
    "import_itbench": "importers.itbench",
    "load_scorecard": "scorecard",
    "load_suite": "suite",
    "run_suite": "run",
    "score_run": "grading",
    "trials": "run_tables",
}

__all__ = [
    "DiagnoseBenchError",
    "RunOptions",
    "Scorecard",
    "Suite",
    "explain_trial",
    "import_diagnoses",
    "import_itbench",
    "load_scorecard",
    "load_suite",
    "run_suite",
    "score_run",
    "trials",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
