"""The state of the git repository that holds the code of a run, asked within a limited time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.facts.redaction import remote_address, without_secrets
from engine.processes import children

SECONDS = 15.0
"""For all questions together; a status of a huge repository on a slow disk takes minutes."""

LARGEST_DIFF = 2 * 2**20
"""Bytes of the diff that are kept."""

MOST_NAMES = 200
"""Names of files that are kept of each kind."""

_SAID_NAMES = 5
_MOST_AT_ONCE = 500
"""Names that one command takes."""

_SUBMODULES = "--ignore-submodules=dirty"
"""To look into one would run the filters that are configured there."""

_LARGEST_ANSWER = 16 * 2**20
_PIECE = 2**16

_SECRET_FILES = (
    ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "id_rsa*",
    "id_ed25519*", "id_ecdsa*", ".netrc", ".pypirc", ".npmrc", ".git-credentials",
    "*credentials*.json", "*secret*.json", "*secret*.y*ml", "*secret*.toml", "*secret*.ini",
)  # fmt: skip
"""The changes of such files are counted, and not kept."""

_OF_OTHERS = ("GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Variables of git that say how it is configured; the others would name another repository."""


class GitState(msgspec.Struct, frozen=True, kw_only=True):
    """Which code it was. What could not be found out is empty, and `problem` says why."""

    folder: str = ""
    """The folder at the top of the repository."""

    commit: str = ""
    branch: str = ""
    """Empty: no branch is checked out."""

    message: str = ""
    """The first line of the commit's message."""

    committed: float = 0.0
    """Seconds since the epoch."""

    remote: str = ""
    """Without user and password."""

    changed: tuple[str, ...] = ()
    """Names of files that differ from the commit, at most MOST_NAMES; a submodule is one of them if
    another commit is checked out there. Files that only a filter could compare are in `problem`."""

    changed_files: int = -1
    """-1: not known."""

    untracked: tuple[str, ...] = ()
    """Names of files and folders that git does not know and does not ignore, at most MOST_NAMES.
    Their content is kept nowhere."""

    untracked_files: int = -1
    added: int = 0
    """Lines."""

    removed: int = 0
    binary_files: int = 0
    """Changed files without lines."""

    diff_bytes: int = 0
    """Bytes of the diff that were kept; 0: there is none."""

    diff_is_cut: bool = False
    """Whether the diff was longer than that."""

    diff_leaves_out: tuple[str, ...] = ()
    """Changed files whose names say that they hold secrets."""

    problem: str = ""
    """A sentence."""

    @property
    def is_dirty(self) -> bool:
        """Whether files differ from the commit."""
        return self.changed_files > 0


class Found(NamedTuple):
    """A state, and the text of the diff that belongs to it."""

    state: GitState
    diff: str


class _Failed(Exception):
    """Git could not answer; the text is a sentence."""


class _NoRepository(Exception):
    """The folder is in no repository."""


class _Answer(NamedTuple):
    text: str
    is_cut: bool


def git_state(
    folder: Path,
    secrets: Iterable[str] = (),
    *,
    seconds: float = SECONDS,
    stop: threading.Event | None = None,
) -> Found | None:
    """Return the state of the repository that `folder` is in; None: it is in none, or there is no
    git.

    `secrets` are values that no text may hold. It takes at most `seconds`; `stop` ends it sooner.
    """
    git = _Git(folder, seconds, stop)
    values = tuple(secrets)
    try:
        top = git.ask("rev-parse", "--show-toplevel").text.rstrip("\n")
    except (FileNotFoundError, _NoRepository):
        return None
    except (OSError, _Failed) as error:
        return Found(GitState(problem=_sentence(error, values)), "")
    facts: dict[str, object] = {"folder": top}
    diff = ""
    try:
        facts |= _commit(git, values)
        facts["remote"] = _remote(git)
        git.switch_filters_off()
        changes, filtered = _changes(git, top)
        facts |= changes
        if not facts["commit"]:
            facts["problem"] = "The repository has no commit yet."
        elif facts["changed_files"]:
            found, diff = _diff(git, values, filtered)
            facts |= found
        if filtered:
            facts["problem"] = _not_compared(filtered)
    except (OSError, _Failed) as error:
        facts["problem"] = _sentence(error, values)
    return Found(msgspec.convert(facts, GitState), diff)


def _sentence(error: Exception, secrets: Iterable[str]) -> str:
    text = " ".join(without_secrets(str(error), secrets).split())[:500]
    return text if text.endswith(".") else f"{text}."


def _commit(git: _Git, secrets: Iterable[str]) -> dict[str, object]:
    newest = git.ask("log", "-1", "--no-show-signature", "--format=%H%n%ct%n%D%n%s", fails=True)
    commit, when, names, message, *_ = [*newest.text.split("\n"), *("",) * 4]
    first = names.split(", ")[0]
    branch = first.removeprefix("HEAD -> ") if first.startswith("HEAD -> ") else ""
    if not commit:
        branch = git.ask("symbolic-ref", "--short", "HEAD", fails=True).text.strip()
    return {
        "commit": commit,
        "branch": branch,
        "message": without_secrets(message, secrets)[:500],
        "committed": float(when) if when.isdecimal() else 0.0,
    }


def _remote(git: _Git) -> str:
    """Return the address of the remote `origin`, or of the first one."""
    lines = [line.split() for line in git.ask("remote", "-v", fails=True).text.splitlines()]
    found = {name: url for name, url, *_ in reversed([each for each in lines if len(each) > 1])}
    if not found:
        return ""
    return remote_address(found.get("origin") or found[min(found)])


def _changes(git: _Git, top: str) -> tuple[dict[str, object], list[str]]:
    """Return names and numbers of the files that differ from the commit; and the names of those
    that only a filter of git, such as that of LFS, could compare with it."""
    status = git.ask(
        *("status", "--porcelain=v1", "-z", "--untracked-files=normal", _SUBMODULES),
    )
    changed, untracked = [], []
    entries = iter(status.text.split("\0"))
    for entry in entries:
        kind, name = entry[:2], entry[3:]
        if not name:
            continue
        if kind == "??":
            untracked.append(name)
            continue
        changed.append(name)
        if kind[0] in "RC":
            next(entries, None)  # the name from which it was renamed
    filtered = git.filtered(top, changed)
    if filtered:
        changed = [name for name in changed if name not in filtered]
    facts: dict[str, object] = {
        "changed": changed[:MOST_NAMES],
        "changed_files": len(changed),
        "untracked": untracked[:MOST_NAMES],
        "untracked_files": len(untracked),
    }
    return facts, sorted(filtered)


def _not_compared(filtered: Sequence[str]) -> str:
    names = ", ".join(filtered[:_SAID_NAMES])
    more = len(filtered) - _SAID_NAMES
    rest = f" and {more:,} more" if more > 0 else ""
    return (
        f"These files may differ from the commit: {names}{rest}. A filter of git (as that of LFS) "
        "is needed to compare them, and no program of a repository is run for this."
    )


def _diff(
    git: _Git, secrets: Iterable[str], without: Sequence[str]
) -> tuple[dict[str, object], str]:
    """Return facts about the diff, and its text; the files `without` are in none of them."""
    options = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", _SUBMODULES)
    names = git.ask("diff", *options, "--name-only", "-z", "HEAD", "--", *_only(_SECRET_FILES))
    left_out = [name for name in names.text.split("\0") if name and name not in without]
    not_these = [f":(top,exclude,literal){name}" for name in without[:_MOST_AT_ONCE]]
    if len(without) > _MOST_AT_ONCE:
        raise _Failed(_not_compared(without))
    numbers = git.ask("diff", *options, "--numstat", "-z", "HEAD", "--", ":/", *not_these).text
    added = removed = binary = 0
    for line in numbers.split("\0"):
        plus, minus, *_ = [*line.split("\t"), "", ""]
        if plus.strip() == minus == "-":
            binary += 1
        elif plus.strip().isdecimal() and minus.isdecimal():
            added, removed = added + int(plus), removed + int(minus)
    shown = git.ask(
        *("diff", *options, "HEAD", "--", ":/", *_without(_SECRET_FILES), *not_these),
        most=LARGEST_DIFF,
    )
    text = without_secrets(shown.text, secrets)
    facts: dict[str, object] = {
        "added": added,
        "removed": removed,
        "binary_files": binary,
        "diff_bytes": len(text.encode("utf-8", "replace")),
        "diff_is_cut": shown.is_cut,
        "diff_leaves_out": left_out[:MOST_NAMES],
    }
    return facts, text


def _only(patterns: Iterable[str]) -> list[str]:
    return [f":(top,glob,icase)**/{pattern}" for pattern in patterns]


def _without(patterns: Iterable[str]) -> list[str]:
    return [f":(top,exclude,glob,icase)**/{pattern}" for pattern in patterns]


class _Git:
    """Asks git about the repository of one folder, and ends it when the time is over."""

    def __init__(self, folder: Path, seconds: float, stop: threading.Event | None) -> None:
        self._folder = folder
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._stop = stop or threading.Event()
        self._filters: set[str] = set()

    def switch_filters_off(self) -> None:
        """Let no filter run that the configuration names: it is a program. Raises _Failed."""
        found = self.ask(
            "config", "--null", "--name-only", "--get-regexp", r"^filter\.", fails=True
        )
        names = (key.removeprefix("filter.") for key in found.text.split("\0") if key)
        self._filters = {name.rpartition(".")[0] for name in names}
        if bad := [name for name in self._filters if "=" in name or "\n" in name]:
            raise _Failed(
                f"The repository is configured with a filter named {bad[0]!r}, which cannot be "
                "switched off, so git was not asked what has changed"
            )

    def filtered(self, top: str, names: Sequence[str]) -> set[str]:
        """Return those of the files `names` below the folder `top` that a filter would change."""
        found: set[str] = set()
        for first in range(0, len(names) if self._filters else 0, _MOST_AT_ONCE):
            some = names[first : first + _MOST_AT_ONCE]
            places = [f"{top}/{name}" for name in some]
            told = self.ask("check-attr", "-z", "filter", "--", *places).text.split("\0")
            values = told[2::3]  # after the place and the word "filter"
            found |= {
                name for name, value in zip(some, values, strict=False) if value in self._filters
            }
        return found

    def ask(self, *arguments: str, fails: bool = False, most: int = _LARGEST_ANSWER) -> _Answer:
        """Return what git prints, at most `most` bytes of it.

        Raises FileNotFoundError without git, and _Failed if it fails, unless `fails` says that this
        is an answer, too.
        """
        process = children.start(
            # No program of the repository's configuration runs, and nothing is written or fetched.
            ["git", "--no-optional-locks", *_PLAIN, *self._without_filters(), *arguments],
            cwd=self._folder,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with contextlib.suppress(OSError):  # the training comes first
            os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        pieces: dict[str, bytes] = {}
        readers = [
            threading.Thread(target=_read, args=(pieces, process, name, most), daemon=True)
            for name in ("stdout", "stderr")
        ]
        for reader in readers:
            reader.start()
        try:
            self._wait(readers[0], arguments[0])
            is_cut = len(pieces["stdout"]) > most
            if is_cut:
                _kill(process)
            readers[1].join(1.0)
            code = process.wait(max(0.1, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise self._late(arguments[0]) from None
        finally:
            _kill(process)
            process.wait()
        text = pieces["stdout"][:most].decode("utf-8", "replace")
        if not code or is_cut:
            return _Answer(text, is_cut)
        said = pieces.get("stderr", b"").decode("utf-8", "replace")
        if "not a git repository" in said:
            raise _NoRepository
        if fails:
            return _Answer("", is_cut=False)
        raise _Failed(_explained(said, self._folder))

    def _without_filters(self) -> list[str]:
        off = ("clean=", "smudge=", "process=", "required=false")
        return [
            word
            for name in sorted(self._filters)
            for setting in off
            for word in ("-c", f"filter.{name}.{setting}")
        ]

    def _wait(self, reader: threading.Thread, what: str) -> None:
        while reader.is_alive():
            if self._stop.is_set():
                raise _Failed("The run ended before git had answered.")
            left = self._end - time.monotonic()
            if left <= 0:
                raise self._late(what)
            reader.join(min(left, 0.1))

    def _late(self, what: str) -> _Failed:
        return _Failed(
            f"`git {what}` in {self._folder} did not end within {self._seconds:g} s, so what it "
            "would have told is not known."
        )


_PLAIN = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "color.ui=false",
    "-c",
    "diff.noprefix=false",
)


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
        if not name.startswith("GIT_") or name.startswith(_OF_OTHERS)
    }
    return kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "LC_ALL": "C",
    }


def _read(pieces: dict[str, bytes], process: subprocess.Popen[bytes], name: str, most: int) -> None:
    stream = getattr(process, name)
    found = b""
    with contextlib.suppress(OSError, ValueError), stream:
        while len(found) <= most and (piece := stream.read1(_PIECE)):
            found += piece
    pieces[name] = found


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill git and the filters that it has started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
