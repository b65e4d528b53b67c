"""A real HTTP server on loopback that speaks the Chat Completions API, and misbehaves where it should."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

KEY = "sk-test-0123456789abcdefghij"
READY = "ready"


@dataclass(frozen=True)
class Raw:
    """An answer byte by byte.

    ``declared`` is what Content-Length says where it is not the truth; ``hang`` is waited for before anything
    is sent; ``trickle`` sends a body without end, a byte now and then, until the event is set.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    declared: int | None = None
    hang: threading.Event | None = None
    trickle: threading.Event | None = None
    drop: bool = False


Answer = dict[str, Any] | Raw


class FakeModelServer:
    """Answers by a function of the request; a context manager.

    Parameters
    ----------
    answer : callable
        From the JSON of a request to what is answered. Called by one thread at a time.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Answer]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> FakeModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None: ...

            def do_GET(self) -> None:
                self._send(Raw(404, b'{"error": {"message": "no such place"}}'))

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.requests.append(request)
                    outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                    outer.paths.append(self.path)
                    answer = outer._answer(request)
                self._send(answer if isinstance(answer, Raw) else Raw(body=json.dumps(answer).encode()))

            def _send(self, answer: Raw) -> None:
                if answer.hang is not None:
                    answer.hang.wait()
                if answer.drop:
                    self._cut()
                    return
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    declared = len(answer.body) if answer.declared is None else answer.declared
                    self.send_header("Content-Type", answer.content_type)
                    self.send_header("Content-Length", str(declared))
                    self.end_headers()
                    self.wfile.write(answer.body)
                    while answer.trickle is not None and not answer.trickle.wait(0.05):
                        self.wfile.write(b" ")
                    if declared != len(answer.body):
                        self._cut()
                except OSError:
                    self.close_connection = True

            def _cut(self) -> None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

        return Handler


def is_check(request: Mapping[str, Any]) -> bool:
    """Whether this is the test of the connection before a run, and no turn of a trial."""
    return all(message["role"] != "system" for message in request["messages"])


def in_turn(*answers: Answer) -> Callable[[dict[str, Any]], Answer]:
    """One answer after the other, the last one for ever."""
    left = list(answers)

    def answer(request: dict[str, Any]) -> Answer:
        if is_check(request):
            return completion(READY)
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def completion(
    text: str | None = None,
    calls: Sequence[dict[str, Any]] = (),
    *,
    usage: dict[str, Any] | None = None,
    finish_reason: str | None = None,
    **message: Any,
) -> dict[str, Any]:
    """A chat completion as the API gives it."""
    said: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, **message}
    if calls:
        said["tool_calls"] = list(calls)
    reason = finish_reason or ("tool_calls" if calls else "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [{"index": 0, "message": said, "finish_reason": reason}],
        "usage": usage or {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def tool_call(name: str, arguments: Any, id: str | None = "call_1") -> dict[str, Any]:
    """A tool call; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def shell(command: str, id: str | None = "call_1") -> dict[str, Any]:
    """A call of the shell."""
    return tool_call("shell", {"command": command}, id)


def submit(*entities: str, id: str | None = "call_9") -> dict[str, Any]:
    """A call that hands in a diagnosis."""
    return tool_call("submit_diagnosis", {"root_causes": [{"entity": name} for name in entities]}, id)


def error(message: str, code: str | None = None, **more: Any) -> bytes:
    """The body of an error."""
    return json.dumps({"error": {"message": message, "type": "error", "code": code, **more}}).encode()
