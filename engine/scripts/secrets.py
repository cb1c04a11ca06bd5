"""Which environment variables and words of a command hold secrets, so that none is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

HIDDEN = "***"
"""Stands in the place of a secret."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|API_?KEY|KEY|CREDENTIALS?|AUTH|COOKIE"
    r"|DSN)(?:_|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"^(?:hf_|sk-|sk_|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|eyJ)[\w.=+/-]{12,}$"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|^\w[\w+.-]*://[^/\s:@]+:[^/\s@]+@"  # a password in an address
)


def looks_secret(name: str, value: str) -> bool:
    """Whether the variable `name` seems to hold a password, a key or a token."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def shown_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command without passwords, keys and tokens: as it may be shown.

    These are in words that look like one, and behind options such as `--api-key`.
    """
    found: list[str] = []
    is_value = False
    for word in command:
        name, equals, value = word.partition("=")
        option = name.lstrip("+-").replace("-", "_").rpartition(".")[2]
        if looks_secret("", word) or (is_value and not word.startswith("-")):
            found.append(HIDDEN)
        elif equals and looks_secret(option, value):
            found.append(f"{name}={HIDDEN}")
        else:
            found.append(word)
        is_value = word.startswith("-") and not equals and looks_secret(option, "")
    return found


def split_secrets(variables: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that may be stored, and those that must not."""
    secret = {name: value for name, value in variables.items() if looks_secret(name, value)}
    return {name: value for name, value in variables.items() if name not in secret}, secret


def missing_secrets(names: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Return those of `names` that are not in `environment`."""
    return [name for name in names if name not in environment]
