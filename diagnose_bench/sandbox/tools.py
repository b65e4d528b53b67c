"""The programs that a shell promises, and what this machine has of them. Asks inside the sandbox only."""

from __future__ import annotations

from dataclasses import dataclass

from diagnose_bench.errors import SandboxUnavailableError
from diagnose_bench.files import canonical_json, sha256_of_bytes
from diagnose_bench.sandbox import messages
from diagnose_bench.sandbox.base import Sandbox

# name in the record: the program that shows it is there, and what prints its version
PUBLISHED_TOOLS: dict[str, tuple[str, str]] = {
    "bash": ("bash", "bash --version"),
    "coreutils": ("sort", "sort --version"),
    "find": ("find", "find --version"),
    "grep": ("grep", "grep --version"),
    "sed": ("sed", "sed --version"),
    "awk": ("awk", "awk --version || awk -W version"),
    "python3": ("python3", "python3 --version"),
    "jq": ("jq", "jq --version"),
    "sqlite3": ("sqlite3", "sqlite3 --version"),
    "less": ("less", "less --version"),
    "diff": ("diff", "diff --version"),
    "column": ("column", "column --version"),
    "tar": ("tar", "tar --version"),
    "gzip": ("gzip", "gzip --version"),
    "zstd": ("zstd", "zstd --version"),
}
ESSENTIAL_TOOLS = ("bash", "coreutils", "find", "grep", "sed", "awk", "python3")
EXPECTED_TOOLS = ("jq", "sqlite3")


@dataclass(frozen=True, slots=True)
class ToolReport:
    """What the shell has.

    Attributes
    ----------
    versions : dict
        Tool to the first line of its version; None where it is missing.
    digest : str
        Of the versions: two runs with the same digest had the same tools.
    warnings : tuple of str
        For the tools that are expected and missing.
    """

    versions: dict[str, str | None]
    digest: str
    warnings: tuple[str, ...]


def probe_tools(sandbox: Sandbox) -> ToolReport:
    """Names and versions of the published tools.

    Raises
    ------
    SandboxUnavailableError
        An essential tool is missing.
    """
    lines = []
    for name, (program, version) in PUBLISHED_TOOLS.items():
        asked = f"{{ {version}; }} 2>/dev/null </dev/null | head -n 1"
        lines.append(f'type -P {program} >/dev/null && printf "%s\\t%s\\n" {name} "$({asked})"')
    versions: dict[str, str | None] = dict.fromkeys(PUBLISHED_TOOLS)
    for line in sandbox.run("\n".join([*lines, "true"])).text.splitlines():
        name, separator, version = line.partition("\t")
        if separator and name in versions:
            versions[name] = version.strip() or "present"
    missing = [name for name in ESSENTIAL_TOOLS if versions[name] is None]
    if missing == ["python3"]:
        raise SandboxUnavailableError(messages.NO_PYTHON)
    if missing:
        raise SandboxUnavailableError(
            f"No sandbox: the shell lacks {', '.join(missing)} (only what lies in /usr/bin and /bin counts). "
            "Install them from the system's packages."
        )
    warnings = tuple(
        f"{name} is not installed: agents will not have it. Install it from the system's packages."
        for name in EXPECTED_TOOLS
        if versions[name] is None
    )
    return ToolReport(versions, sha256_of_bytes(canonical_json(versions)), warnings)
