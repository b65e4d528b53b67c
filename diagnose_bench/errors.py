"""The exception tree; every message says what is wrong, where, and what to do next.

::

    DiagnoseBenchError              exit code 2 unless a subclass says otherwise
      UsageError                    the command line asks for something that cannot be
      SuiteError                    the suite's data are wrong
        DigestMismatchError         bytes differ from the digest on record
        GroundTruthError            a truth is refused
      DiagnosisError                the agent's answer is wrong (inside a run it becomes an outcome)
      SandboxError                  our isolation failed
        SandboxUnavailableError     no backend works on this machine
        SandboxPolicyError          a mount that the policy forbids
        SandboxEndedError           something inside ended it
      RunError                      the run directory is unusable
        RunFormatError              written by another format version, or damaged
        IncompleteRunError          not decidable yet; exit code 3
          SpendCapError             --max-cost is reached

The fault decides the class: what the agent did wrong is data (an outcome), never an exception that ends
a run.
"""

from __future__ import annotations


class DiagnoseBenchError(Exception):
    """Base of all errors that are reported to the user as one message."""

    exit_code = 2


class UsageError(DiagnoseBenchError):
    """The command line asks for something that cannot be."""


class SuiteError(DiagnoseBenchError):
    """The suite's data are wrong."""


class DigestMismatchError(SuiteError):
    """Bytes on disk differ from the digest on record."""


class GroundTruthError(SuiteError):
    """A ground truth is refused; the message has file, JSON path and reason."""


class DiagnosisError(DiagnoseBenchError):
    """An agent's answer is not a diagnosis."""


class SandboxError(DiagnoseBenchError):
    """The isolation itself failed."""


class SandboxUnavailableError(SandboxError):
    """No sandbox backend works on this machine."""


class SandboxPolicyError(SandboxError):
    """A mount or a path that the sandbox policy forbids."""


class SandboxEndedError(SandboxError):
    """What starts the commands was killed while one of them ran: the trial is over, and not by our fault."""


class RunError(DiagnoseBenchError):
    """The run directory is unusable."""


class RunFormatError(RunError):
    """The run directory was written in another format, or is damaged."""


class IncompleteRunError(RunError):
    """The run has unscored trials, so the question cannot be answered yet."""

    exit_code = 3


class SpendCapError(IncompleteRunError):
    """What model calls may cost is spent; the trials that are left stay pending."""
