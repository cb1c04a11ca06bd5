"""Secrets in variables, words of a command and texts: what is stored, and what is shown instead.

Of a variable, the value is stored only if its name is on a list, or if the user says so. In words
and texts, names and shapes of values are all that can be known: what is found there is taken out.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from engine.scripts.command_secrets import CommandReader, Span, spans_of_tools
from engine.scripts.secret_names import LEAST_SECRET, is_certain_name, is_secret_name, random_places

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
_LOGIN_CALL = re.compile(r"\blogin\(\s*\\?[\"']([^\"'\\\s]{8,})")
_SAID = re.compile(
    r"(?<![\w-])(?:pass:|/p(?:ass|assword)?:)([^\s'\"]{2,500})"
    r"|(?:^|\s)(?:echo|printf)(?:\s+-\w+)*\s+(?:'%s[^']*'\s+)?([^|;&\n]{1,300}?)\s*\|[^|;&\n]{0,200}"
    r"(?:sudo\s[^|;&\n]{0,99}-S\b|stdin\b|passwd\b|with-token\b|\blogin\b)"
    r"|(?:stdin|with-token|login|sudo -S)\b[^|;&\n]{0,99}<<<\s*([^\s|;&]+)"
    r"|(?<![\w/:.=-])[\w.+-]{1,99}:(?!\d)([^\s/@:'\"]{4,200})@(?!sha256)[A-Za-z0-9]"
)
"""`-passin pass:x`, `echo x | sudo -S`, `docker login --password-stdin <<< x`, `ada:x@host`."""

_NAMED = re.compile(
    r"(?<![\w.-])(?:-D(?=\w)|-*)(?P<name>[A-Za-z_][\w.-]*)(?:"
    r"(?P<tight>=|\\?[\"']\s*[:=]\s*|\\?[\"']\]\s*=\s*(?=\\?[\"']))|\s*[=:]\s*)"
)
_GIVEN_NAME = re.compile(
    r"\b(?:get|getenv|pop|putenv|setdefault|setenv)\(\s*\\?[\"'](?P<name>[A-Za-z_]\w*)"
    r"\\?[\"']\s*,\s*(?=\\?[\"'])"
)
_VALUE = re.compile(
    r"(?P<quote>\\?[\"'])?(?P<value>(?(quote)[^\"'\\]{1,9999}|[^\s\"',;&|)}\]]{1,9999}))"
)
_OPTION = re.compile(r"(?:^|\s)--?(?P<name>[A-Za-z][\w.-]*)\s+(?=[^\s-])")
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|(?:self|cls|args|cfg|config|conf|os|opts?|options|params|settings)\.\w"
    r"|(?:str|int|bool|bytes|None|Any|Optional)(?![\w-])|(?:Bearer|Basic|Token)\s"
)
_PLAIN_VALUE = re.compile(r"[/~].*|[\d.,eE+-]+|[a-z_./-]+|[A-Z_]+", re.DOTALL)
_TAKEN = re.compile(
    rf"[\"']?(?:\$\{{?\w+\}}?|\$\(.*|\{{[\w.]*\}}|\*\*\*)[\"']?|.*\$\{{{ARGUMENT}\w+\}}.*",
    re.DOTALL,
)
"""What is no secret itself: `$TOKEN`, `{token}`, and what has the place of one."""

_PLACE = re.compile(rf"\$\{{({ARGUMENT}\w+)\}}")


_Value = TypeVar("_Value")
_Put = Callable[[str, str], str]
"""Gets name and value of a secret, and returns what stands in its place."""


def looks_secret(name: str, value: str) -> bool:
    """Whether the variable or option `name` seems to hold a password, a key or a token."""
    return is_secret_name(name, value) or bool(_spans(value, in_word=True, name=name))


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
        if len(value) >= LEAST_SECRET:
            text = text.replace(value, HIDDEN)
    return _with_spans(text, _spans(text), lambda name, value: HIDDEN)


def shown_setting(name: str, value: _Value) -> _Value | str:
    """Return the value of a setting as it may be shown: without what seems to be a secret."""
    text = str(value)
    if text and is_secret_name(name, text):
        return HIDDEN
    if not isinstance(value, str):
        return value
    return _with_spans(value, _spans(value, in_word=True, name=name), lambda name, value: HIDDEN)


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


def _replaced(words: Iterable[str], put: _Put) -> list[str]:
    reader = CommandReader(may_store)
    return [_with_spans(word, _spans_of_word(word, reader), put) for word in words]


def _spans_of_word(word: str, reader: CommandReader) -> list[Span]:
    name = reader.option
    by_place = reader.secret_in(word) or reader.inner(word)
    return _apart(word, [*by_place, *_found(word, in_word=True, name=name)])


def _with_spans(text: str, spans: Iterable[Span], put: _Put) -> str:
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.begin], put(span.name, text[span.begin : span.end])]
        end = span.end
    return "".join([*parts, text[end:]])


def _spans(text: str, *, in_word: bool = False, name: str = "") -> list[Span]:
    """Return the places of secrets in `text`, in order and apart from each other.

    `in_word`: it is a word of a command or a setting, where `token: x` is no prose.
    """
    found = _found(text, in_word=in_word, name=name)
    return _apart(text, found if in_word else [*found, *spans_of_tools(text, may_store)])


def _found(text: str, *, in_word: bool, name: str) -> list[Span]:
    found = [Span(*match.span(), "token") for match in _SHAPES.finditer(text)]
    for pattern, kind in _PATTERNS:
        found += [Span(*match.span(match.lastindex or 0), kind) for match in pattern.finditer(text)]
    found += _named_spans(text, in_word=in_word)
    if in_word:
        found += [Span(*place, "secret") for place in random_places(text, name)]
    return found


def _apart(text: str, found: Iterable[Span]) -> list[Span]:
    """Return the places that hold a secret still, in order and apart from each other."""
    apart: list[Span] = []
    for span in sorted(found):
        if span.begin == span.end or _TAKEN.fullmatch(text, span.begin, span.end):
            continue
        if apart and span.begin < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(span.end, apart[-1].end))
        else:
            apart.append(span)
    return apart


def _named_spans(text: str, *, in_word: bool) -> Iterator[Span]:
    """Yield values behind a name: `password=x`, `"apiKey": "x"`, `--token x`."""
    for pattern in (_NAMED, _OPTION, _GIVEN_NAME):
        for match in pattern.finditer(text):
            if not is_secret_name(match["name"], HIDDEN):  # before the value, which may be long
                continue
            value = _VALUE.match(text, match.end())
            if value is None or not is_secret_name(match["name"], value["value"]):
                continue
            is_loose = pattern is _NAMED and not match["tight"] and not value["quote"]
            in_word_alone = in_word and text[match.start() - 1 : match.start()] != "/"  # no path
            if is_loose and not in_word_alone and not is_certain_name(match["name"]):
                continue
            if value["quote"] or not _CODE.match(text, value.start("value")):
                yield Span(*value.span("value"), match["name"])


_PATTERNS = (
    (_PRIVATE_KEY, "private_key"),
    (_IN_ADDRESS, "password"),
    (_SCHEME, "token"),
    (_LOGIN_CALL, "token"),
    (_SAID, "password"),
)
_GIVEN = re.compile(r"(?P<name>--(?:stored-)?var=\w+)=.*", re.DOTALL)
