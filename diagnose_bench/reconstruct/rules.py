"""Alerting rules that every cluster has, as the common monitoring bundle ships them (expressions shortened)."""

from __future__ import annotations

from typing import Any

from diagnose_bench.reconstruct.spec import Rule, RuleGroup, Specification

_CALLS = "traces_span_metrics_calls_total"


def _rule(alert: str, expr: str, wait: str, severity: str, summary: str, **labels: str) -> dict[str, Any]:
    return {
        "alert": alert,
        "expr": expr,
        "for": wait,
        "labels": {"severity": severity, **labels},
        "annotations": {"summary": summary},
    }


_STANDARD: list[dict[str, Any]] = [
    {
        "object": "monitoring/general-rules",
        "group": "general.rules",
        "rules": [
            _rule("Watchdog", "vector(1)", "0s", "none",
                  "An alert that should always be firing to certify that Alertmanager is working properly."),
            _rule("InfoInhibitor",
                  'ALERTS{severity="info",alertstate="firing"} == 1 unless on (namespace) '
                  'ALERTS{alertname!="InfoInhibitor",severity=~"warning|critical",alertstate="firing"} == 1',
                  "0s", "none", "Info-level alert inhibition."),
            _rule("TargetDown", "100 * (count by (job) (up == 0) / count by (job) (up)) > 10", "10m", "warning",
                  "One or more targets are unreachable."),
        ],
    },
    {
        "object": "monitoring/kubernetes-rules",
        "group": "kubernetes-apps",
        "rules": [
            _rule("KubePodCrashLooping",
                  'max_over_time(kube_pod_container_status_waiting_reason{reason="CrashLoopBackOff"}[5m]) >= 1',
                  "5m", "warning", "Pod {{ $labels.namespace }}/{{ $labels.pod }} is crash looping."),
            _rule("KubePodNotReady",
                  'min by (namespace, pod) (kube_pod_status_ready{condition="true"}) == 0',
                  "10m", "warning", "Pod {{ $labels.namespace }}/{{ $labels.pod }} has been in a non-ready state."),
            _rule("KubeDeploymentReplicasMismatch",
                  "kube_deployment_spec_replicas > kube_deployment_status_replicas_available",
                  "10m", "warning", "Deployment {{ $labels.namespace }}/{{ $labels.deployment }} has not matched "
                  "the expected number of replicas."),
            _rule("KubeHpaMaxedOut",
                  "kube_horizontalpodautoscaler_status_current_replicas "
                  "== kube_horizontalpodautoscaler_spec_max_replicas",
                  "15m", "warning", "HPA {{ $labels.namespace }}/{{ $labels.horizontalpodautoscaler }} is running "
                  "at max replicas."),
            _rule("KubeJobFailed", "kube_job_failed > 0", "15m", "warning",
                  "Job {{ $labels.namespace }}/{{ $labels.job_name }} failed to complete."),
            _rule("CPUThrottlingHigh",
                  "sum by (namespace, pod, container) (increase(container_cpu_cfs_throttled_periods_total[5m])) "
                  "/ sum by (namespace, pod, container) (increase(container_cpu_cfs_periods_total[5m])) > 0.25",
                  "15m", "info", "Processes experience elevated CPU throttling."),
        ],
    },
    {
        "object": "monitoring/kubernetes-rules",
        "group": "kubernetes-system",
        "rules": [
            _rule("KubeSchedulerDown", 'absent(up{job="kube-scheduler"} == 1)', "15m", "critical",
                  "KubeScheduler has disappeared from Prometheus target discovery."),
            _rule("KubeControllerManagerDown", 'absent(up{job="kube-controller-manager"} == 1)', "15m", "critical",
                  "KubeControllerManager has disappeared from Prometheus target discovery."),
            _rule("NodeHighLoad", "node_load1 > 14", "10m", "warning", "Load of {{ $labels.instance }} is high."),
            _rule("NodeFilesystemAlmostOutOfSpace", "node_filesystem_avail_bytes / node_filesystem_size_bytes * 100 < 15",
                  "30m", "warning", "Filesystem on {{ $labels.instance }} at {{ $labels.mountpoint }} has less than "
                  "15% space left."),
        ],
    },
    {
        "object": "monitoring/certificates-rules",
        "group": "cert-manager",
        "rules": [
            _rule("CertManagerCertExpirySoon",
                  "certmanager_certificate_expiration_timestamp_seconds - time() < 1814400", "1h", "warning",
                  "The cert {{ $labels.name }} is less than 21 days from expiry."),
        ],
    },
    {
        "object": "monitoring/service-rules",
        "group": "service-slo",
        "rules": [
            _rule("ServiceHighErrorRatio",
                  f'sum by (namespace, service_name) (rate({_CALLS}{{span_kind="SPAN_KIND_SERVER",'
                  f'status_code="STATUS_CODE_ERROR"}}[5m])) / sum by (namespace, service_name) '
                  f'(rate({_CALLS}{{span_kind="SPAN_KIND_SERVER"}}[5m])) > 0.05',
                  "2m", "critical",
                  "More than 5% of requests of {{ $labels.namespace }}/{{ $labels.service_name }} fail."),
            _rule("ServiceHighLatency",
                  "histogram_quantile(0.95, sum by (namespace, service_name, le) "
                  "(rate(traces_span_metrics_duration_milliseconds_bucket[5m]))) > 2000",
                  "5m", "warning", "95th percentile of {{ $labels.namespace }}/{{ $labels.service_name }} is above 2 s."),
        ],
    },
]  # fmt: skip


def rule_groups(spec: Specification) -> list[RuleGroup]:
    """Standard groups without the rules that the scenario leaves out, then the scenario's own."""
    groups = []
    for raw in _STANDARD:
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
