"""What secrets look like: one expression per kind. Only patterns; what is done with a match is `redaction`.

Each expression begins at a place where no longer run of the same characters could begin, and repeats no
group within a group, so that a search takes time in proportion to the text. Names of Kubernetes objects,
image digests, trace ids and UIDs match none of them: a kind without a mark of its own (32 plain hexadecimal
digits, a UUID) is left to the values of the environment.
"""

from __future__ import annotations

import re

_START = r"(?<![A-Za-z0-9_-])"
# An escaped line break of JSON (`\nsk-…`) ends in a letter that belongs to no key.
_AT = rf"(?:{_START}|(?<=\\[nrt]))"
_WORD = "[A-Za-z0-9_-]"
# Names of objects have no capitals; what only has letters, digits and hyphens must have one to be a key.
_WITH_CAPITAL = "(?=[a-z0-9_-]*[A-Z])"

_WITH_DIGIT = "(?=[A-Za-z_-]*[0-9])"

_API_KEY = "|".join(
    (
        rf"sk-{_WITH_CAPITAL}{_WORD}{{20,}}",
        r"sk-(?:or-v1-|proj-|)[0-9a-f]{32,}",
        rf"(?:xai|pplx|csk)-{_WITH_CAPITAL}{_WORD}{{20,}}",
        rf"(?:gsk|hf|r8|npm|fw|lin_api|ntn|shpat|shpss)_{_WITH_DIGIT}[A-Za-z0-9]{{20,}}",
        rf"(?:tgp_v1|dckr_pat|do[opr]_v1|sntry[su])_{_WITH_DIGIT}[A-Za-z0-9_=+/-]{{20,}}",
        rf"nvapi-{_WITH_CAPITAL}{_WORD}{{40,}}",
        r"gh[pousr]_[A-Za-z0-9]{30,}",
        r"github_pat_[A-Za-z0-9_]{30,}",
        rf"gl(?:pat|ptt|dt|rt|ft|soat|cbt|agent)-{_WITH_CAPITAL}[A-Za-z0-9_.-]{{18,}}",
        r"xox[abeoprs]-[0-9]{6,}-[A-Za-z0-9-]{10,}",
        r"xapp-[0-9]-[A-Z0-9]{6,}-[0-9]{6,}-[A-Za-z0-9]{16,}",
        r"[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}",
        r"whsec_[A-Za-z0-9+/=]{20,}",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"pypi-AgE[A-Za-z0-9_-]{40,}",
        rf"gl(?:sa|c)_{_WITH_DIGIT}[A-Za-z0-9+/=_]{{20,}}",
        r"NRAK-[A-Z0-9]{20,}",
        rf"hv[sbr]\.{_WITH_CAPITAL}[A-Za-z0-9_-]{{20,}}",
        r"dapi[0-9a-f]{32}(?![0-9a-z])",
        r"SK[0-9a-f]{32}(?![0-9a-z])",
        r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
        r"ATATT3[A-Za-z0-9_=-]{50,}",
        r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",
        r"PMAK-[0-9a-f]{20,}-[0-9a-f]{20,}",
    )
)
_CLOUD_KEY = "|".join(
    (
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"AIza[A-Za-z0-9_-]{35}",
        r"ya29\.[A-Za-z0-9_-]{20,}",
        r"GOCSPX-[A-Za-z0-9_-]{20,}",
        r"LTAI[A-Za-z0-9]{16,}",
    )
)
_ASSIGNED = r"[\"']{0,2}[ \t]{0,8}[=:][ \t]{0,8}[\"']{0,2}"
_CLOUD_SECRET = (
    rf"(?i:(?:aws_?secret_?access_?key|aws_?session_?token|accountkey|sharedaccesskey){_ASSIGNED})"
    r"(?P<secret>(?=[a-z0-9.-]*[A-Z+/=_~])[A-Za-z0-9+/=_~.-]{16,})"
    # A value without capitals may be the name of a Secret, which is no secret; one with a slash an object.
    rf"|(?i:client_?secret{_ASSIGNED})"
    r"(?P<client>(?=[a-z0-9.-]*[A-Z_~])[A-Za-z0-9_~.-]{16,}(?![A-Za-z0-9_~./-]))"
)

# A key's own lines and nothing else: what is no base64 may be a command that hides behind the first line.
_PEM_MARK = r"-----{} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BREAK = r"(?:\s|\\{1,4}[nrt]){0,16}+"
_PEM_HEADER = (
    r"(?:Proc-Type: [0-9],[A-Z]{1,20}|DEK-Info: [A-Z0-9-]{1,30},[0-9A-Fa-f]{1,64}"
    r"|Version: [A-Za-z0-9 .()-]{1,60})"
)
_PEM_LINE = r"[A-Za-z0-9+/]{12,}+={0,2}+"

# What a shell would take for more than one word ends a password, and so does its length.
_IN_PASSWORD = r"[^\s/@\"'`$;&|(){}<>]"

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private-key",
        re.compile(
            rf"{_PEM_MARK.format('BEGIN')}(?:{_PEM_BREAK}{_PEM_HEADER})*+(?:{_PEM_BREAK}{_PEM_LINE})*+"
            rf"(?:(?:{_PEM_BREAK}[A-Za-z0-9+/=]{{1,11}}+)?{_PEM_BREAK}{_PEM_MARK.format('END')})?"
        ),
    ),
    (
        "jwt",
        re.compile(rf"{_AT}eyJ{_WORD}{{8,}}+\.eyJ{_WORD}{{8,}}+(?:\.{_WORD}*+)?"),
    ),
    (
        "bearer-token",
        re.compile(
            r"(?i:\bbearer[ \t]{1,4})(?P<secret>(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{16,})"
            r"|(?i:\bauthorization[\"']{0,2}[ \t]{0,4}[=:][ \t]{0,4}[\"']{0,2}(?:basic|token)[ \t]{1,4})"
            r"(?P<basic>[A-Za-z0-9._~+/=-]{8,})"
        ),
    ),
    (
        "password-in-url",
        re.compile(
            rf"(?<=://)[^\s:/@\"'<>\[\]{{}}]{{0,100}}:(?P<secret>(?!\[redacted:){_IN_PASSWORD}{{1,256}})@"
        ),
    ),
    (
        "registry-password",
        re.compile(
            r"\"auth\"[ \t]{0,4}:[ \t]{0,4}\"(?P<secret>(?=[a-z]*[A-Z0-9+/])[A-Za-z0-9+/]{12,}={0,2})\""
        ),
    ),
    ("cloud-key", re.compile(rf"{_AT}(?:{_CLOUD_KEY})|{_CLOUD_SECRET}")),
    ("webhook", re.compile(r"(?<=https://hooks\.slack\.com/services/)[A-Za-z0-9/_-]{20,}")),
    ("signature", re.compile(r"(?<=[?&]sig=)[A-Za-z0-9%+/=_-]{30,}|(?<=&X-Amz-Signature=)[0-9a-f]{64}")),
    ("api-key", re.compile(rf"{_AT}(?:{_API_KEY})")),
)
"""Kind and expression, in the order they are tried. Where a match has a group, that is the secret."""
