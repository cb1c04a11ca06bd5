"""`environments.json` in the data folder: the environments that the user has named.

Writers hold a lock and replace the file atomically, so that readers need no lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from engine.environments.activation import PROGRAM, python_of
from engine.environments.needs import FRAMEWORKS, TITLES
from engine.files.atomic_file import write_atomically
from engine.files.format_version import FormatVersion
from engine.files.regular_file import LARGEST_JSON, read_regular
from engine.system import paths
from engine.system.program import call

FILE_NAME = "environments.json"
FORMAT = FormatVersion(1, 0)
"""The key `format`. `docs/compatibility.md` lists the versions, and when to increase it."""

OWN = "traindeck"
"""The name that means the Python of Traindeck itself."""

BEING_MADE = "being-made"
"""A file in the folder of an environment that is not complete; its maker holds a lock on it."""

LONGEST_NAME = 60
_LOCK_SECONDS = 10.0
_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f]")


class Facts(msgspec.Struct, frozen=True):
    """What a check of an environment has found."""

    python: str = ""
    """Its version, such as `3.11.7`."""

    versions: dict[str, str] = {}
    """Of the frameworks that are installed, by package."""

    cuda: dict[str, str] = {}
    """The CUDA version that each is built for; empty: it cannot use GPUs."""

    gpus: dict[str, int] = {}
    """How many GPUs each sees."""

    problems: tuple[str, ...] = ()
    """Why it cannot be used, or not for a framework: sentences."""

    notices: tuple[str, ...] = ()
    checked: float = 0.0
    """Seconds since the epoch."""


class Environment(msgspec.Struct, frozen=True):
    """A Python that the user has named."""

    name: str
    python: str
    """The path of its program."""

    is_ours: bool = False
    """Whether Traindeck has made it, in its data folder, and deletes it with its name."""

    default_for: tuple[str, ...] = ()
    """The frameworks whose recipes it trains unless a run says otherwise: keys of FRAMEWORKS."""

    facts: Facts = Facts()


class _Document(msgspec.Struct):
    format: str = str(FORMAT)
    environments: list[Environment] = []


class UnreadableRegistry(OSError):
    """The list of environments is damaged; the text is a clause."""


class RegistryTooNew(UnreadableRegistry):
    """A newer Traindeck has written the list of environments."""


class CannotChange(Exception):
    """What was asked of the list is not possible; the text is a sentence."""


def folder() -> Path:
    """Return where the environments lie that Traindeck has made; it need not exist."""
    return paths.home() / "environments"


def environments() -> list[Environment]:
    """Return the named environments by their names. Raises UnreadableRegistry."""
    return sorted(_read().environments, key=lambda each: each.name.casefold())


def find(name: str) -> Environment | None:
    """Return the environment `name`; None if there is none. Raises UnreadableRegistry."""
    return next((each for each in _read().environments if each.name == name), None)


def get(name: str) -> Environment:
    """Return the environment `name`. Raises CannotChange, UnreadableRegistry."""
    if found := find(name):
        return found
    known = ", ".join(each.name for each in environments()) or "none"
    raise CannotChange(f"There is no environment {name!r}; there are: {known}.")


def name_of(interpreter: str) -> str:
    """Return the name of the environment with the Python `interpreter`; empty if it has none.

    Raises UnreadableRegistry.
    """
    return next((each.name for each in _read().environments if each.python == interpreter), "")


def default_interpreter(framework: str) -> str:
    """Return the Python that trains recipes of `framework`; empty: the one of Traindeck.

    `framework`: a key of FRAMEWORKS. Raises UnreadableRegistry.
    """
    listed = _read().environments
    return next((each.python for each in listed if framework in each.default_for), "")


def name_problem(name: str) -> str:
    """Return why `name` is not valid, in a sentence; empty when it is."""
    if not name.strip() or name != name.strip():
        return "An environment needs a name without spaces around it."
    if len(name) > LONGEST_NAME:
        return f"The name of an environment has at most {LONGEST_NAME} characters."
    if found := _FORBIDDEN.search(name):
        return f"The name of an environment cannot hold {found[0]!r}."
    if name.startswith(("-", ".", "~")):
        return f"The name of an environment cannot begin with {name[0]!r}."
    if name == OWN:
        return f"{OWN} is the name of Traindeck's own Python: choose another one."
    return ""


def add(environment: Environment) -> None:
    """Add an environment. Raises CannotChange if its name is taken or not valid; OSError."""
    if problem := name_problem(environment.name):
        raise CannotChange(problem)

    def change(listed: list[Environment]) -> list[Environment]:
        if any(each.name == environment.name for each in listed):
            raise CannotChange(
                f"There is an environment {environment.name!r} already: choose another name, or "
                "remove that one first."
            )
        return [*listed, environment]

    _change(change)


def remove(name: str) -> Environment:
    """Remove an environment from the list, and return it. Raises CannotChange, OSError."""
    found = get(name)
    _change(lambda listed: [each for each in listed if each.name != name])
    return found


def use(name: str, frameworks: Sequence[str]) -> None:
    """Let `name` be the default of `frameworks`; OWN gives them back to Traindeck's own Python.

    Raises CannotChange, OSError.
    """
    if name != OWN:
        get(name)

    def change(listed: list[Environment]) -> list[Environment]:
        changed = []
        for each in listed:
            others = tuple(one for one in each.default_for if one not in frameworks)
            mine = tuple(frameworks) if each.name == name else ()
            changed.append(msgspec.structs.replace(each, default_for=(*others, *mine)))
        return changed

    _change(change)


def record(name: str, facts: Facts) -> None:
    """Remember what a check of `name` has found, if it is still there. Raises OSError."""

    def change(listed: list[Environment]) -> list[Environment]:
        return [
            msgspec.structs.replace(each, facts=facts) if each.name == name else each
            for each in listed
        ]

    _change(change)


def rebuild() -> list[str]:
    """Replace the list by one of the environments that Traindeck has made and whose folders are
    complete; return their names. What a check has found and the defaults are lost. Raises OSError.
    """
    found = [
        Environment(each.name, str(each / PROGRAM), is_ours=True)
        for each in sorted(folder().glob("*"))
        if python_of(each) and not (each / BEING_MADE).exists() and not name_problem(each.name)
    ]
    with _lock():
        _write(found)
    return [each.name for each in found]


def framework_title(framework: str) -> str:
    """Return the name of a framework for a person, such as `PyTorch`."""
    return TITLES.get(framework, framework)  # a newer Traindeck may know more


def known_frameworks() -> tuple[str, ...]:
    """Return the frameworks that may have a default environment."""
    return tuple(FRAMEWORKS)


def _change(change: Callable[[list[Environment]], list[Environment]]) -> None:
    with _lock():
        _write(change(_read().environments))


def _write(listed: list[Environment]) -> None:
    content = msgspec.json.format(msgspec.json.encode(_Document(environments=listed)), indent=2)
    write_atomically(paths.home() / FILE_NAME, content, mode=0o600, sync=True)


@contextmanager
def _lock() -> Iterator[None]:
    from filelock import FileLock, Timeout  # a worker, which reads only, need not have it

    paths.prepare_home()
    try:
        with FileLock(paths.home() / "environments.lock", timeout=_LOCK_SECONDS):
            yield
    except Timeout as error:
        raise OSError(f"another program changes the list of environments: {error}") from error


def _read() -> _Document:
    file = paths.home() / FILE_NAME
    try:
        content = read_regular(file, LARGEST_JSON)
        raw: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
        if newer := FormatVersion.from_text(raw["format"]).why_unreadable(file.name, FORMAT):
            raise RegistryTooNew(newer)
        return msgspec.convert(raw, _Document)
    except FileNotFoundError:
        return _Document()
    except UnreadableRegistry:
        raise
    except (OSError, ValueError, KeyError, RecursionError) as error:
        raise UnreadableRegistry(
            f"the list of environments, {file}, cannot be read ({error}): "
            f"`{call('fsck --repair')}` begins it anew; until then, `--env {OWN}` or the path of a "
            "Python says what to use"
        ) from error
