"""From a backend's name to an open sandbox. The only place that chooses; it never falls back in silence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from diagnose_bench.errors import SandboxPolicyError, UsageError
from diagnose_bench.sandbox import messages, policy
from diagnose_bench.sandbox.base import Sandbox
from diagnose_bench.sandbox.bubblewrap import BubblewrapSandbox
from diagnose_bench.sandbox.container import ENGINES, ContainerSandbox
from diagnose_bench.sandbox.extras import NO_EXTRAS, Extras
from diagnose_bench.sandbox.landlock import LandlockSandbox
from diagnose_bench.sandbox.leftovers import remove_claimed
from diagnose_bench.sandbox.limits import Limits
from diagnose_bench.sandbox.none import UnsandboxedShell
from diagnose_bench.sandbox.store import SnapshotStore, private_folder
from diagnose_bench.sandbox.user import dropped_id

BACKENDS = ("auto", "bwrap", "landlock", "landlock-bare", "docker:IMAGE", "podman:IMAGE", "none")
"""What can be asked for. ``landlock-bare`` forgoes a file tree of its own, as where it is forbidden."""


def open_sandbox(
    backend: str,
    snapshot: Path,
    *,
    scratch: Path | None = None,
    limits: Limits | None = None,
    forbidden: Sequence[Path] = (),
    extras: Extras = NO_EXTRAS,
    warn: bool = True,
) -> Sandbox:
    """Open a sandbox over one snapshot, for one trial.

    Parameters
    ----------
    backend : str
        ``bwrap``, ``landlock``, ``docker:IMAGE``, ``podman:IMAGE``, ``none`` (no isolation: has to be spelled
        out), or ``auto``: what ``self_check.choose`` finds.
    snapshot : Path
        The folder that becomes /snapshot. Its path can be read inside: give a copy from ``SnapshotStore``.
    scratch : Path or None
        The folder that becomes /scratch, made if it does not exist, and it stays; None makes one that goes
        away with the sandbox.
    limits : Limits or None
        None takes the defaults.
    forbidden : sequence of Path
        Truths, runs and whatever else must not be visible, beside the project's own folders.
    extras : Extras
        Toolbox, decoys, observer.
    warn : bool
        Whether ``none`` says on stderr what it is; False where that was said already.

    Raises
    ------
    SandboxUnavailableError
        The backend does not work here; the message says what to type.
    SandboxPolicyError
        Something that must not be visible would be.
    """
    if backend == "auto":
        # Late: the choice opens sandboxes itself.
        from diagnose_bench.sandbox.self_check import choose

        chosen = choose(limits=limits, forbidden=forbidden, thorough=False)
        if chosen.note:
            print(chosen.note, file=sys.stderr)
        backend = chosen.backend
    make = _maker(backend)
    uid = None
    if backend != "none":
        uid = dropped_id()
    elif warn:
        print(messages.WITHOUT_SANDBOX, file=sys.stderr)
    own = scratch is None
    home = private_folder(uid=uid) if scratch is None else _made(scratch)
    try:
        return make(
            snapshot, home, limits=limits or Limits(), forbidden=forbidden, own_scratch=own, extras=extras
        )
    except BaseException:
        if own:
            remove_claimed(home)
        raise


def is_known(backend: str) -> bool:
    """Whether a name can stand after ``--sandbox``."""
    engine, colon, image = backend.partition(":")
    return (engine in ENGINES and bool(image)) if colon else backend in BACKENDS


def _maker(backend: str) -> Callable[..., Sandbox]:
    if not is_known(backend):
        raise UsageError(f"--sandbox {backend}: unknown. Known are {', '.join(BACKENDS)}.")
    engine, _, image = backend.partition(":")
    if image:
        return partial(ContainerSandbox, engine, image)
    makers: dict[str, Callable[..., Sandbox]] = {
        "bwrap": BubblewrapSandbox,
        "landlock": LandlockSandbox,
        "landlock-bare": partial(LandlockSandbox, may_map=False),
        "none": UnsandboxedShell,
    }
    return makers[backend]


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxPolicyError(
            f"{folder}: cannot be the scratch folder: it cannot be made: {policy.refusal(folder, error)}."
        ) from error
    return folder


@contextmanager
def open_shell(
    snapshot: Path,
    *,
    backend: str = "auto",
    scratch: Path | None = None,
    limits: Limits | None = None,
    unchecked: bool = False,
    digest: str | None = None,
    forbidden: Sequence[Path] = (),
    extras: Extras = NO_EXTRAS,
) -> Iterator[Sandbox]:
    """The sandbox that an agent gets, over a copy of one snapshot, for a person.

    Parameters
    ----------
    snapshot : Path
        Any folder.
    unchecked : bool
        Take a folder that no snapshot could be: devices, pipes and sockets in it are left out.
    digest : str or None
        Digest of the snapshot's manifest, to hold the copy against.

    Notes
    -----
    The other parameters are those of ``open_sandbox``.
    """
    source = policy.check_source(snapshot, forbidden)
    uid = None if backend == "none" else dropped_id()
    with (
        SnapshotStore(uid=uid) as store,
        open_sandbox(
            backend,
            store.stage(source, digest, unchecked=unchecked),
            scratch=scratch,
            limits=limits,
            forbidden=forbidden,
            extras=extras,
        ) as sandbox,
    ):
        yield sandbox
