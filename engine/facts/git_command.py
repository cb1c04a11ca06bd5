"""Calls git within a limited time, without any program that a repository is configured with."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.system.cancelled import Cancelled
from engine.system.program_output import MOST_BYTES, TooLate, output_of

_KEPT_VARIABLES = ("GIT_CONFIG",)
"""How the variables begin that say how git is configured; others would name another repository."""

_SETTINGS = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null"),
    *("core.quotePath=false", "color.ui=false", "diff.noprefix=false"),
)


class GitFailed(Exception):
    """Git could not answer; the text is a sentence."""


class NoRepository(Exception):
    """The folder is in no repository."""


class Git:
    """Asks git about the repository of one folder, and ends it when the time is over."""

    def __init__(self, folder: Path, seconds: float, stop: threading.Event) -> None:
        """All questions together take at most `seconds`; `stop` ends one sooner."""
        self.folder = folder
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._stop = stop
        self._settings = list(_SETTINGS)
        self._filters: set[str] = set()

    def switch_filters_off(self) -> None:
        """Let no filter run that the configuration names: it is a program. Raises GitFailed."""
        found = self.ask("config", "-z", "--name-only", "--get-regexp", r"^filter\.", fails=True)
        keys = (key.removeprefix("filter.") for key in found.split("\0") if key)
        self._filters = {key.rpartition(".")[0] for key in keys}
        for name in sorted(self._filters):
            if "=" in name or "\n" in name:
                raise GitFailed(
                    f"The repository is configured with a filter named {name!r}, which cannot be "
                    "switched off, so git was not asked what has changed"
                )
            off = ("clean=", "smudge=", "process=", "required=false")
            self._settings += [f"filter.{name}.{setting}" for setting in off]

    def filtered(self, names: Sequence[str]) -> set[str]:
        """Return those of the files `names` that a filter would change."""
        if not self._filters or not names:
            return set()
        told = self.ask("check-attr", "-z", "--stdin", "filter", given="\0".join(names))
        words = told.split("\0")  # name, the word "filter" and the value of each file
        pairs = zip(words[0::3], words[2::3], strict=False)
        return {name for name, value in pairs if value in self._filters}

    def ask(self, *arguments: str, fails: bool = False, given: str = "") -> str:
        """Return what git prints; `given` is what it reads.

        Raises FileNotFoundError without git, NoRepository, and GitFailed if it fails, unless
        `fails` says that this is an answer, too: an empty one.
        """
        return self.output(*arguments, fails=fails, given=given).decode("utf-8", "replace")

    def output(
        self,
        *arguments: str,
        fails: bool = False,
        given: str = "",
        most: int = MOST_BYTES,
    ) -> bytes:
        """Return what git prints as `ask` does, but a byte more than `most` if it is more."""
        words = [word for setting in self._settings for word in ("-c", setting)]
        with tempfile.TemporaryFile() as read:
            read.write(given.encode("utf-8", "replace"))
            read.seek(0)
            try:
                answer = output_of(
                    ["git", "--no-optional-locks", *words, *arguments],
                    seconds=self._end - time.monotonic(),
                    is_cancelled=self._stop.is_set,
                    most=most,
                    priority=19,  # the training comes first
                    cwd=self.folder,
                    env=_environment(os.environ),
                    stdin=read,
                )
            except Cancelled:
                raise GitFailed("The run ended before git had answered.") from None
            except TooLate:
                raise GitFailed(
                    f"`git {arguments[0]}` in {self.folder} did not end within "
                    f"{self._seconds:g} s, so what it would have told is not known."
                ) from None
        if answer.code == 0:
            return answer.printed
        errors = answer.said.decode("utf-8", "replace")
        if "not a git repository" in errors:
            raise NoRepository
        if fails:
            return b""
        raise GitFailed(_explained(errors, self.folder))


def _explained(said: str, folder: Path) -> str:
    if "dubious ownership" in said:
        return (
            f"The repository of {folder} belongs to another user, so git does not read it: "
            "`git config --global --add safe.directory FOLDER` allows it."
        )
    if "must be run in a work tree" in said:
        return f"{folder} lies in a bare repository, which has no files that could differ."
    lines = said.strip().splitlines()
    fatal = next((line for line in lines if line.startswith("fatal:")), lines[-1] if lines else "")
    return fatal.removeprefix("fatal:").strip() or "git ended without an answer"


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in own.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES)
    }
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
