#!/usr/bin/env python3
"""A hosted agent, standard library only: a service that is sent a task, answers 202 and calls back.

    python3 examples/http_agent.py 8800 &
    diagnose-bench run --agent http://127.0.0.1:8800/diagnose

It asks what agent.py asks. A product would put its own model and loop in the place of `work`.
"""

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agent import diagnose, question


def call(task, what, value):
    """Call the trial: run_command or submit."""
    headers = {"Authorization": f"Bearer {task['token']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{task['base_url']}/{what}", json.dumps(value).encode(), headers)
    with urllib.request.urlopen(request, timeout=150) as reply:
        return json.load(reply)


def work(task):
    result = call(task, "run_command", {"command": question(), "timeout_s": 60})
    print(call(task, "submit", diagnose(json.loads(result["output"])))["message"])


class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        task = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # Not a daemon: work that was begun is done, whoever stops the service.
        threading.Thread(target=work, args=(task,)).start()
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service)
    print(f"http://127.0.0.1:{server.server_address[1]}/diagnose", flush=True)
    server.serve_forever()
