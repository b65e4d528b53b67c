"""Fixtures of all tests: where the real public data lie, and one hypothesis profile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# A shell starts jobs in the background, and nohup starts them, with these signals ignored, and what this
# process starts would inherit that. A handler is not inherited, and it too lets the signal pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda number, frame: None)

CHECKOUT = Path(__file__).resolve().parent.parent

# No time assertions anywhere: the machine that runs the tests may be slow or shared.
# The examples are the same on every machine; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("fixed", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real public data: ``../shared`` beside the checkout, or DIAGNOSE_BENCH_SHARED.

    The data are not part of the project, so a machine may lack them; in CI (``CI=true``) that is a failure.
    """
    folder = Path(os.environ.get("DIAGNOSE_BENCH_SHARED") or CHECKOUT.parent / "shared")
    if not folder.is_dir():
        reason = f"the real public data are not at {folder}; set DIAGNOSE_BENCH_SHARED to their folder"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
