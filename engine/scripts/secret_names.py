"""Which names of variables and options are those of secrets, and which values look random."""

from __future__ import annotations

import math
import re
from itertools import pairwise

LEAST_SECRET = 8
"""Characters: a shorter value, such as `yes`, would be found everywhere."""

_CERTAIN = re.compile(
    r"passw(?:or)?d|passphrase|passwort|kennwort|secret(?!ar)|credential|authori[sz]ation(?:_|$)"
    r"|(?:api|access|private|signing|encryption|account|service|shared|ssh|auth|storage|master)_?key"
    r"|conn(?:ection)?_?str(?:ing)?(?:_|$)|(?:access|auth|bearer|refresh|session|api)_?token"
    r"|(?:database|db|redis|mongo(?:db)?|amqp|broker)_?ur[il]$"
    r"|(?:^|_)(?:jwt|pat|pwd|dsn|creds?|cookies?|otp|totp|bearer)(?:_|$)|x_amz_(?:sig|cred)|^tf_token_"
)
_LIKELY = re.compile(r"(?:token|pass|pwd|pw|psw|auth|(?:^|_)(?:key|sas|sig|signature))$|_key_id$")
"""Ends of names that also other things have."""

_HARMLESS = re.compile(
    r"^(?:old)?pwd$|_(?:file|path|dir|folder|name|env|length|len|size|count|type|limit)$|(?<!key)_id$"
    r"|(?:^|_)(?:by|low|high|band|multi|single|one|two|three|forward|backward|num|n|max|min|per"
    r"|first|second|com|encom|sur)_?pass$"
    r"|(?:^|_)(?:pad|padding|eos|bos|unk|mask|cls|sep|special|start|end|max|min|num|n|image|audio"
    r"|stop|new|next|prefix|by|per|begin|class|oov|blank|separator|patch|a|the|unexpected|invalid"
    r"|first|last)_?token$"
    r"|(?:^|_)(?:sort|image|label|data|target|input|output|text|metric|monitor|column|group|state"
    r"|cache|batch|primary|foreign|feature|index|dict|prng|rng|query|score|join|public|reward)_?key$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_RANDOM = re.compile(r"(?<![\w./+=-])[A-Za-z0-9+/_=-]{20,2000}(?![\w./-])")
_KNOWN_RANDOM = re.compile(
    r"commit|revision|sha\d*(?:_|$)|hash|md5|checksum|digest|(?:^|_)(?:u?uid|id|etag|version|name)(?:_|$)"
)
"""Names whose values look random and are no secrets."""

_NAME_BEFORE = re.compile(r"(?:([A-Za-z][\w.-]*)[\"']?\s*[=:]\s*|--?([A-Za-z][\w-]*)\s+)[\"']?$")


def is_secret_name(name: str, value: str) -> bool:
    """Whether what has this name, and this value, is a secret."""
    plain = plain_name(name)
    if is_certain_name(name):
        return not is_switch(value)
    is_likely = bool(_LIKELY.search(plain)) and not _HARMLESS.search(plain)
    return is_likely and not _is_number(value) and not is_switch(value)


def is_certain_name(name: str) -> bool:
    """Whether the name alone says that it is one of a secret."""
    plain = plain_name(name)
    return bool(_CERTAIN.search(plain)) and not _HARMLESS.search(plain)


def is_switch(value: str) -> bool:
    """Whether a value says only yes or no."""
    return value.lower() in ("true", "false", "yes", "no", "on", "off", "none", "null")


def _is_number(value: str) -> bool:
    try:
        return len(value) < LEAST_SECRET and math.isfinite(float(value))
    except ValueError:
        return False


def plain_name(name: str) -> str:
    """Return the end of a name as words: `a.model.apiKey2` is `model_api_key`."""
    last = ".".join(name.lstrip("+-").split(".")[-2:])
    return re.sub(r"_?\d+$", "", re.sub(r"\W+", "_", _CAMEL.sub("_", last)).lower())


def random_places(text: str, name: str = "") -> list[tuple[int, int]]:
    """Return the places of random words in a text, such as keys; `name` is that of the whole text.

    Words with a known name, such as the hash of a commit, are left out.
    """
    return [
        match.span()
        for match in _RANDOM.finditer(text)
        if _is_random(match[0]) and not _KNOWN_RANDOM.search(_name_of(text, match.start()) or name)
    ]


def _name_of(text: str, place: int) -> str:
    found = _NAME_BEFORE.search(text[max(place - 60, 0) : place])
    return plain_name(found[1] or found[2]) if found else ""


def _is_random(text: str) -> bool:
    """Whether letters and digits change so often as chance would have it."""
    if re.fullmatch(r"[0-9a-f]{32,}", text):
        return True
    longest = max(
        re.split("[^aA0+]", re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "0", text)))),
        key=len,
    )
    changes = sum(a != b for a, b in pairwise(longest))
    least = 0.4 if "A" in longest and "a" in longest else 0.3
    return len(longest) >= 16 and longest.count("0") > 1 and changes >= least * len(longest)
