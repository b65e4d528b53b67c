"""Which errors say that a user has used everything up, and which are of another kind."""

from __future__ import annotations

import errno
import os

import pytest

from diagnose_bench.errors import SandboxError
from diagnose_bench.exhaustion import is_exhaustion

FULL = [errno.EAGAIN, errno.EMFILE, errno.ETOOMANYREFS, errno.ENOBUFS]


@pytest.mark.parametrize("number", FULL)
def test_an_error_of_the_kernel_is_known_by_its_number_its_words_and_as_a_cause(number: int) -> None:
    error = OSError(number, os.strerror(number))
    assert is_exhaustion(error)
    assert is_exhaustion(SandboxError(f"The shell could not be started: {os.strerror(number)}."))
    outer = SandboxError("The shell could not be started.")
    outer.__cause__ = error
    assert is_exhaustion(outer)


def test_a_thread_that_cannot_be_started_is_known() -> None:
    assert is_exhaustion(RuntimeError("can't start new thread"))


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), SandboxError("no"), RuntimeError("x")]
)
def test_another_error_is_none(error: Exception) -> None:
    assert not is_exhaustion(error)
