#!/usr/bin/env python3
"""An agent in Python, standard library only: it blames what changed before the alerts and has warnings.

    diagnose-bench run --agent "python3 examples/agent.py"

It runs outside the sandbox, in a private folder. Evidence is reached only through $DIAGNOSE_BENCH_SHELL. Of a
long output only the beginning and the end are shown, so the question is answered inside and comes back short.
"""

import json
import os
import subprocess
import sys

SUSPECTS = r"""
import collections, json, os

def rows(name):
    path = "/snapshot/" + name
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

def entity(item):
    place = [item.get("namespace"), item.get("kind"), item.get("name")]
    return "/".join(part for part in place if part)

active = [row for row in rows("alerts.jsonl") if row.get("status", {}).get("state") == "active"]
began = min((row["startsAt"] for row in active), default="9999")
warnings = collections.Counter()
for event in rows("events.jsonl"):
    if event.get("type") == "Warning":
        warnings[entity(event.get("involvedObject", {}))] += event.get("count") or 1
changed = {row["entity"]: row["time"] for row in rows("changes.jsonl") if row["time"] <= began}
last = sorted(changed.items(), key=lambda pair: pair[1])[-20:]
print(json.dumps({"warnings": warnings.most_common(20), "changed": last}))
"""


def sandbox(command, timeout_s=60):
    """Run one command in the sandbox and return what it printed."""
    shell = [os.environ["DIAGNOSE_BENCH_SHELL"], "--timeout", str(timeout_s), "-c", command]
    done = subprocess.run(shell, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"the command failed with {done.returncode}: {done.stdout[-500:]}")
    return done.stdout


def submit(diagnosis):
    """Hand the diagnosis in; a second try would be possible, as it says what is wrong with the form."""
    done = subprocess.run([os.environ["DIAGNOSE_BENCH_SUBMIT"]], input=json.dumps(diagnosis), text=True)
    sys.exit(done.returncode)


def name_of(entity):
    return entity.rsplit("/", 1)[-1]


def question():
    """The command whose output `diagnose` reads."""
    return f"python3 - <<'SCRIPT'\n{SUSPECTS}\nSCRIPT"


def diagnose(found):
    """Name one object, or none."""
    best, most = None, 0
    for changed, _ in found["changed"]:
        # The pods of a workload carry its name: cart-7d9f8c6b5-x2x4z.
        count = sum(n for entity, n in found["warnings"] if name_of(entity).startswith(name_of(changed)))
        if count >= most and count > 0:
            best, most = changed, count
    if best is not None:
        return {"root_causes": [{"entity": best, "reasoning": "changed before the alerts, warnings since"}]}
    if found["warnings"]:
        entity, count = found["warnings"][0]
        return {"root_causes": [{"entity": entity, "reasoning": f"{count} warning events, the most"}]}
    return {"root_causes": []}


if __name__ == "__main__":
    submit(diagnose(json.loads(sandbox(question()))))
