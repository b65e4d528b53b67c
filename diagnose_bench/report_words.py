"""Words of reports that need saying once: what a class and a rule mean. Renders nothing."""

from __future__ import annotations

CLASS_MEANINGS = {
    "root_cause": "a root cause, named for the first time",
    "duplicate": "a root cause that was named already; counts neither way",
    "victim": "suffers from the incident, but did not cause it; hops = steps from the nearest root cause",
    "decoy": "looks guilty and is not",
    "unrelated": "exists, and has nothing to do with the incident",
    "unknown": "does not exist in the snapshot",
    "ambiguous": "a name that several objects have",
    "unparseable": "no name of an object",
}
"""Classes of a submitted entity, for a legend."""
RULE_MEANINGS = {
    "exact": "kind, namespace and name agree",
    "filter": "the truth's pattern matches the whole name",
    "owner": "the owner chain in the snapshot leads there",
    "form": "the name has the form of that workload's Pods or ReplicaSets",
    "spawned": "a chaos Schedule and the object it made",
}
"""Rules by which a name was found, for a legend."""
