"""The state of the git repository that holds the code of a run, asked within a limited time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import msgspec

from engine.facts.git_command import Git, GitFailed, NoRepository
from engine.scripts.secrets import redacted

SECONDS = 15.0
"""For all questions together; a status of a huge repository on a slow disk takes minutes."""

LARGEST_DIFF = 2 * 2**20
"""Bytes of the diff that are kept."""

MOST_NAMES = 200
"""Names of files that are kept of each kind."""

_SAID_NAMES = 5
_MOST_LEFT_OUT = 500
"""Files under a filter that can be kept out of a diff: one command takes their names."""

_SUBMODULES = "--ignore-submodules=dirty"
"""To look into one would run the filters that are configured there."""

_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--submodule=short", _SUBMODULES)

_SECRET_FILES = (
    ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "id_rsa*",
    "id_ed25519*", "id_ecdsa*", ".netrc", ".pypirc", ".npmrc", ".git-credentials",
    "*credentials*.json", "*secret*.json", "*secret*.y*ml", "*secret*.toml", "*secret*.ini",
)  # fmt: skip
"""The changes of such files are counted, and not kept."""


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
    another commit is checked out there. Files under a filter of git are in `problem`."""

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
    git = Git(folder, seconds, stop or threading.Event())
    values = tuple(secrets)
    facts: dict[str, Any] = {}
    diff = ""
    try:
        facts["folder"] = git.ask("rev-parse", "--show-toplevel").rstrip("\n")
        git.folder = Path(facts["folder"])
        facts |= _commit(git, values)
        facts["remote"] = _remote(git)
        git.switch_filters_off()
        changed, untracked = _changes(git)
        filtered = sorted(git.filtered(changed))
        changed = [name for name in changed if name not in filtered]
        facts |= _names("changed", changed) | _names("untracked", untracked)
        if not facts["commit"]:
            facts["problem"] = "The repository has no commit yet."
        elif filtered:
            facts["problem"] = _not_compared(filtered)
        if facts["commit"] and changed:
            found, diff = _diff(git, values, filtered)
            facts |= found
    except (FileNotFoundError, NoRepository):
        return None
    except (OSError, GitFailed) as error:
        text = " ".join(redacted(str(error), values).split())[:500]
        facts["problem"] = text if text.endswith(".") else f"{text}."
    return Found(msgspec.convert(facts, GitState), diff)


def _commit(git: Git, secrets: Iterable[str]) -> Mapping[str, object]:
    newest = git.ask("log", "-1", "--no-show-signature", "--format=%H%n%ct%n%s", fails=True)
    commit, when, message, *_ = [*newest.split("\n"), *("",) * 3]
    return {
        "commit": commit,
        "branch": git.ask("symbolic-ref", "--short", "--quiet", "HEAD", fails=True).strip(),
        "message": redacted(message, secrets)[:500],
        "committed": float(when) if when.isdecimal() else 0.0,
    }


def _remote(git: Git) -> str:
    """Return the address of the remote `origin`, or of the first one."""
    names = git.ask("remote", fails=True).split()
    if not names:
        return ""
    name = "origin" if "origin" in names else names[0]
    return remote_address(git.ask("remote", "get-url", name, fails=True).strip())


def _changes(git: Git) -> tuple[list[str], list[str]]:
    """Return the names of the files that differ from the commit, and of those that git ignores not,
    and does not know."""
    status = git.ask("status", "--porcelain=v1", "-z", "--untracked-files=normal", _SUBMODULES)
    changed: list[str] = []
    untracked: list[str] = []
    entries = iter(status.split("\0"))
    for entry in entries:
        kind, name = entry[:2], entry[3:]
        if name:
            (untracked if kind == "??" else changed).append(name)
        if kind[:1] in ("R", "C"):
            next(entries, None)  # the name from which it was renamed
    return changed, untracked


def _names(kind: str, names: Sequence[str]) -> dict[str, object]:
    return {kind: names[:MOST_NAMES], f"{kind}_files": len(names)}


def _not_compared(filtered: Sequence[str]) -> str:
    more = len(filtered) - _SAID_NAMES
    rest = f" and {more:,} more" if more > 0 else ""
    return (
        "Files under a filter of git, such as LFS, are not compared with the commit: "
        f"{', '.join(filtered[:_SAID_NAMES])}{rest}."
    )


def _diff(
    git: Git, secrets: Iterable[str], without: Sequence[str]
) -> tuple[Mapping[str, object], str]:
    """Return facts about the diff, and its text; the files `without` are in none of them."""
    if len(without) > _MOST_LEFT_OUT:
        raise GitFailed(_not_compared(without))
    not_these = [f":(exclude,literal){name}" for name in without]
    not_secret = [f":(exclude,glob,icase)**/{pattern}" for pattern in _SECRET_FILES]
    secret = [f":(glob,icase)**/{pattern}" for pattern in _SECRET_FILES]
    left_out = git.ask(*_DIFF, "--name-only", "-z", "HEAD", "--", *secret, *not_these)
    numbers = git.ask(*_DIFF, "--numstat", "HEAD", "--", ".", *not_these)
    counts = [line.split("\t")[:2] for line in numbers.splitlines()]
    lines = [(int(added), int(removed)) for added, removed in counts if added.isdecimal()]
    shown = git.output(*_DIFF, "HEAD", "--", ".", *not_secret, *not_these, most=LARGEST_DIFF)
    text = redacted(shown[:LARGEST_DIFF].decode("utf-8", "replace"), secrets)
    facts = {
        "added": sum(added for added, _ in lines),
        "removed": sum(removed for _, removed in lines),
        "binary_files": len(counts) - len(lines),
        "diff_bytes": len(text.encode("utf-8", "replace")),
        "diff_is_cut": len(shown) > LARGEST_DIFF,
        "diff_leaves_out": list(filter(None, left_out.split("\0")))[:MOST_NAMES],
    }
    return facts, text


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
