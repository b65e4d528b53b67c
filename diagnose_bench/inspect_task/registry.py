"""What Inspect finds through our entry point: the task, its scorer, its tools and the sandbox. No logic."""

from diagnose_bench.inspect_task.sandbox import DiagnoseBenchSandbox
from diagnose_bench.inspect_task.scorer import precision_at_full_recall
from diagnose_bench.inspect_task.task import incidents
from diagnose_bench.inspect_task.tools import run_command, submit_diagnosis

__all__ = [
    "DiagnoseBenchSandbox",
    "incidents",
    "precision_at_full_recall",
    "run_command",
    "submit_diagnosis",
]
