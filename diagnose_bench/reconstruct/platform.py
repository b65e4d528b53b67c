"""What every cluster has: standard workloads and what they say when nothing happens.

A specification picks from these and overrides fields; nothing here belongs to any one incident.
"""

from __future__ import annotations

from typing import Any

from diagnose_bench.errors import SuiteError
from diagnose_bench.reconstruct.spec import Cluster, Workload

_SYSTEM: dict[str, Any] = {"namespace": "kube-system", "service": False, "days_ago": 210}
_MONITORING: dict[str, Any] = {"namespace": "monitoring", "days_ago": 160}

_STANDARD: dict[str, dict[str, Any]] = {
    "coredns": _SYSTEM | {
        "replicas": 2, "image": "registry.k8s.io/coredns/coredns:v1.10.1", "port": 53, "service": True,
        "args": ["-conf", "/etc/coredns/Corefile"], "config_maps": ["coredns"],
        "labels": {"k8s-app": "kube-dns"}, "priority_class": "system-cluster-critical",
        "requests": {"cpu": "100m", "memory": "70Mi"}, "limits": {"memory": "170Mi"},
        "memory": {"base": 34, "per_rps": 0.012}, "cpu": {"base": 0.01, "per_rps": 0.00006},
        "ready_after_s": 3, "voice": "coredns", "probe": {"path": "/ready", "port": 8181},
    },
    "kube-proxy": _SYSTEM | {
        "kind": "DaemonSet", "image": "registry.k8s.io/kube-proxy:v1.27.8", "host_network": True,
        "command": ["/usr/local/bin/kube-proxy"], "args": ["--config=/var/lib/kube-proxy/config.conf"],
        "config_maps": ["kube-proxy"], "labels": {"k8s-app": "kube-proxy"},
        "priority_class": "system-node-critical", "memory": {"base": 31}, "voice": "klog",
    },
    "metrics-server": _SYSTEM | {
        "image": "registry.k8s.io/metrics-server/metrics-server:v0.6.4", "port": 10250, "service": True,
        "args": ["--metric-resolution=15s"], "requests": {"cpu": "100m", "memory": "200Mi"},
        "limits": {"memory": "400Mi"}, "labels": {"k8s-app": "metrics-server"}, "memory": {"base": 61},
        "probe": {"path": "/readyz", "port": "https"}, "voice": "klog",
    },
    "node-problem-detector": _SYSTEM | {
        "kind": "DaemonSet", "image": "registry.k8s.io/node-problem-detector/node-problem-detector:v0.8.14",
        "requests": {"cpu": "10m", "memory": "80Mi"}, "limits": {"cpu": "10m", "memory": "80Mi"},
        "memory": {"base": 28}, "cpu": {"base": 0.004}, "voice": "klog",
    },
    "kube-apiserver": _SYSTEM | {
        "kind": "Static", "image": "registry.k8s.io/kube-apiserver:v1.27.8", "port": 6443,
        "requests": {"cpu": "250m"}, "labels": {"component": "kube-apiserver", "tier": "control-plane"},
        "priority_class": "system-node-critical", "memory": {"base": 1450, "noise": 0.004},
        "cpu": {"base": 0.62}, "command": ["kube-apiserver"], "voice": "klog",
        "probe": {"path": "/readyz", "port": 6443, "timeout_s": 15},
    },
    "kube-controller-manager": _SYSTEM | {
        "kind": "Static", "image": "registry.k8s.io/kube-controller-manager:v1.27.8",
        "requests": {"cpu": "200m"}, "labels": {"component": "kube-controller-manager", "tier": "control-plane"},
        "priority_class": "system-node-critical", "memory": {"base": 118}, "command": ["kube-controller-manager"],
        "voice": "klog",
    },
    "kube-scheduler": _SYSTEM | {
        "kind": "Static", "image": "registry.k8s.io/kube-scheduler:v1.27.8", "requests": {"cpu": "100m"},
        "labels": {"component": "kube-scheduler", "tier": "control-plane"},
        "priority_class": "system-node-critical", "memory": {"base": 44}, "command": ["kube-scheduler"],
        "voice": "klog",
    },
    "etcd": _SYSTEM | {
        "kind": "Static", "image": "registry.k8s.io/etcd:3.5.9-0", "requests": {"cpu": "100m", "memory": "100Mi"},
        "labels": {"component": "etcd", "tier": "control-plane"}, "priority_class": "system-node-critical",
        "memory": {"base": 410}, "cpu": {"base": 0.12}, "command": ["etcd"], "voice": "klog",
    },
    "prometheus": _MONITORING | {
        "kind": "StatefulSet", "replicas": 1, "image": "quay.io/prometheus/prometheus:v2.48.1", "port": 9090,
        "args": ["--storage.tsdb.retention.time=15d", "--web.enable-lifecycle"],
        "requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "6Gi"},
        "memory": {"base": 2790}, "cpu": {"base": 0.41}, "config_maps": ["prometheus-config"],
        "probe": {"path": "/-/ready"}, "voice": "logfmt-quiet",
    },
    "alertmanager": _MONITORING | {
        "kind": "StatefulSet", "replicas": 1, "image": "quay.io/prometheus/alertmanager:v0.26.0", "port": 9093,
        "requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}, "memory": {"base": 38},
        "secrets": ["alertmanager-config"], "probe": {"path": "/-/ready"}, "voice": "logfmt-quiet",
    },
    "kube-state-metrics": _MONITORING | {
        "image": "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.10.1", "port": 8080,
        "requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}, "memory": {"base": 74},
        "voice": "klog",
    },
    "node-exporter": _MONITORING | {
        "kind": "DaemonSet", "image": "quay.io/prometheus/node-exporter:v1.7.0", "port": 9100, "service": False,
        "requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"},
        "host_network": True, "memory": {"base": 21}, "cpu": {"base": 0.02, "throttled": 0.29}, "voice": "logfmt-quiet",
    },
    "blackbox-exporter": _MONITORING | {
        "image": "quay.io/prometheus/blackbox-exporter:v0.24.0", "port": 9115,
        "requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}, "memory": {"base": 19},
        "voice": "logfmt-quiet",
    },
    "grafana": _MONITORING | {
        "image": "docker.io/grafana/grafana:10.2.3", "port": 3000, "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "512Mi"}, "memory": {"base": 143}, "probe": {"path": "/api/health"},
        "voice": "logfmt-quiet", "days_ago": 90,
    },
    "otel-collector": {
        "namespace": "observability", "replicas": 1, "port": 4317, "days_ago": 75,
        "image": "docker.io/otel/opentelemetry-collector-contrib:0.91.0", "config_maps": ["otel-collector"],
        "args": ["--config=/conf/relay.yaml"], "requests": {"cpu": "200m", "memory": "400Mi"},
        "limits": {"memory": "1Gi"}, "memory": {"base": 316}, "cpu": {"base": 0.16}, "voice": "logfmt-quiet",
    },
    "vector": {
        "namespace": "observability", "kind": "DaemonSet", "image": "docker.io/timberio/vector:0.34.1-alpine",
        "service": False, "config_maps": ["vector"], "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"memory": "256Mi"}, "memory": {"base": 61}, "voice": "logfmt-quiet", "days_ago": 75,
    },
    "cert-manager": {
        "namespace": "cert-manager", "image": "quay.io/jetstack/cert-manager-controller:v1.13.3", "port": 9402,
        "args": ["--v=2", "--leader-election-namespace=kube-system"], "days_ago": 120,
        "requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "192Mi"}, "memory": {"base": 52},
        "voice": "klog",
    },
    "argocd-application-controller": {
        "namespace": "argocd", "kind": "StatefulSet", "replicas": 1, "image": "quay.io/argoproj/argocd:v2.9.3",
        "service": False, "days_ago": 130, "requests": {"cpu": "250m", "memory": "512Mi"},
        "limits": {"memory": "2Gi"}, "memory": {"base": 721}, "cpu": {"base": 0.18}, "voice": "logfmt-quiet",
    },
    "etcd-backup": _SYSTEM | {
        "kind": "CronJob", "schedule": "*/30 * * * *", "image": "registry.k8s.io/etcd:3.5.9-0",
        "command": ["/bin/sh", "-c", "etcdctl snapshot save /backup/snap-$(date +%s).db"], "nodes": "control-plane",
        "memory": {"base": 18}, "voice": "klog",
    },
    "ingress-nginx-controller": {
        "namespace": "ingress-nginx", "replicas": 2, "port": 443, "days_ago": 140,
        "image": "registry.k8s.io/ingress-nginx/controller:v1.9.5", "container": "controller",
        "args": ["/nginx-ingress-controller", "--election-id=ingress-nginx-leader",
                 "--controller-class=k8s.io/ingress-nginx", "--configmap=$(POD_NAMESPACE)/ingress-nginx-controller"],
        "config_maps": ["ingress-nginx-controller"], "requests": {"cpu": "200m", "memory": "256Mi"},
        "limits": {"memory": "768Mi"}, "memory": {"base": 204, "per_rps": 0.1},
        "cpu": {"base": 0.05, "per_rps": 0.0009}, "probe": {"path": "/healthz", "port": 10254},
        "voice": "nginx-ingress", "min_available": 1,
    },
}  # fmt: skip

CHATTER: dict[str, tuple[float, list[str]]] = {
    "kube-system/kube-proxy": (420, [
        'I{mmdd} {clock}       1 proxier.go:853] "Syncing iptables rules" ipFamily=IPv4',
        'I{mmdd} {clock}       1 proxier.go:1546] "Reloading service iptables data" numServices={int:40:60} numEndpoints={int:90:140} numFilterChains=4 numNATChains={int:180:240}',
        'I{mmdd} {clock}       1 proxier.go:827] "SyncProxyRules complete" elapsed="{int:38:140}.{int:100:999}ms"',
    ]),
    "kube-system/metrics-server": (900, [
        'I{mmdd} {clock}       1 server.go:187] "Failed probe" probe="metric-storage-ready" err="no metrics to serve"',
        'I{mmdd} {clock}       1 serving.go:374] Generated self-signed cert (/tmp/apiserver.crt, /tmp/apiserver.key)',
    ]),
    "monitoring/prometheus": (150, [
        'ts={iso}Z caller=compact.go:523 level=info component=tsdb msg="write block" mint={int:1700000000000:1709999999999} maxt={int:1700000000000:1709999999999} duration={int:1:9}.{int:100:999}s',
        'ts={iso}Z caller=head.go:1298 level=info component=tsdb msg="Head GC completed" caller=truncateMemory duration={int:20:90}.{int:100:999}ms',
        'ts={iso}Z caller=checkpoint.go:100 level=info component=tsdb msg="Creating checkpoint" from_segment={int:1200:1300} to_segment={int:1301:1390}',
        'ts={iso}Z caller=scrape.go:1741 level=warn component="scrape manager" scrape_pool=serviceMonitor/monitoring/kubelet/1 msg="Error on ingesting out-of-order samples" num_dropped={int:1:14}',
    ]),
    "monitoring/alertmanager": (300, [
        'ts={iso}Z caller=nflog.go:533 level=debug component=nflog msg="Running maintenance"',
        'ts={iso}Z caller=silence.go:431 level=info component=silences msg="Running maintenance failed" err=""',
    ]),
    "monitoring/kube-state-metrics": (600, [
        'I{mmdd} {clock}       1 trace.go:236] Trace[{int:100000000:1999999999}]: "DeltaFIFO Pop Process" ID:{choice:kube-system/coredns|monitoring/grafana|default/kubernetes},Depth:{int:11:60},Reason:slow event handlers blocking the queue (total time: {int:101:190}ms)',
    ]),
    "monitoring/grafana": (60, [
        'logger=context userId={int:1:40} orgId=1 uname= t={iso}Z level=info msg="Request Completed" method=GET path=/api/live/ws status=-1 remote_addr=10.20.10.{int:4:250} time_ms={int:1:6} duration={int:1:6}.{int:100:999}ms size=0',
        'logger=infra.usagestats t={iso}Z level=info msg="Usage stats are ready to report"',
        'logger=cleanup t={iso}Z level=info msg="Completed cleanup jobs" duration={int:8:60}.{int:100:999}ms',
    ]),
    "observability/otel-collector": (100, [
        '{iso}Z	info	TracesExporter	{"kind": "exporter", "data_type": "traces", "name": "otlp/tempo", "resource spans": {int:20:80}, "spans": {int:300:900}}',
        '{iso}Z	info	MetricsExporter	{"kind": "exporter", "data_type": "metrics", "name": "prometheus", "resource metrics": {int:4:20}, "metrics": {int:40:90}, "data points": {int:400:1200}}',
        '{iso}Z	warn	batchprocessor@v0.91.0/batch_processor.go:258	Sender failed	{"kind": "processor", "name": "batch", "pipeline": "traces", "error": "sending queue is full"}',
    ]),
    "observability/vector": (240, [
        '{iso}Z  INFO source{component_kind="source" component_id=kubernetes_logs component_type=kubernetes_logs}: vector::internal_events::file::source: Found new file to watch. file=/var/log/pods/{choice:kube-system|monitoring|default}_{choice:kube-proxy|node-exporter|vector}-{hex:5}/0.log',
        '{iso}Z  WARN transform{component_kind="transform" component_id=throttle component_type=throttle}: vector::internal_events::throttle: Event throttled. internal_log_rate_limit=true',
    ]),
    "cert-manager/cert-manager": (200, [
        'I{mmdd} {clock}       1 conditions.go:203] Setting lastTransitionTime for Certificate "{choice:wildcard-tls|grafana-tls|argocd-server-tls}" condition "Ready" to {iso}Z',
        'E{mmdd} {clock}       1 controller.go:167] "cert-manager/certificates-readiness: re-queuing item due to error processing" err="Operation cannot be fulfilled on certificates.cert-manager.io \\"grafana-tls\\": the object has been modified; please apply your changes to the latest version and try again" key="monitoring/grafana-tls"',
        'I{mmdd} {clock}       1 trigger_controller.go:194] "cert-manager/certificates-trigger: Certificate must be re-issued" key="monitoring/legacy-dashboards-tls" reason="Renewing" message="Renewing certificate as renewal was scheduled"',
    ]),
    "argocd/argocd-application-controller": (18, [
        'time="{iso}Z" level=info msg="Reconciliation completed" application=argocd/{choice:platform|monitoring|edge|apps} dedup_ms=0 dest-server="https://kubernetes.default.svc" fields.level=1 git_ms={int:3:40} health_ms={int:0:3} time_ms={int:60:400}',
        'time="{iso}Z" level=info msg="Skipping auto-sync: application status is Synced" application=argocd/{choice:platform|monitoring|edge|apps}',
        'time="{iso}Z" level=info msg="Refreshing app status (comparison expired, requesting refresh. reconciledAt: {iso}Z, expiry: 3m0s), level (2)" application=argocd/{choice:platform|monitoring|edge|apps}',
    ]),
    "kube-system/kube-apiserver": (25, [
        'I{mmdd} {clock}       1 trace.go:236] Trace[{int:100000000:1999999999}]: "List" accept:application/json, */*,audit-id:{hex:8}-{hex:4}-4{hex:3}-a{hex:3}-{hex:12},client:10.20.10.{int:4:250},protocol:HTTP/2.0,resource:{choice:pods|events|configmaps},scope:cluster,url:/api/v1/{choice:pods|events|configmaps},verb:LIST (total time: {int:502:1800}ms):',
        'W{mmdd} {clock}       1 watcher.go:245] watch chan error: etcdserver: mvcc: required revision has been compacted',
        'I{mmdd} {clock}       1 controller.go:624] quota admission added evaluator for: {choice:jobs.batch|endpointslices.discovery.k8s.io|replicasets.apps}',
    ]),
    "kube-system/kube-controller-manager": (40, [
        'I{mmdd} {clock}       1 event.go:307] "Event occurred" object="kube-system/etcd-backup" fieldPath="" kind="CronJob" apiVersion="batch/v1" type="Normal" reason="SawCompletedJob" message="Saw completed job, status: Complete"',
        'I{mmdd} {clock}       1 garbagecollector.go:501] "Processing item" item="[batch/v1/Job, namespace: kube-system, name: etcd-backup-{int:28000000:28999999}, uid: {hex:8}-{hex:4}-4{hex:3}-b{hex:3}-{hex:12}]" virtual=false',
    ]),
    "kube-system/kube-scheduler": (300, [
        'I{mmdd} {clock}       1 schedule_one.go:252] "Successfully bound pod to node" pod="kube-system/etcd-backup-{int:28000000:28999999}-{hex:5}" node="{node}" evaluatedNodes={int:4:7} feasibleNodes={int:1:3}',
    ]),
    "kube-system/etcd": (30, [
        '{"level":"info","ts":"{iso}Z","caller":"mvcc/hash.go:137","msg":"storing new hash","hash":{int:100000000:1999999999},"revision":{int:81000000:81999999},"compact-revision":{int:80000000:80999999}}',
        '{"level":"warn","ts":"{iso}Z","caller":"etcdserver/util.go:170","msg":"apply request took too long","took":"{int:101:280}.{int:100:999}ms","expected-duration":"100ms","prefix":"read-only range ","request":"key:\\"/registry/health\\" ","response":"range_response_count:0 size:6"}',
    ]),
    "ingress-nginx/ingress-nginx-controller": (260, [
        'I{mmdd} {clock}       7 controller.go:213] "Backend successfully reloaded"',
        'I{mmdd} {clock}       7 event.go:298] Event(v1.ObjectReference{Kind:"Ingress", Namespace:"{choice:monitoring|argocd}", Name:"{choice:grafana|argocd-server}", APIVersion:"networking.k8s.io/v1"}): type: \'Normal\' reason: \'Sync\' Scheduled for sync',
    ]),
    "kube-system/kubelet": (14, [
        '{node} kubelet[1042]: I{mmdd} {clock}    1042 kubelet_getters.go:182] "Pod status updated" pod="kube-system/kube-proxy-{hex:5}" status="Running"',
        '{node} kubelet[1042]: I{mmdd} {clock}    1042 scope.go:117] "RemoveContainer" containerID="{hex:64}"',
        '{node} kubelet[1042]: W{mmdd} {clock}    1042 machine.go:65] Cannot read vendor id correctly, set empty.',
        '{node} kubelet[1042]: E{mmdd} {clock}    1042 cadvisor_stats_provider.go:444] "Partial failure issuing cadvisor.ContainerInfoV2" err="partial failures: [\\"/system.slice/run-{int:1000:99999}.scope\\": RecentStats: unable to find data in memory cache]"',
    ]),
}  # fmt: skip
"""namespace/workload -> (mean seconds between lines, texts); placeholders as in the log module."""


def platform_workloads(cluster: Cluster) -> list[Workload]:
    """Standard workloads of a cluster, with its overrides.

    Raises
    ------
    SuiteError
        A name that is not a standard workload.
    """
    unknown = sorted((set(cluster.platform) | set(cluster.override)) - set(_STANDARD))
    if unknown:
        raise SuiteError(
            f"$.cluster.platform: unknown standard workload {unknown[0]!r}. Known: {', '.join(sorted(_STANDARD))}."
        )
    made = []
    for name in cluster.platform:
        fields = {"name": name, **_STANDARD[name], **cluster.override.get(name, {})}
        made.append(Workload.model_validate(fields))
    return made
