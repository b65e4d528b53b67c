from __future__ import annotations

from diagnose_bench.ground_truth import Decoy, Evidence, GroundTruth, Group, Propagation
from diagnose_bench.truth_terms import truth_only_strings

TRUTH = GroundTruth(
    format="native",
    scenario_id="scenario-017",
    title="CoreDNS runs out of memory",
    groups=(
        Group(id="coredns-config-map", entities=("kube-system/ConfigMap/coredns",), root_cause=True),
        Group(id="aggregation", entities=("shop/Deployment/aggregation",)),
        Group(id="kube-system", kind="Pod", names=("frontend-proxy",), namespace="shop"),
        Group(id="Frontend-Proxy", kind="Pod", filters=("frontend-.*",)),
    ),
    aliases=(("coredns-config-map", "aggregation"),),
    alias_reasons=("the limit stands in either",),
    propagation=(Propagation("coredns-config-map", "aggregation", "lookups time out", "a retry storm"),),
    decoys=(Decoy("shop/Deployment/recommendation", "restarted an hour before"),),
    evidence=(Evidence("aggregation", "events.jsonl", "reason=OOMKilled", "the kills of 10:31"),),
    remediation={"actions": [{"patch": "spec.template.spec", "text": "raise the memory limit"}]},
    family="dns-capacity",
    sources=({"url": "https://example.org/postmortem", "date": "2024-05-01", "title": "A bad day"},),
    provenance={"labelled_by": "suite maintainer", "confidence": 0.9, "notes": "second reading"},
    canary="diagnose-bench:0f1e2d3c",
)


def test_all_that_only_the_truth_knows_is_listed_once_and_in_order() -> None:
    assert truth_only_strings(TRUTH) == (
        "diagnose-bench:0f1e2d3c",
        "CoreDNS runs out of memory",
        "dns-capacity",
        "coredns-config-map",
        "the limit stands in either",
        "lookups time out",
        "a retry storm",
        "restarted an hour before",
        "the kills of 10:31",
        "https://example.org/postmortem",
        "A bad day",
        "suite maintainer",
        "second reading",
        "raise the memory limit",
    )


def test_eight_characters_are_too_few_and_nine_are_enough() -> None:
    def with_title(title: str) -> GroundTruth:
        return GroundTruth(format="native", scenario_id="scenario-001", groups=(), title=title)

    assert truth_only_strings(with_title("12345678")) == ()
    assert truth_only_strings(with_title("  12345678\n")) == ()
    assert truth_only_strings(with_title("123456789")) == ("123456789",)


def test_id_of_an_exact_object_is_its_entity_and_no_secret() -> None:
    group = Group(id="shop/Deployment/cart", entities=("shop/Deployment/cart",), root_cause=True)
    assert (
        truth_only_strings(GroundTruth(format="itbench-v2", scenario_id="scenario-001", groups=(group,)))
        == ()
    )
