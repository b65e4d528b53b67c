"""Alerting rules of a scenario: the standard ones it keeps, then its own; and their PrometheusRule form."""

from __future__ import annotations

from typing import Any

from diagnose_bench.reconstruct.platform import standard
from diagnose_bench.reconstruct.spec import Rule, RuleGroup, Specification


def rule_groups(spec: Specification) -> list[RuleGroup]:
    """Standard groups without the rules that the scenario leaves out, then the scenario's own."""
    groups = []
    for raw in standard("rules"):
        kept = [rule for rule in raw["rules"] if rule["alert"] not in spec.omit_rules]
        if kept:
            groups.append(RuleGroup.model_validate({**raw, "rules": kept}))
    return [*groups, *spec.rules]


def rule_manifest_groups(groups: list[RuleGroup], name: str) -> list[dict[str, Any]]:
    """The ``spec.groups`` of one PrometheusRule object."""
    return [
        {"name": group.group, "rules": [_manifest(rule) for rule in group.rules]}
        for group in groups
        if group.object == name
    ]


def _manifest(rule: Rule) -> dict[str, Any]:
    entry: dict[str, Any] = {"alert": rule.alert, "annotations": rule.annotations, "expr": rule.expr}
    if rule.wait != "0s":
        entry["for"] = rule.wait
    entry["labels"] = rule.labels
    return entry
