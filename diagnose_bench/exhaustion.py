"""Whether an error says that its user has no process, descriptor or buffer left. Changes nothing."""

from __future__ import annotations

import errno
import os

_NUMBERS = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS, errno.ENOBUFS)
_TEXTS = (*(os.strerror(number) for number in _NUMBERS), "can't start new thread")
_DEEPEST = 10


def is_exhaustion(error: BaseException) -> bool:
    """Whether an error, or one that it came from, is about what all processes of a user share."""
    cause: BaseException | None = error
    for _ in range(_DEEPEST):
        if cause is None:
            return False
        if isinstance(cause, OSError) and cause.errno in _NUMBERS:
            return True
        if any(text in str(cause) for text in _TEXTS):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
