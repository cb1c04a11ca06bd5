"""What an engine does with the environments of this machine: adds, makes, checks, removes."""

from __future__ import annotations

import codecs
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from engine import client
from engine.environments import checks, creation, registry
from engine.environments.creation import CreationFailed, Stage
from engine.environments.needs import TITLES
from engine.environments.registry import OWN, CannotChange, Environment
from engine.files.regular_file import open_regular
from engine.interface.values import CreationPart, RemovedEnvironment
from engine.scripts.interpreters import find_interpreter
from engine.system.cancelled import Cancelled
from engine.system.program import call

TELL_SECONDS = 0.5
"""Between two parts while the installer does one thing."""

MOST_OUTPUT = 8 * 2**10
"""Bytes of the installer's output in one part."""


def make_environment(
    name: str,
    requirements: Sequence[str],
    default_for: str,
    send: Callable[[CreationPart], None],
    is_cancelled: Callable[[], bool],
    base: str = "",
) -> Environment:
    """Make an environment; `send` gets the parts, and may raise OSError.

    Raises what `creation.create` raises.
    """
    news = _News(creation.log_file(name), send)
    try:
        return creation.create(
            name,
            requirements,
            base=str(find_interpreter(base, Path())) if base else "",
            default_for=default_for,
            report=news.report,
            is_cancelled=is_cancelled,
        )
    except CreationFailed:
        news.tell()  # the last words of the installer
        raise


def add_environment(name: str, python: str, folder: str) -> Environment:
    """See `Engine.add_environment`."""
    if problem := registry.name_problem(name):
        raise CannotChange(problem)
    interpreter = find_interpreter(python, Path(folder))
    facts = checks.check(interpreter)
    if not facts.python:
        raise CannotChange(" ".join(facts.problems))
    added = Environment(name, str(interpreter), facts=facts)
    registry.add(added)
    return added


def own_environment() -> Environment:
    """Describe the Python of Traindeck itself, without an import of a framework."""
    given = {each for one in registry.environments() for each in one.default_for}
    defaults = tuple(each for each in registry.known_frameworks() if each not in given)
    return Environment(OWN, sys.executable, default_for=defaults, facts=checks.own_facts())


def check_environment(name: str) -> Environment:
    """See `Engine.check_environment`."""
    found = Environment(OWN, sys.executable) if name == OWN else registry.get(name)
    facts = checks.check(Path(found.python))
    if name != OWN:
        registry.record(name, facts)
    return msgspec.structs.replace(found, facts=facts)


def remove_environment(name: str) -> RemovedEnvironment:
    """See `Engine.remove_environment`."""
    found = registry.get(name)
    using = [info for info in client.runs() if info.spec.interpreter == found.python]
    if active := [info.id for info in using if not info.state.is_over]:
        text = f"Run {', '.join(active)} uses the environment {name!r}: stop it first."
        raise CannotChange(text)
    registry.remove(name)
    is_deleted = creation.delete(found)
    creation.remove_leftovers()
    return RemovedEnvironment(found, is_deleted, tuple(info.id for info in using))


def use_environment(name: str, frameworks: Sequence[str]) -> tuple[str, ...]:
    """See `Engine.use_environment`."""
    own = name == OWN
    known = registry.known_frameworks() if own else tuple(registry.get(name).facts.versions)
    chosen = tuple(dict.fromkeys(frameworks)) or known
    if not chosen:
        text = f"The environment {name!r} has no framework: say `--for tensorflow`."
        raise CannotChange(text)
    if lacking := [each for each in chosen if each not in known]:
        titles = " and ".join(TITLES[each] for each in lacking)
        checked = call(f"env check {shlex.quote(name)}")
        raise CannotChange(
            f"The environment {name!r} has no {titles}, as far as is known: install it there, "
            f"then `{checked}`."
        )
    registry.use(name, chosen)
    return chosen


class _News:
    """Sends what is new of one creation."""

    def __init__(self, log: Path, send: Callable[[CreationPart], None]) -> None:
        self._log = log
        self._send = send
        self._read = 0
        """Bytes of the log that were sent, or left out."""

        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._stage = self._told = Stage("", 0)
        self._told_at = 0.0

    def report(self, stage: Stage) -> None:
        """Take the stage of now, and send it if it is time to. Raises Cancelled."""
        self._stage = stage
        is_due = time.monotonic() >= self._told_at + TELL_SECONDS
        if stage.doing != self._told.doing or is_due:
            self.tell()

    def tell(self) -> None:
        """Send what is new, if anything is. Raises Cancelled if it does not arrive."""
        output = self._decode(self._new_output())
        self._told_at = time.monotonic()
        if not output and self._stage == self._told:
            return
        self._told = self._stage
        try:
            self._send(CreationPart(self._stage.doing, self._stage.bytes, output))
        except OSError:  # the connection has ended
            raise Cancelled from None

    def _new_output(self) -> bytes:
        try:
            with open_regular(self._log) as file:
                self._read = max(self._read, file.seek(0, 2) - MOST_OUTPUT)
                file.seek(self._read)
                new = file.read(MOST_OUTPUT)
        except OSError:
            return b""
        self._read += len(new)
        return new
