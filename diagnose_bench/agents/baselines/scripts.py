"""What the baselines run inside the sandbox: short Python programs that boil files down to lines of JSON.

They use the standard library alone, and any file may be missing. They count and list; the baselines decide.
"""

from __future__ import annotations

_PRELUDE = r"""
import csv, glob, json, re, sys
root = sys.argv[1]
csv.field_size_limit(1 << 27)
def documents(path):
    try:
        with open(path, errors="replace") as file:
            yield json.load(file)
    except (OSError, ValueError):
        pass
def rows(path):
    try:
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield row
    except OSError:
        pass
def table(pattern):
    for path in sorted(glob.glob(root + "/raw/" + pattern)):
        with open(path, errors="replace", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t")
def part(row, key):
    value = row.get(key)
    return value if isinstance(value, dict) else {}
def events():
    yield from rows(root + "/events.jsonl")
    for row in table("*events*.tsv"):
        try:
            body = json.loads(row.get("Body") or "")
        except ValueError:
            continue
        if isinstance(body, dict):
            yield part(body, "object")
def second(text):
    found = re.search(r"(\d{4}-\d\d-\d\d)[T ](\d\d)[:-]?(\d\d)[:-]?(\d\d(?:\.\d{1,6})?)", str(text))
    return "%sT%s:%s:%s" % found.groups() if found else ""
def show(*fields):
    print(json.dumps(fields))
"""

WINDOW = r"""
for manifest in documents(root + "/snapshot.json"):
    window = part(manifest, "window") if isinstance(manifest, dict) else {}
    show(*(second(window.get(key, "")) for key in ("start", "detected_at", "end")))
"""

# Of the looks at the alerts the last one until the detection counts, or else the first.
ALERTS = r"""
detected = sys.argv[2]
looks = {}
def see(time, alert):
    labels = alert.get("labels")
    if isinstance(labels, dict):
        since = second(alert.get("startsAt") or alert.get("activeAt") or "")
        looks.setdefault(time, []).append((labels, since))
for alert in rows(root + "/alerts.jsonl"):
    status = part(alert, "status")
    muted = status.get("silencedBy") or status.get("inhibitedBy")
    if status.get("state", "active") == "active" and not muted:
        see(second(alert.get("observedAt") or alert.get("startsAt") or ""), alert)
for path in sorted(glob.glob(root + "/raw/alerts/*.json") + glob.glob(root + "/raw/alerts*.json")):
    for document in documents(path):
        time = second(document.get("timestamp", "") if isinstance(document, dict) else "") or second(path)
        if isinstance(document, dict):
            data = document.get("data")
            document = data.get("alerts", []) if isinstance(data, dict) else [document]
        looks.setdefault(time, [])
        for alert in document:
            if isinstance(alert, dict) and alert.get("state", "firing") == "firing":
                see(time, alert)
until = [time for time in looks if time <= detected]
seen = set()
for labels, since in looks[max(until) if until else min(looks)] if looks else []:
    key = json.dumps(labels, sort_keys=True)
    if key not in seen:
        seen.add(key)
        show(since, labels)
"""

OBJECTS = r"""
for item in rows(root + "/objects.jsonl"):
    meta = part(item, "metadata")
    owners = meta.get("ownerReferences")
    owners = [o for o in owners if isinstance(o, dict)] if isinstance(owners, list) else []
    owners = [o for o in owners if o.get("controller", True)]
    owner = [owners[0].get(key, "") for key in ("apiVersion", "kind", "name")] if owners else []
    show(item.get("apiVersion"), item.get("kind"), meta.get("namespace") or "", meta.get("name"), owner,
         second(meta.get("creationTimestamp", "")))
"""

# [what, namespace, kind or "", name, number of errors, number in all], the loudest first
ERRORS = r"""
error = re.compile(r"\b(error|err|fatal|panic|critical|exception|traceback)\b", re.I)
counts = {}
def space_of(row):
    found = re.search(r"'k8s\.namespace\.name': '([^']*)'", row.get("ResourceAttributes") or "")
    return found[1] if found else ""
def add(key, bad, n=1):
    pair = counts.setdefault(key, [0, 0])
    pair[0] += n if bad else 0
    pair[1] += n
for span in rows(root + "/traces.jsonl"):
    space = part(span, "resource").get("k8s.namespace.name", "")
    key = ("spans", str(space), "", str(span.get("service", "")))
    add(key, str(span.get("statusCode")).upper().endswith("ERROR"))
for span in table("*traces*.tsv"):
    add(("spans", space_of(span), "", span.get("ServiceName") or ""), span.get("StatusCode") == "Error")
for path in sorted(glob.glob(root + "/logs/*.log")):
    space, _, name = path.rsplit("/", 1)[1][:-4].partition("_")
    with open(path, errors="replace") as file:
        for line in file:
            add(("logs", space, "", name), error.search(line))
for line in rows(root + "/logs.jsonl"):
    name = line.get("workload") or line.get("service") or ""
    add(("logs", str(line.get("namespace", "")), "", str(name)), error.search(json.dumps(line)))
for line in table("*logs*.tsv"):
    text = "%s %s" % (line.get("SeverityText") or "", line.get("Body") or "")
    add(("logs", space_of(line), "", line.get("ServiceName") or ""), error.search(text))
last = {}
for item in events():
    about, meta, number = part(item, "involvedObject"), part(item, "metadata"), item.get("count")
    if about:
        key = tuple(str(about.get(key, "")) for key in ("namespace", "kind", "name"))
        event = str(meta.get("namespace")), str(meta.get("name")), str(item.get("reason"))
        last[event] = key, item.get("type"), number if isinstance(number, int) else 1
for key, type, number in last.values():
    add(("events", *key), type == "Warning", number)
loud = sorted((key for key in counts if counts[key][0]), key=lambda key: (-counts[key][0], key))
for key in loud[:400]:
    show(*key, *counts[key])
"""

EDGES = r"""
for topology in documents(root + "/topology.json"):
    edges = topology.get("edges") if isinstance(topology, dict) else None
    for edge in edges if isinstance(edges, list) else []:
        if isinstance(edge, dict):
            show(edge.get("source"), edge.get("relation"), edge.get("target"))
"""

CHANGES = r"""
until = sys.argv[2]
found = sorted((second(c.get("time", "")), str(c.get("entity"))) for c in rows(root + "/changes.jsonl"))
for change in [c for c in found if c[0] <= until][-200:]:
    show(*change)
"""

# What was done to objects: the trace that a change leaves where no history is kept.
HAPPENED = r"""
start, until = sys.argv[2:4]
found = set()
for item in events():
    about = part(item, "involvedObject")
    time = second(item.get("firstTimestamp") or item.get("eventTime") or item.get("lastTimestamp") or "")
    if item.get("type") == "Normal" and start <= time <= until:
        found.add((time, *(str(about.get(key, "")) for key in ("namespace", "kind", "name"))))
for row in sorted(found)[-200:]:
    show(*row)
"""


def shell_command(program: str, *arguments: str) -> str:
    """The shell command that runs one of the programs; the arguments are words of the shell."""
    words = " ".join(arguments)
    return f"python3 - {words} <<'END'{_PRELUDE.rstrip()}{program.rstrip()}\nEND"
