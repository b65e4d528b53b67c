"""Kinds of Kubernetes objects: canonical names, plurals, short names, API groups and scope.

Knows the built-in kinds, and the custom ones that an inventory or a truth adds. Nothing about single objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

WORKLOAD_KINDS = frozenset({"Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"})
CHAOS_GROUP = "chaos-mesh.org"

# Kind | kubectl short names | API group, then older groups of the very same objects | C for cluster-scoped.
# The core and apps groups are both written as "-": an entity of theirs has the group ''.
_TABLE = """
Pod|po|-|
ReplicaSet|rs|- extensions|
Deployment|deploy|- extensions|
StatefulSet|sts|-|
DaemonSet|ds|- extensions|
ControllerRevision||-|
ReplicationController|rc|-|
Job||batch|
CronJob|cj|batch|
Service|svc|-|
Endpoints|ep|-|
ConfigMap|cm|-|
Secret||-|
ServiceAccount|sa|-|
PersistentVolumeClaim|pvc|-|
LimitRange|limits|-|
ResourceQuota|quota|-|
PodTemplate||-|
Event|ev|- events.k8s.io|
Node|no|-|C
Namespace|ns|-|C
PersistentVolume|pv|-|C
ComponentStatus|cs|-|C
HorizontalPodAutoscaler|hpa|autoscaling|
PodDisruptionBudget|pdb|policy|
PodSecurityPolicy|psp|policy extensions|C
Ingress|ing|networking.k8s.io extensions|
NetworkPolicy|netpol|networking.k8s.io extensions|
IngressClass||networking.k8s.io|C
EndpointSlice||discovery.k8s.io|
Lease||coordination.k8s.io|
Role||rbac.authorization.k8s.io|
RoleBinding||rbac.authorization.k8s.io|
ClusterRole||rbac.authorization.k8s.io|C
ClusterRoleBinding||rbac.authorization.k8s.io|C
StorageClass|sc|storage.k8s.io|C
CSIDriver||storage.k8s.io|C
CSINode||storage.k8s.io|C
CSIStorageCapacity||storage.k8s.io|
VolumeAttachment||storage.k8s.io|C
PriorityClass|pc|scheduling.k8s.io|C
RuntimeClass||node.k8s.io|C
CustomResourceDefinition|crd crds|apiextensions.k8s.io|C
APIService||apiregistration.k8s.io|C
MutatingWebhookConfiguration||admissionregistration.k8s.io|C
ValidatingWebhookConfiguration||admissionregistration.k8s.io|C
ValidatingAdmissionPolicy||admissionregistration.k8s.io|C
ValidatingAdmissionPolicyBinding||admissionregistration.k8s.io|C
FlowSchema||flowcontrol.apiserver.k8s.io|C
PriorityLevelConfiguration||flowcontrol.apiserver.k8s.io|C
CertificateSigningRequest|csr|certificates.k8s.io|C
Schedule||chaos-mesh.org|
Workflow|wf|chaos-mesh.org|
PodChaos||chaos-mesh.org|
NetworkChaos||chaos-mesh.org|
StressChaos||chaos-mesh.org|
IOChaos||chaos-mesh.org|
HTTPChaos||chaos-mesh.org|
JVMChaos||chaos-mesh.org|
TimeChaos||chaos-mesh.org|
DNSChaos||chaos-mesh.org|
KernelChaos||chaos-mesh.org|
BlockChaos||chaos-mesh.org|
AWSChaos||chaos-mesh.org|
GCPChaos||chaos-mesh.org|
AzureChaos||chaos-mesh.org|
PhysicalMachineChaos||chaos-mesh.org|
"""

VERSION = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")


@dataclass(frozen=True, slots=True)
class CustomKind:
    """A kind that the built-in table lacks, as an object or its definition shows it."""

    kind: str
    group: str
    tokens: tuple[str, ...] = ()
    """Other names that are accepted: plural, singular, short names."""
    cluster_scoped: bool = False


@dataclass(frozen=True, slots=True)
class KindName:
    """What a written kind means; ``group`` is None where the text does not say it."""

    kind: str
    group: str | None
    known: bool


def plurals(kind: str) -> tuple[str, ...]:
    """Lower-case plural forms of a kind, as Kubernetes makes them.

    Examples
    --------
    >>> plurals("NetworkPolicy"), plurals("Ingress"), plurals("Endpoints")
    (('networkpolicies',), ('ingresses',), ('endpoints',))
    """
    low = kind.lower()
    if low == "endpoints":
        return (low,)
    if low.endswith("chaos"):  # chaos-mesh does not inflect its kinds
        return (low, f"{low}es")
    if low.endswith("y") and low[-2:-1] not in "aeiou":
        return (f"{low[:-1]}ies",)
    if low.endswith(("s", "x", "ch", "sh")):
        return (f"{low}es",)
    return (f"{low}s",)


class KindTable:
    """Looks up a kind as people write it: any case, singular, plural, short name, with or without a group."""

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[str, str | None]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._cluster_scoped: set[tuple[str, str]] = set()

    def lookup(self, text: str) -> KindName:
        """Canonical kind of ``text``; an unknown one comes back as it was written, ``known`` false.

        ``Kind.group``, ``plural.group`` and kubectl's ``plural.version.group`` are read too. Look-alike
        letters are unknown: only ASCII is folded.
        """
        token, dot, group_text = text.partition(".")
        version, _, rest = group_text.partition(".")
        if rest and VERSION.fullmatch(version):
            group_text = rest
        group = group_text.lower() if dot and group_text.isascii() else (group_text if dot else None)
        found = self._tokens.get(token.lower()) if token.isascii() else None
        if found is None:
            return KindName(token, group, False)
        kind, implied = found
        if group is None:
            group = implied
        return KindName(kind, None if group is None else self.canonical_group(kind, group), True)

    def default_group(self, kind: str) -> str:
        """Group of a built-in kind that is written without one; '' for core, apps and unknown kinds."""
        groups = self._groups.get(kind)
        return groups[0] if groups else ""

    def needs_no_group(self, kind: str) -> bool:
        """Whether the kind belongs to the core or apps group."""
        return self._groups.get(kind, ("?",))[0] == ""

    def is_builtin(self, kind: str) -> bool:
        """Whether the table has a default group for the kind."""
        return kind in self._groups

    def canonical_group(self, kind: str, group: str) -> str:
        """The group as an entity carries it: '' for apps, today's group for one that held the kind before."""
        groups = self._groups.get(kind, ())
        if group in ("", "apps", "core") and (not groups or groups[0] == ""):
            return ""
        return groups[0] if group in groups or (groups and not group) else group

    def is_cluster_scoped(self, kind: str, group: str | None) -> bool:
        """Whether objects of the kind have no namespace; without a group, those of the kind's own group."""
        if group is None and not self.is_builtin(kind):
            return any(kind == name for name, _ in self._cluster_scoped)
        return (kind, self.default_group(kind) if group is None else group) in self._cluster_scoped

    def extended(self, customs: Iterable[CustomKind]) -> KindTable:
        """A table that knows these kinds too; a built-in name keeps its meaning."""
        table = KindTable()
        table._tokens = dict(self._tokens)
        table._groups = self._groups
        table._cluster_scoped = set(self._cluster_scoped)
        shared: dict[str, set[tuple[str, str | None]]] = {}
        for custom in customs:
            if custom.cluster_scoped:
                table._cluster_scoped.add((custom.kind, custom.group))
            for token in (custom.kind.lower(), *plurals(custom.kind)):
                shared.setdefault(token, set()).add((custom.kind, None))
            for token in custom.tokens:
                # A plural or a short name belongs to one definition, so it says the group as well.
                shared.setdefault(token.lower(), set()).add((custom.kind, custom.group))
        for token, meanings in shared.items():
            if token in table._tokens:
                continue
            kinds = sorted({kind for kind, _ in meanings})
            groups = {group for _, group in meanings}
            table._tokens[token] = (kinds[0], groups.pop() if len(groups) == 1 else None)
        return table


def _rows() -> Iterable[tuple[str, tuple[str, ...], tuple[str, ...], bool]]:
    for line in _TABLE.strip().splitlines():
        kind, short, groups, scope = line.split("|")
        yield (
            kind,
            tuple(short.split()),
            tuple("" if name == "-" else name for name in groups.split()),
            scope == "C",
        )


def _built_in_table() -> KindTable:
    table = KindTable()
    for kind, short, groups, cluster_scoped in _rows():
        table._groups[kind] = groups
        if cluster_scoped:
            table._cluster_scoped.add((kind, groups[0]))
        for token in (kind.lower(), *plurals(kind), *short):
            table._tokens.setdefault(token, (kind, None))
    return table


BUILTIN_KINDS = _built_in_table()
CLUSTER_SCOPED_KINDS = frozenset(kind for kind, _, _, cluster_scoped in _rows() if cluster_scoped)
CHAOS_KINDS = frozenset(
    kind for kind, _, groups, _ in _rows() if groups[0] == CHAOS_GROUP and kind != "Schedule"
)
