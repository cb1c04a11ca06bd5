"""Checks that files and folders belong to this user, where the system has owners of files.

A run contains a recipe, which is code. A user who can write to the folder of a run could therefore
make Traindeck run other code.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.files.atomic_file import create_folders

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(PermissionError):
    """A folder or file of this user's data belongs to another user; the text is a sentence."""


def is_owner(status: os.stat_result) -> bool:
    """Whether a file with this `status` is of this user; True where the system has no owners."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def is_trusted(status: os.stat_result) -> bool:
    """Whether a file with this `status` is of this user, or of root, who can change all files."""
    return is_owner(status) or status.st_uid == 0


def is_private(status: os.stat_result) -> bool:
    """Whether a file with this `status` is of this user, and no other user may write it."""
    # Windows protects a user's folders by other means than a mode.
    return is_owner(status) and not (hasattr(os, "geteuid") and status.st_mode & _OTHERS_MAY_WRITE)


def is_own_folder(path: Path) -> bool:
    """Whether `path` is a folder of this user, or this user's link to one."""
    try:
        status = path.stat()
        return stat.S_ISDIR(status.st_mode) and is_owner(status) and is_owner(path.lstat())
    except FileNotFoundError:
        return False


def folder_problem(folder: Path) -> str:
    """Return why code in `folder` must not run, in a few words; empty if it may. Raises OSError."""
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "its folder is a link"
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not is_owner(status):
        return "its folder belongs to another user"
    if not is_private(status):
        return f"other users may write to its folder; `chmod go-w {folder}` forbids that"
    return ""


def make_private_folder(folder: Path) -> str:
    """Create `folder` for its owner only, and so the missing folders above it.

    If it exists and other users may write to it, remove their permissions, and return a sentence
    about that; else return an empty text. Raises OSError: NotPrivate if it belongs to another
    user, or is a link of another user.
    """
    create_folders(folder)
    status = folder.stat()
    if not (is_trusted(folder.lstat()) and is_owner(status)):
        raise NotPrivate(
            f"{folder} belongs to another user, who could put code into it. "
            "Set TRAINDECK_HOME to a folder of your own."
        )
    if is_private(status):
        return ""
    folder.chmod(0o700)
    return (
        f"Other users could write to {folder}, and so change what your runs do. "
        "It is open to you alone from now on."
    )
