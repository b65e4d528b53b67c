"""Secrets are taken out of what is written down, counted, and nothing else is touched."""

from __future__ import annotations

import base64
import json

import pytest

from diagnose_bench.redaction import Redactor, is_secret_name

HEX = "0123456789abcdef" * 4
ALNUM = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
JWT = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "RS256", "typ": "JWT"}, {"sub": "system:serviceaccount:shop:cart"})
)

# The shape of each is the vendor's published one; the random part is made up.
SECRETS = {
    "openai": f"sk-proj-{ALNUM}",
    "anthropic": f"sk-ant-api03-{ALNUM}-_aA",
    "openrouter": f"sk-or-v1-{HEX}",
    "groq": f"gsk_{ALNUM[:52]}",
    "xai": f"xai-{ALNUM}",
    "hugging face": f"hf_{ALNUM[:34]}",
    "replicate": f"r8_{ALNUM[:37]}",
    "github": f"ghp_{ALNUM[:36]}",
    "github, fine-grained": f"github_pat_{ALNUM[:22]}_{ALNUM[:59]}",
    "gitlab": f"glpat-{ALNUM[:20]}",
    "slack": f"xoxb-123456789012-1234567890123-{ALNUM[:24]}",
    "stripe": f"sk_live_{ALNUM[:24]}",
    "sendgrid": f"SG.{ALNUM[:22]}.{ALNUM[:43]}",
    "npm": f"npm_{ALNUM[:36]}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{ALNUM}",
    "grafana": f"glsa_{ALNUM[:32]}_{HEX[:8]}",
    "new relic": "NRAK-ABCDEFGHIJKLMNOPQRSTUVWXYZ1",
    "vault": f"hvs.{ALNUM}",
    "databricks": f"dapi{HEX[:32]}",
    "digitalocean": f"dop_v1_{HEX}",
    "aws key id": "AKIAIOSFODNN7EXAMPLE",
    "google": f"AIza{ALNUM[:35]}",
    "google oauth": f"ya29.{ALNUM}",
    "jwt": f"{JWT}.{ALNUM}",
    "age": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2,
}
AROUND = {
    "alone": "{}",
    "in a sentence": "the key is {}, keep it",
    "in JSON": '{{"key":"{}"}}',
    "after an escaped line break": '{{"log":"first line\\n{}\\nlast line"}}',
    "in a shell's assignment": "export X={}; curl -s",
    "in quotes": "'{}'",
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_vendor_key_is_replaced_and_what_stands_around_it_stays(secret: str, around: str) -> None:
    redactor = Redactor()
    text = redactor.text(around.format(secret))
    before, after = around.format("\0").split("\0")
    assert text.startswith(before + "[redacted:")
    assert text.endswith("]" + after)
    assert secret not in text
    assert secret[-12:] not in text
    assert redactor.n_redactions == 1


PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEvQIBADANBg+/\nkqhkiG9w0=\n-----END {0}PRIVATE KEY-----"
IN_CONTEXT = {
    "bearer": (
        "Authorization: Bearer abcdef0123456789ABCDEF",
        "Authorization: Bearer [redacted:bearer-token]",
    ),
    "basic": ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:bearer-token]"),
    "url": (
        "postgres://app:s3cr3t!@db.shop:5432/x",
        "postgres://app:[redacted:password-in-url]@db.shop:5432/x",
    ),
    "registry": (
        '{"auths":{"r.example":{"auth":"dXNlcjpwYXNzd29yZA=="}}}',
        '{"auths":{"r.example":{"auth":"[redacted:registry-password]"}}}',
    ),
    "aws": (
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = [redacted:cloud-key]",
    ),
    "azure": (
        "AccountName=shop;AccountKey=" + "Ab+/" * 20 + "==;EndpointSuffix=core",
        "AccountName=shop;AccountKey=[redacted:cloud-key];EndpointSuffix=core",
    ),
    "pem": (f"a\n{PEM.format('RSA ')}\nb", "a\n[redacted:private-key]\nb"),
    "pem in JSON": (
        json.dumps({"private_key": PEM.format("")}),
        '{"private_key": "[redacted:private-key]"}',
    ),
    "encrypted pem": (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00AA\n\nAAAA\n"
        "-----END RSA PRIVATE KEY-----",
        "[redacted:private-key]",
    ),
    "pem around a command": (
        "-----BEGIN PRIVATE KEY-----\ncat /snapshot/cms-web.log\n-----END PRIVATE KEY-----",
        "[redacted:private-key]\ncat /snapshot/cms-web.log\n-----END PRIVATE KEY-----",
    ),
    "pem cut off": ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg", "[redacted:private-key]"),
}


@pytest.mark.parametrize(("text", "expected"), IN_CONTEXT.values(), ids=IN_CONTEXT)
def test_a_secret_known_by_what_stands_before_it_is_replaced(text: str, expected: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == expected
    assert redactor.n_redactions == 1
    assert redactor.text(expected) == expected
    assert redactor.n_redactions == 1


UNTOUCHED = (
    "docker.io/library/redis@sha256:" + HEX,
    "image: registry.shop:5000/cart:1.2.3@sha256:" + HEX,
    "traceId=" + HEX[:32] + " spanId=" + HEX[:16],
    "uid 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "shop/Pod/cart-5d8f7c9b6d-x2v5z",
    "shop/Deployment/sk-telemetry-collector-gateway",
    "kube-system/ConfigMap/xoxb-migration-settings-for-2024",
    "hf_metric_name_with_many_words_total 3",
    "npm_config_registry_fallback_timeout=30",
    "clientSecret: oauth2-proxy-client-secret",
    "clientSecret: shop/Deployment/oauth2-proxy",
    "accountKey: storage-account-key-secret",
    "diagnose-bench:1f0c8a7e6d5c4b3a29181716151413120f0e0d0c",
    "bearer authentication was refused by the apiserver",
    "http://10.0.0.7:8080/metrics",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "eyJhbGciOi is how a token begins",
    # Commands that hide as what only looks like a secret.
    ": x://a:b;echo${IFS}cms-web;ls${IFS}$HOME;b@",
    "x://a:$(cat${IFS}note)@",
    "x://a:" + "b" * 257 + "@",
    # A truth's canary has to be found.
    f"x://a:{HEX[:32]}@",
    f"x://a:{HEX[:32].upper()}@",
    "x://diagnose-bench:1f0c8a7e6d5c4b3a29181716151413120f0e0d0c@",
    f"Authorization: Bearer {HEX[:32]}",
    "otlp://collector:4317 user@example.org",
)


@pytest.mark.parametrize("text", UNTOUCHED)
def test_evidence_is_left_alone(text: str) -> None:
    redactor = Redactor({"not-in-there-at-all"})
    assert redactor.text(text) == text
    assert redactor.data(text.encode()) == text.encode()
    assert redactor.n_redactions == 0


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GH_TOKEN", "my_secret", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "Credentials"]
)
def test_a_variable_is_secret_by_its_name(name: str) -> None:
    assert is_secret_name(name)
    assert Redactor.of_environment({name: "not-a-known-form"}).text("x not-a-known-form y") == (
        "x [redacted:environment] y"
    )


@pytest.mark.parametrize("name", ["HOME", "PATH", "AWS_WEB_IDENTITY_TOKEN_FILE", "TOKEN_URL", "KEY_PATH"])
def test_a_variable_with_another_name_or_the_place_of_a_secret_is_none(name: str) -> None:
    assert not is_secret_name(name)
    assert Redactor.of_environment({name: "/var/run/token"}).text("/var/run/token") == "/var/run/token"


def test_a_short_value_is_no_secret() -> None:
    assert Redactor.of_environment({"A_KEY": "1234567"}).text("1234567") == "1234567"
    assert Redactor.of_environment({"A_KEY": "12345678"}).text("12345678") == "[redacted:environment]"


def test_a_value_is_found_in_json_and_in_an_address() -> None:
    redactor = Redactor.of_environment({"A_KEY": 'p"ss wörd/9\n'})
    for form in ('p"ss wörd/9', r"p\"ss wörd/9", r"p\"ss w\u00f6rd/9", "p%22ss%20w%C3%B6rd%2F9"):
        assert redactor.text(f"<{form}>") == "<[redacted:environment]>"
    assert redactor.n_redactions == 4


def test_a_value_that_could_be_a_name_is_replaced_only_as_a_whole_name() -> None:
    redactor = Redactor.of_environment({"A_TOKEN": "frontend"})
    assert redactor.text("frontend-proxy frontend-5d8f7c9b6d-x2v5z valkey-frontend") == (
        "frontend-proxy frontend-5d8f7c9b6d-x2v5z valkey-frontend"
    )
    assert redactor.text("token=frontend") == "token=[redacted:environment]"


def test_the_longer_of_two_values_is_replaced_as_a_whole() -> None:
    redactor = Redactor.of_environment({"A_KEY": "Secret.12", "B_KEY": "Secret.123456"})
    assert redactor.text("Secret.123456 Secret.12") == "[redacted:environment] [redacted:environment]"


def test_bytes_that_are_no_text_stay() -> None:
    redactor = Redactor()
    key = SECRETS["github"].encode()
    assert redactor.data(b"\xff\x00" + b" " + key + b"\n\xfe") == b"\xff\x00 [redacted:api-key]\n\xfe"


def test_a_json_value_is_redacted_in_its_texts() -> None:
    redactor = Redactor()
    value = {"a": [SECRETS["aws key id"], 7, None], "b": {"c": "shop/Deployment/cart"}}
    assert redactor.tree(value) == {
        "a": ["[redacted:cloud-key]", 7, None],
        "b": {"c": "shop/Deployment/cart"},
    }
    assert redactor.n_redactions == 1


def test_secrets_after_each_other_are_counted_one_by_one() -> None:
    redactor = Redactor()
    redactor.text("\n".join(SECRETS.values()))
    assert redactor.n_redactions == len(SECRETS)
