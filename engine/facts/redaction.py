"""Removes passwords, keys and tokens from texts that a run keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit

from engine.scripts.secrets import looks_secret

HIDDEN = "***"

_LEAST_SECRET = 8
"""Characters: a shorter value, such as `yes`, would be found everywhere."""

_CREDENTIALS = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]*://)[^\s/@'\"<>]+@")
_QUERY = re.compile(
    r"(?P<key>[?&](?:access_token|token|api_?key|key|password|secret|sig|signature)=)[^&\s'\"<>]+",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"\b(?:hf_|sk-|sk_|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|eyJ)[\w.=+/-]{12,}"
)
_PRIVATE_KEY = re.compile(
    r"(?P<begin>-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END |\Z)", re.DOTALL
)


def without_secrets(text: str, values: Iterable[str] = ()) -> str:
    """Return `text` without passwords in addresses, without tokens of known kinds, and without the
    `values`, which are secret."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _LEAST_SECRET:
            text = text.replace(value, HIDDEN)
    text = _CREDENTIALS.sub(rf"\g<scheme>{HIDDEN}@", text)
    text = _QUERY.sub(rf"\g<key>{HIDDEN}", text)
    text = _TOKEN.sub(HIDDEN, text)
    return _PRIVATE_KEY.sub(rf"\g<begin>{HIDDEN}", text)


def remote_address(url: str) -> str:
    """Return the address of a git remote without user, password and query."""
    if "://" not in url:
        return url.rpartition("@")[2] if ":" in url else url  # git@host:path, or a folder
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return ""


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """Return the values of those variables that seem to hold a password, a key or a token."""
    return [value for name, value in environment.items() if looks_secret(name, value)]
