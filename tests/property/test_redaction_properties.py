"""Names, digests, trace ids and UIDs come through redaction as they are, in time that grows with the text."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose_bench.redaction import Redactor

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
HEX = "0123456789abcdef"

label = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
subdomain = st.lists(label, min_size=1, max_size=3).map(".".join)
prefixed = st.builds(
    lambda prefix, rest: f"{prefix}-{rest}",
    st.sampled_from(["sk", "sk-proj", "sk-ant", "xai", "glpat", "xoxb", "pypi", "ghs", "nvapi", "key", "hf"]),
    st.from_regex(r"[a-z][a-z0-9-]{0,50}[a-z0-9]", fullmatch=True).filter(
        lambda rest: not set(rest) <= set(HEX)
    ),
)
pod = st.builds(
    lambda name, hash_, end: f"{name}-{hash_}-{end}",
    label,
    st.text(HEX, min_size=8, max_size=10),
    st.text(ALPHABET, min_size=5, max_size=5),
)
kind = st.sampled_from(["Pod", "Deployment", "Secret", "ConfigMap", "Node", "IngressRoute.traefik.io"])
entity = st.builds(lambda namespace, kind, name: f"{namespace}/{kind}/{name}", label, kind, subdomain)
digest = st.text(HEX, min_size=64, max_size=64).map(lambda text: f"sha256:{text}")
image = st.builds(lambda host, name, at: f"{host}:5000/{name}@{at}", subdomain, label, digest)
trace = st.text(HEX, min_size=32, max_size=32)
span = st.text(HEX, min_size=16, max_size=16)
uid = st.uuids().map(str)
token = st.one_of(label, subdomain, prefixed, pod, entity, digest, image, trace, span, uid)
around = st.sampled_from(
    [
        "{}",
        '{{"name":"{}","uid":null}}',
        "msg={} level=info",
        '{{"log":"started\\n{}\\tready"}}',
        "http://{}:8080/healthz",
        "image: {}",
        "auth: {}",
        "secretKeyRef: {{name: {}, key: password}}",
        "clientSecret: {}",
        "traceparent: 00-{}-01",
        "--token-file={}",
    ]
)


@given(st.lists(st.tuples(around, token), min_size=1, max_size=8))
def test_what_names_objects_is_left_alone(parts: list[tuple[str, str]]) -> None:
    text = "\n".join(frame.format(name) for frame, name in parts)
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.text(json.dumps({"output": text})) == json.dumps({"output": text})
    assert redactor.n_redactions == 0


@given(st.text(string.ascii_letters + string.digits + "+/=.,!'\"\\ ", min_size=8, max_size=40).map(str.strip))
def test_a_value_of_the_environment_is_never_left(value: str) -> None:
    redactor = Redactor.of_environment({"SOME_KEY": value})
    out = redactor.text(f"<{value}>")
    assert out == ("<[redacted:environment]>" if len(value) >= 8 else f"<{value}>")


@given(st.binary())
def test_bytes_without_a_secret_are_the_same_bytes(data: bytes) -> None:
    redactor = Redactor()
    out = redactor.data(data)
    assert out == data or redactor.n_redactions


@given(st.text(), st.sampled_from([f"ghp_{'aB3' * 12}", "Bearer abcdef0123456789ABCDEF", "p://u:secret@h"]))
def test_a_second_pass_finds_nothing(text: str, secret: str) -> None:
    once = Redactor().text(text + " " + secret)
    again = Redactor()
    assert again.text(once) == once
    assert again.n_redactions == 0


FRAGMENTS = (
    "eyJ",
    "eyJhbGciOiJI.",
    "sk-",
    "sk-a-",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY",
    "bearer ",
    "bearer a",
    "://",
    "://a:b",
    "a:",
    'authorization": "basic ',
    '"auth":"a',
    "aws_secret_access_key=",
    "accountkey",
    "a",
    "0",
    "-",
    "\\n",
    "hf_a",
    "glpat-",
)


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_long_text_of_beginnings_takes_no_longer_than_its_length_asks(fragment: str) -> None:
    # What looks over all of these 2 MB again at each beginning would not end within the time-out.
    text = fragment * (2_000_000 // len(fragment))
    Redactor({"sk-a-value-of-a-variable"}).text(text)
