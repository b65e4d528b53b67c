"""What is known of a hosted agent before anything is sent: address, headers, certificates, how it reaches us.

Everything a person can get wrong is refused here, before the first trial. Secrets stay in memory.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from diagnose_bench.agents.options import AgentOptions
from diagnose_bench.agents.redaction import RedactionList, load_redaction_list
from diagnose_bench.errors import UsageError
from diagnose_bench.files import canonical_json, sha256_of_bytes

_LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|::1")
_ANY_ADDRESS = ("", "0.0.0.0", "::")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_OURS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_LEAST_SECRET = 4


@dataclass(frozen=True)
class Endpoint:
    """An address to call.

    Attributes
    ----------
    scheme, host, port
        Of the server.
    target : str
        Path and query.
    shown : str
        The address without its query, which may hold a key: for results and messages.
    """

    scheme: str
    host: str
    port: int
    target: str = field(repr=False)
    shown: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """Where it is: scheme, host and port."""
        return self.scheme, self.host, self.port


@dataclass(frozen=True)
class HostedSettings:
    """All that a hosted agent needs.

    Attributes
    ----------
    endpoint : Endpoint
        Where the task is posted.
    headers : dict
        Sent with every request to the agent.
    secrets : tuple of str
        Values that must not stand in any file.
    context : ssl.SSLContext or None
        For https.
    redaction : RedactionList
        What is cut out of texts.
    listen_host, listen_port
        Where the agent's calls are taken.
    public_url : str or None
        How the agent reaches that; None: as we do.
    """

    endpoint: Endpoint
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    context: ssl.SSLContext | None = None
    redaction: RedactionList = field(default_factory=RedactionList)
    listen_host: str = "127.0.0.1"
    listen_port: int = 0
    public_url: str | None = None

    def config_digest(self) -> str:
        """Digest of what can change the agent's answers; of secrets only the names."""
        known = {
            "url": self.endpoint.shown,
            "headers": sorted(name.lower() for name in self.headers),
            "redaction": self.redaction.digest,
        }
        return sha256_of_bytes(canonical_json(known))

    def mask(self, text: str) -> str:
        """The text without any of the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def make_settings(url: str, options: AgentOptions) -> HostedSettings:
    """Check what was asked for.

    Raises
    ------
    UsageError
        Something of it cannot be; the message says what.
    """
    endpoint = parse_url(url, "--agent")
    headers, secrets = _headers(options.headers)
    host, port = _listen(options.listen)
    if options.public_url is not None:
        parse_url(options.public_url, "--public-url")
    elif not is_loopback(endpoint.host) and is_loopback(host):
        raise UsageError(
            f"--agent {endpoint.shown}: an agent on another machine cannot reach {host}, where its calls are "
            "taken. Give --listen HOST:PORT and, if it differs, --public-url URL: the address by which the "
            "agent reaches this machine."
        )
    elif not is_loopback(endpoint.host) and host in _ANY_ADDRESS:
        raise UsageError(f"--listen {options.listen}: say with --public-url URL how the agent reaches it.")
    query = urlsplit(url).query
    secrets += [query, *(value for _, value in parse_qsl(query))]
    return HostedSettings(
        endpoint=endpoint,
        headers=headers,
        secrets=tuple(text for text in sorted(secrets, key=len, reverse=True) if len(text) >= _LEAST_SECRET),
        context=_context(endpoint.scheme, options.ca_file),
        redaction=RedactionList() if options.redact is None else load_redaction_list(options.redact),
        listen_host=host,
        listen_port=port,
        public_url=None if options.public_url is None else options.public_url.rstrip("/"),
    )


def parse_url(text: str, what: str) -> Endpoint:
    """Take an http or https address apart.

    Raises
    ------
    UsageError
        It is none, or has a name and password in it.
    """
    try:
        parts: SplitResult = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{what} {text!r}: is no address: {error}.") from error
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{what}: a name and password in the address would be kept. Give --header instead.")
    if scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise UsageError(f"{what} {text!r}: is no address. Give http://HOST[:PORT]/PATH or https://….")
    if not text.isascii():
        raise UsageError(f"{what} {text!r}: has characters that an address cannot have. Escape them.")
    place = f"[{host}]" if ":" in host else host
    shown = f"{scheme}://{place}" + (f":{port}" if port is not None else "") + (parts.path or "/")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(scheme, host, port or (443 if scheme == "https" else 80), target, shown)


def is_loopback(host: str) -> bool:
    """Whether a name means this machine alone."""
    return _LOOPBACK.fullmatch(host) is not None


def _listen(text: str | None) -> tuple[str, int]:
    if text is None:
        return "127.0.0.1", 0
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isdecimal() or not port.isascii() or int(port) > 65535 or not bare:
        raise UsageError(f"--listen {text}: give HOST:PORT, such as 0.0.0.0:8700; port 0 takes a free one.")
    return bare, int(port)


def _headers(lines: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    headers: dict[str, str] = {}
    secrets: list[str] = []
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            name = line.partition(":")[0]
            raise UsageError(f"--header {name!r}: give 'NAME: VALUE', where $VARIABLE stands for a secret.")
        name, value = found.groups()
        if name.lower() in _OURS:
            raise UsageError(f"--header {name}: is set by diagnose-bench itself. Leave it out.")
        for match in _VARIABLE.finditer(value):
            variable = match[1] or match[2]
            if not os.environ.get(variable):
                raise UsageError(
                    f"--header {name}: the environment has no variable {variable}, or it is empty."
                )
            secrets.append(os.environ[variable])
        value = _VARIABLE.sub(lambda match: os.environ[match[1] or match[2]], value)
        if not value.isprintable() or not value.isascii():
            raise UsageError(f"--header {name}: its value has characters that a header cannot have.")
        headers[name] = value
        secrets.append(value)
    return headers, secrets


def _context(scheme: str, ca_file: Path | None) -> ssl.SSLContext | None:
    if scheme != "https":
        if ca_file is not None:
            raise UsageError("--ca-file goes with an https:// agent. Leave it out.")
        return None
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        # An SSLError is one, too: what the file holds is no certificate.
        reason = "holds no certificate in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(f"--ca-file {ca_file}: {reason}. Give the authority's certificate.") from error
