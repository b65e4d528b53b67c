"""Real local HTTP(S) services that behave as a test asks: hosted agents, good and bad."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PATIENCE_S = 300.0


@dataclass
class Asked:
    """One request that a service got, and how to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    handler: BaseHTTPRequestHandler = field(repr=False)

    @property
    def task(self) -> dict[str, Any]:
        """The task that was posted."""
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found

    def answer(self, status: int, body: Any = b"", **headers: str) -> None:
        """Send an answer; what is not bytes goes as JSON. ``Content_Type`` stands for Content-Type."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.handler.send_response(status)
        for name, value in {"Content_Type": "application/json", **headers}.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("Content-Length", str(len(data)))
        self.handler.end_headers()
        self.handler.wfile.write(data)


@dataclass
class Service:
    """A service that runs, and what it was asked."""

    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def service(behave: Callable[[Asked], None], context: ssl.SSLContext | None = None) -> Iterator[Service]:
    """Serve on a free port of loopback until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, self.path, dict(self.headers), body, self)
            found.asked.append(asked)
            behave(asked)

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        # Not reaped at the end: a behaviour may wait for longer than the test.
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if context is None else "https"
    found = Service(f"{scheme}://127.0.0.1:{server.server_address[1]}/agent")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Replied:
    """What the harness answered to a call."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def call_trial(
    task: dict[str, Any], what: str, value: Any = None, *, token: str | None = None, method: str | None = None
) -> Replied:
    """Call the trial of a task as a hosted agent does; bytes go as they are."""
    data = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    headers = {"Authorization": f"Bearer {task['token'] if token is None else token}"}
    request = urllib.request.Request(f"{task['base_url']}/{what}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return Replied(reply.status, reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Replied(error.code, error.read())


def certificate(folder: Path, *, host: str = "127.0.0.1") -> tuple[Path, ssl.SSLContext]:
    """A certificate that is its own authority: its file, and the context of a server that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    public, private = folder / f"{host}.pem", folder / f"{host}.key"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context
