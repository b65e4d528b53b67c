"""Put the bundled suite into a built wheel, and only there.

An editable install reads the checkout; a copy made at install time would go stale in silence.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundledSuiteHook(BuildHookInterface):  # type: ignore[type-arg]
    """Map the top-level data folders into the package's ``_data``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the data to a standard wheel; leave an editable one alone."""
        if version == "standard":
            build_data["force_include"]["snapshots"] = "diagnose_bench/_data/snapshots"
            build_data["force_include"]["ground_truth"] = "diagnose_bench/_data/ground_truth"
