#!/usr/bin/env python3
"""A server that speaks the OpenAI API, standard library only, and a run of the reference agent against it.

    python3 examples/openai_compatible.py --scenario scenario-001 --repeats 1 --out runs/openai-example

What stands behind it is handed to ``diagnose-bench run``. The model behind the API is a few rules, so nothing
is spent and no key is needed: it asks one question and blames what changed before the alerts and has
warnings since. With ``serve`` as the only argument the server runs alone.
"""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

QUESTION = r"""python3 - <<'SCRIPT'
import collections, json, os

def rows(name):
    path = "/snapshot/" + name
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

active = [row for row in rows("alerts.jsonl") if row.get("status", {}).get("state") == "active"]
began = min((row["startsAt"] for row in active), default="9999")
warned = collections.Counter()
for event in rows("events.jsonl"):
    if event.get("type") == "Warning":
        warned[event.get("involvedObject", {}).get("name", "")] += event.get("count") or 1
best, most = None, 0
for row in rows("changes.jsonl"):
    name = row["entity"].rsplit("/", 1)[-1]
    count = sum(n for other, n in warned.items() if other.startswith(name))
    if row["time"] <= began and count >= most and count:
        best, most = row["entity"], count
print(json.dumps({"suspect": best, "warnings": most}))
SCRIPT
"""


def call(name, arguments):
    """One tool call as the API writes it."""
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def think(messages):
    """What the model says next: its text and its tool calls."""
    answers = [message["content"] for message in messages if message["role"] == "tool"]
    if not any(message["role"] == "system" for message in messages):
        return "ready", []
    if not answers:
        return "What changed before the alerts, and has warnings since?", [
            call("shell", {"command": QUESTION})
        ]
    try:
        suspect = json.loads(answers[0].splitlines()[0])["suspect"]
    except (ValueError, KeyError, IndexError):
        suspect = None
    reasoning = "changed before the alerts, and the most warnings since"
    causes = [] if suspect is None else [{"entity": suspect, "reasoning": reasoning}]
    return "", [call("submit_diagnosis", {"root_causes": causes})]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text, calls = think(request["messages"])
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        # Four characters a token is near enough for an example.
        n_in, n_out = len(json.dumps(request["messages"])) // 4, len(json.dumps(message)) // 4
        self.answer(
            {
                "id": "chatcmpl-example",
                "object": "chat.completion",
                "created": 0,
                "model": request["model"],
                "choices": [
                    {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
                ],
                "usage": {"prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out},
            }
        )

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "rules", "object": "model"}]})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    if sys.argv[1:] == ["serve"]:
        print(f"diagnose-bench run --agent openai:rules --base-url {url}", flush=True)
        server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    run = [sys.executable, "-m", "diagnose_bench", "run", "--agent", "openai:rules", "--base-url", url]
    sys.exit(subprocess.run([*run, *sys.argv[1:]]).returncode)


if __name__ == "__main__":
    main()
