"""The signature of a score: every setting that can change it, in one line. Reads no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnose_bench import __version__
from diagnose_bench.errors import UsageError
from diagnose_bench.outcome import IntervalMethod, Profile
from diagnose_bench.records import RunManifest, SandboxInfo

_DIGEST_SHOWN = 12
_N_RESAMPLES = 10_000
_SEED = 0


@dataclass(frozen=True)
class IntervalChoice:
    """How intervals are made; the last two matter, and are signed, only where something is drawn."""

    method: IntervalMethod = IntervalMethod.HALF_ATOM
    level: float = 0.95
    seed: int = _SEED
    n_resamples: int = _N_RESAMPLES

    @classmethod
    def of(cls, method: IntervalMethod | str, seed: int | None) -> IntervalChoice:
        """Check what was asked for.

        Raises
        ------
        UsageError
            The method is unknown, or a seed is given to one that draws nothing.
        """
        try:
            chosen = IntervalMethod(method)
        except ValueError:
            raise UsageError(
                f"There is no interval method {method!r}. There are: {', '.join(IntervalMethod)}."
            ) from None
        if seed is None:
            return cls(chosen)
        if chosen is not IntervalMethod.BOOTSTRAP:
            raise UsageError(f"--seed: the interval {chosen} draws nothing. Leave it out.")
        if seed < 0:
            raise UsageError(f"--seed: must be 0 or more, not {seed}.")
        return cls(chosen, seed=seed)

    @property
    def draws(self) -> bool:
        """Whether the ends depend on random numbers."""
        return self.method is IntervalMethod.BOOTSTRAP


def signature(
    manifest: RunManifest,
    *,
    truth_digest: str,
    patches_digest: str | None,
    profile: Profile,
    pass_score: float,
    scenario_ids: Sequence[str],
    subset: bool,
    excluded: Sequence[str],
    interval: IntervalChoice | None,
    resolver_version: int,
    scoring_version: int,
) -> str:
    """Write the signature of a run's score.

    Parameters
    ----------
    manifest : RunManifest
        Suite, policy and sandbox of the run.
    truth_digest, patches_digest : str or None
        What it was scored against.
    profile, pass_score
        How it was scored.
    scenario_ids : sequence of str
        The scenarios that count.
    subset : bool
        Whether the ids are part of the signature.
    excluded : sequence of str
        Scenarios taken out by hand; the field appears only where there are some.
    interval : IntervalChoice or None
        How its interval is made, None where there is none (one trial); resamples and seed are signed only
        where something is drawn.
    resolver_version, scoring_version : int
        Bumped whenever a number can change.
    """
    policy = manifest.policy
    scenarios = str(len(scenario_ids)) + (f"({','.join(scenario_ids)})" if subset else "")
    fields = {
        "suite": f"{manifest.suite.name}@{_digest(manifest.suite.digest)}",
        "truth": _digest(truth_digest),
        "patches": _digest(patches_digest),
        "profile": profile.value,
        "scenarios": scenarios,
        **({"exclude": ",".join(excluded)} if excluded else {}),
        "repeats": str(policy.repeats),
        "turns": _number(policy.max_turns),
        "time": _number(policy.time_limit_s),
        "forced_final": str(int(policy.forced_final)),
        "task": _digest(policy.task_digest),
        "pass": repr(float(pass_score)),
        "repair": str(int(policy.repair)),
        "sandbox": sandbox_label(manifest.sandbox),
        **({"toolbox": _digest(manifest.sandbox.toolbox)} if manifest.sandbox.toolbox else {}),
        **_interval_fields(interval),
        "resolver": str(resolver_version),
        "scoring": str(scoring_version),
        "version": __version__,
    }
    return "|".join(f"{name}:{_clean(value)}" for name, value in fields.items())


def parse_signature(line: str) -> dict[str, str]:
    """Split a signature into its fields, in their order."""
    return dict(field.partition(":")[::2] for field in line.split("|"))


def sandbox_label(sandbox: SandboxInfo) -> str:
    """Backend, or ``-`` where no shell exists, and what was not as usual.

    ``+null`` where the snapshot was empty, ``+unconfined`` where the agent's own process was free.
    """
    label = sandbox.backend or "-"
    if sandbox.null_snapshot:
        label += "+null"
    return f"{label}+unconfined" if sandbox.agent_process == "unconfined" else label


def _interval_fields(choice: IntervalChoice | None) -> dict[str, str]:
    if choice is None:
        return {"interval": "-"}
    drawn = {"bs": str(choice.n_resamples), "seed": str(choice.seed)} if choice.draws else {}
    return {"interval": choice.method.value, **drawn}


def _digest(digest: str | None) -> str:
    return digest[:_DIGEST_SHOWN] if digest else "-"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _clean(value: str) -> str:
    # A name must not be able to look like another field.
    return "".join(
        "?" if character == "|" or not character.isprintable() else character for character in value
    )
