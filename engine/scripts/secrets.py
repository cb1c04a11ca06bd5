"""Secrets in variables, words of a command and texts: what is stored, and what is shown instead.

Of a variable, the value is stored only if its name is on a list, or if the user says so. In words
and texts, names and shapes of values are all that can be known: what is found there is taken out.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

HIDDEN = "***"
"""Stands in the place of a secret."""

ARGUMENT = "ARGUMENT_"
"""How the names of variables begin that hold secrets of a command: `--password x` is stored as
`--password ${ARGUMENT_PASSWORD}`."""

_STORABLE = re.compile(
    r"(?:CUDA|CUDNN|CUBLAS|NCCL|NVIDIA|NVTE|GLOO|UCX|OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|NUMEXPR|ROCR|HIP"
    r"|HSA|MIOPEN|XLA|TF|TORCH|TORCHINDUCTOR|TRITON|PYTORCH|KERAS|JAX|MALLOC|ACCELERATE|LC)_\w+"
    r"|AUTOGRAPH_VERBOSITY|DISPLAY|HYDRA_FULL_ERROR|LANG|LANGUAGE|LD_LIBRARY_PATH|LOGLEVEL"
    r"|LOG_LEVEL|MPLBACKEND|PATH|PYTHON(?:PATH|HASHSEED|UNBUFFERED|WARNINGS|FAULTHANDLER|OPTIMIZE"
    r"|UTF8|IOENCODING|DONTWRITEBYTECODE)|SEED|TMPDIR|TOKENIZERS_PARALLELISM|TZ"
    r"|(?:HF|TRANSFORMERS|HF_HUB|HF_DATASETS)_(?:HOME|CACHE|OFFLINE|VERBOSITY)"
    r"|HF_HUB_(?:DISABLE|ENABLE)_\w+|WANDB_(?:MODE|DIR|PROJECT|ENTITY|DISABLED|SILENT)"
    r"|CLEARML_OFFLINE_MODE|COMET_MODE|MLFLOW_EXPERIMENT_NAME",
)

_LEAST_SECRET = 8
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

_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:hf_|sk-|sk_|pk_live_|rk_live_|gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|ya29\."
    r"|AKIA|ASIA|AIza|eyJ|SG\.|npm_|pypi-|dop_v1_|shpat_|r8_|gsk_|nvapi-|lsv2_|dapi|hvs\.|pul-"
    r"|AGE-SECRET-KEY-|ATATT|EAAC|sl\.|dckr_pat_|wandb_v\d_)[\w.=+/-]{12,}"
    r"|hooks\.slack\.com/services/[\w/]+"
    r"|\d{8,10}:AA[\w-]{30,})"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)(?=-----END |\Z)", re.DOTALL)
_IN_ADDRESS = re.compile(
    r"(?<=://)(?:[^\s/:@'\"]{0,200}:(?!\d{1,5}/)([^\s'\"]{1,500})|([^\s/:@'\"]{16,500}))@"
)
_SCHEME = re.compile(r"\b(?:Bearer|Basic|Token)\s+([\w.~+/=-]{8,})", re.IGNORECASE)
_USER = re.compile(r"(?:^|\s)(?:-u|--user|--login|--userpwd|--proxy-user)[\s=][^\s:=]+:(\S+)")
_LOGIN = re.compile(
    r"\b(?:wandb|vault)\s+login\s+(?:--?[\w-]+(?:[= ]\w+://\S+)?\s+){0,6}"
    r"((?=[^\s\"';&|]{0,200}\d)[\w.+/=][^\s\"';&|]*)"
)
_LOGIN_CALL = re.compile(r"\blogin\(\s*\\?[\"']([^\"'\\\s]{8,})")
_LOGIN_PASSWORD = re.compile(
    r"\b(?:login(?:\s+[^\s;&|]{1,200}){0,6}?|sshpass)\s+-[pk][\s=]?([^\s\"';&|]+)"
    r"|\b(?:redis-cli|mongo\w*)(?:\s+[^\s;&|]{1,200}){0,6}?\s+-[ap]\s?([^\s\"';&|-][^\s\"';&|]*)"
    r"|\b(?:mysql|mariadb)[\w-]*(?:\s+[^\s;&|]{1,200}){0,6}?\s+-p([^\s\"';&|]+)"
)
_NAMED = re.compile(
    r"(?<![\w.-])(?:-D(?=\w)|-*)(?P<name>[A-Za-z_][\w.-]*)(?:(?P<tight>=|\\?[\"']\s*[:=]\s*)|\s*[=:]\s*)"
)
_VALUE = re.compile(
    r"(?P<quote>\\?[\"'])?(?P<value>(?(quote)[^\"'\\]{1,9999}|[^\s\"',;&|)}\]]{1,9999}))"
)
_OPTION = re.compile(r"(?:^|\s)--?(?P<name>[A-Za-z][\w.-]*)\s+(?=[^\s-])")
_SET = re.compile(
    r"\b(?:setenv|configure\s+set|set\s+-g?x)\s+(?P<name>[A-Za-z_][\w.-]*)\s+(?=[^\s-])"
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|(?:self|cls|args|cfg|config|conf|os|opts?|options|params|settings)\.\w"
    r"|(?:str|int|bool|bytes|None|Any|Optional)(?![\w-])|(?:Bearer|Basic|Token)\s"
)
_PLAIN_VALUE = re.compile(r"[/~].*|[\d.,eE+-]+|[a-z_./-]+|[A-Z_]+", re.DOTALL)
_REFERENCE = re.compile(r"\$\{?\w+\}?$|\{[\w.]*\}$|\*\*\*$")
_PLACE = re.compile(rf"\$\{{({ARGUMENT}\w+)\}}")


class _Span(NamedTuple):
    begin: int
    end: int
    name: str


_Value = TypeVar("_Value")
_Put = Callable[[str, str], str]
"""Gets name and value of a secret, and returns what stands in its place."""


def looks_secret(name: str, value: str) -> bool:
    """Whether the variable or option `name` seems to hold a password, a key or a token."""
    return _is_secret_name(name, value) or bool(_spans(value, in_word=True))


def may_store(name: str, value: str, said: Container[str] = ()) -> bool:
    """Whether the value of a variable may be stored: it is on the list, or the user has `said` so.

    The list is no leave for what looks like a secret, such as `TF_TOKEN_example`.
    """
    return name in said or bool(_STORABLE.fullmatch(name) and not looks_secret(name, value))


def split_secrets(
    variables: Mapping[str, str], said: Container[str] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that may be stored, and those that must not."""
    stored = {name: value for name, value in variables.items() if may_store(name, value, said)}
    return stored, {name: value for name, value in variables.items() if name not in stored}


def missing_secrets(names: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Return those of `names` that are not in `environment`."""
    return [name for name in names if name not in environment]


def split_words(
    words: Sequence[str], taken: Collection[str] = ()
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return a command with the names of variables in place of its secrets, and those variables.

    `taken`: names that others have. `with_secrets` puts the values back.
    """
    found: dict[str, str] = {}

    def place(name: str, value: str) -> str:
        stem = ARGUMENT + (re.sub(r"\W+", "_", name).strip("_").upper() or "SECRET")
        variable = stem
        for number in itertools.count(2):
            if found.get(variable, value) == value and variable not in taken:
                break
            variable = f"{stem}_{number}"
        found[variable] = value
        return f"${{{variable}}}"

    return tuple(_replaced(words, place)), found


def with_secrets(word: str, values: Mapping[str, str]) -> str:
    """Return a stored word of a command with the values of the variables that it names."""
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), word)


def shown_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command without passwords, keys and tokens: as it may be shown.

    Of variables that are given to a script, only the names.
    """
    given = [_GIVEN.sub(rf"\g<name>={HIDDEN}", word) for word in command]
    for at, word in enumerate(command[1:], 1):
        if command[at - 1] in ("--var", "--stored-var"):
            given[at] = re.sub("=.*", f"={HIDDEN}", word, flags=re.DOTALL)
    return _replaced(given, lambda name, value: HIDDEN)


def redacted(text: str, values: Iterable[str] = ()) -> str:
    """Return `text` without what looks like a secret, and without the `values`, which are."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _LEAST_SECRET:
            text = text.replace(value, HIDDEN)
    return _with_spans(text, _spans(text), lambda name, value: HIDDEN)


def shown_setting(name: str, value: _Value) -> _Value | str:
    """Return the value of a setting as it may be shown: without what seems to be a secret."""
    text = str(value)
    if text and _is_secret_name(name, text):
        return HIDDEN
    if not isinstance(value, str):
        return value
    return _with_spans(value, _spans(value, in_word=True), lambda name, value: HIDDEN)


def secret_values(environment: Mapping[str, str], names: Container[str] = ()) -> list[str]:
    """Return the values of those variables that no text may hold: they seem to be a password, a key
    or a token, or are among `names` and no path, number or word, which also other texts have."""
    return [
        value
        for name, value in environment.items()
        if looks_secret(name, value) or (name in names and not _PLAIN_VALUE.fullmatch(value))
    ]


def fingerprint(key: bytes, name: str, value: str) -> str:
    """Return what tells one value of a variable from another, and nothing else without `key`."""
    return hmac.new(key, f"{name}\0{value}".encode(errors="replace"), hashlib.sha256).hexdigest()[
        :8
    ]


def not_stored(mark: str | None) -> str:
    """Return in words that a value is not stored; `mark`: its fingerprint, if it is known."""
    return f"its value is not stored; fingerprint {mark}" if mark else "its value is not stored"


def _is_secret_name(name: str, value: str) -> bool:
    plain = _plain(name)
    if _CERTAIN.search(plain) and not _HARMLESS.search(plain):
        return not _is_switch(value)
    is_likely = bool(_LIKELY.search(plain)) and not _HARMLESS.search(plain)
    return is_likely and not _is_number(value) and not _is_switch(value)


def _is_switch(value: str) -> bool:
    return value.lower() in ("true", "false", "yes", "no", "on", "off", "none", "null")


def _is_number(value: str) -> bool:
    try:
        return len(value) < _LEAST_SECRET and math.isfinite(float(value))
    except ValueError:
        return False


def _replaced(words: Sequence[str], put: _Put) -> list[str]:
    found: list[str] = []
    short = ""
    for word, option in zip(words, _options_of(words), strict=True):
        if program := _PROGRAM.fullmatch(word):
            short = _SHORT[program.lastgroup or ""]
        elif short and word.startswith(short) and len(word) > 2:
            is_open = not _REFERENCE.fullmatch(word[2:])
            found.append(short + put("password", word[2:]) if is_open else word)
            continue
        name, equals, value = word.partition("=")
        is_named = bool(equals) and bool(_FLAG.fullmatch(name))
        if option and not word.startswith("-") and _is_secret_name(option, word.rstrip(",)}]")):
            found.append(word if _REFERENCE.fullmatch(word) else put(option, word))
        elif is_named and value and _is_secret_name(name, value):
            found.append(word if _REFERENCE.fullmatch(value) else f"{name}={put(name, value)}")
        else:
            user = _PAIR.fullmatch(word) if option in _USERS else None
            is_open = user is not None and not _REFERENCE.fullmatch(user[1])
            spans = (
                [_Span(*user.span(1), "password")]
                if user and is_open
                else _spans(word, in_word=True)
            )
            found.append(_with_spans(word, spans, put))
    return found


def _options_of(words: Iterable[str]) -> Iterator[str]:
    """Yield for each word the name of the option or key whose value it is; else an empty text."""
    option = before = login = ""
    for word in words:
        is_flag = word.startswith("-")
        if login in _KEY_FOLLOWS and not is_flag and "://" not in word:
            option = "token"
        elif login and option in ("p", "k", "a"):
            option = "password"
        yield option
        if word == "login" or _LOGS_IN.search(word):
            login = before.rpartition("/")[2] or word
        if is_flag and "=" not in word:
            option = "" if "$" in word else word.lstrip("+-")
        elif opened := _OPENED.search(word[-_LONGEST_NAME:]):  # `{token:` and a value of its own
            option = opened[1]
        else:
            is_name = not option and len(word) < _LONGEST_NAME and _BARE_NAME.fullmatch(word)
            is_variable = "_" in word and word.isupper()
            option = word if is_name and (is_variable or _CERTAIN.search(_plain(word))) else ""
        before = word


def _with_spans(text: str, spans: Iterable[_Span], put: _Put) -> str:
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.begin], put(span.name, text[span.begin : span.end])]
        end = span.end
    return "".join([*parts, text[end:]])


def _spans(text: str, *, in_word: bool = False) -> list[_Span]:
    """Return the places of secrets in `text`, in order and apart from each other.

    `in_word`: it is a word of a command, where `token: x` is no prose.
    """
    found = [_Span(*match.span(), "token") for match in _SHAPES.finditer(text)]
    for pattern, name in _PATTERNS:
        found += [
            _Span(*match.span(match.lastindex or 0), name) for match in pattern.finditer(text)
        ]
    found += _named_spans(text, in_word=in_word)
    apart: list[_Span] = []
    for span in sorted(found):
        if span.begin == span.end or _REFERENCE.fullmatch(text[span.begin : span.end]):
            continue
        if apart and span.begin < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(span.end, apart[-1].end))
        else:
            apart.append(span)
    return apart


def _named_spans(text: str, *, in_word: bool) -> Iterator[_Span]:
    """Yield values behind a name: `password=x`, `"apiKey": "x"`, `--token x`."""
    for pattern in (_NAMED, _OPTION, _SET):
        for match in pattern.finditer(text):
            if not _is_secret_name(match["name"], HIDDEN):  # before the value, which may be long
                continue
            value = _VALUE.match(text, match.end())
            if value is None or not _is_secret_name(match["name"], value["value"]):
                continue
            is_loose = pattern is _NAMED and not match["tight"] and not value["quote"]
            in_word_alone = in_word and text[match.start() - 1 : match.start()] != "/"  # no path
            if is_loose and not in_word_alone and not _CERTAIN.search(_plain(match["name"])):
                continue
            if value["quote"] or not _CODE.match(text, value.start("value")):
                yield _Span(*value.span("value"), match["name"])


def _plain(name: str) -> str:
    """Return the end of a name as words: `a.model.apiKey2` is `model_api_key`."""
    last = ".".join(name.lstrip("+-").split(".")[-2:])
    return re.sub(r"_?\d+$", "", re.sub(r"\W+", "_", _CAMEL.sub("_", last)).lower())


_PATTERNS = (
    (_PRIVATE_KEY, "private_key"),
    (_IN_ADDRESS, "password"),
    (_SCHEME, "token"),
    (_USER, "password"),
    (_LOGIN, "token"),
    (_LOGIN_CALL, "token"),
    (_LOGIN_PASSWORD, "password"),
)
_KEY_FOLLOWS = ("wandb", "vault")
"""Programs whose `login` is followed by the key itself."""

_LOGS_IN = re.compile(r"(?:^|/)(?:sshpass|redis-cli|mongo(?:sh|dump|restore|export|import)?)$")
_PROGRAM = re.compile(
    r"(?:\S*/)?(?:(?P<p>sshpass|(?:mysql|mariadb)[\w-]*|mongo(?:sh|dump|restore|export|import)?)"
    r"|(?P<a>redis-cli))"
)
_SHORT = {"p": "-p", "a": "-a"}
"""The option of these programs whose value, a password, may stand in the same word."""

_OPENED = re.compile(r"([A-Za-z_][\w.-]*)[\"']?[:=]$")
_LONGEST_NAME = 100
_BARE_NAME = re.compile(r"[A-Za-z][\w-]*")
"""`setenv HF_TOKEN x`, `remote modify password x`."""

_USERS = ("u", "user", "login", "userpwd", "proxy-user")
"""Options whose value is a user, perhaps with a password."""

_PAIR = re.compile(r"[^\s:=/]+:([^\s/]+)")
_FLAG = re.compile(r"[+-]*[A-Za-z_][\w.-]*")
_GIVEN = re.compile(r"(?P<name>--(?:stored-)?var=\w+)=.*", re.DOTALL)
