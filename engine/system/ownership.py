"""Checks that folders belong to this user, where the system has owners of files.

A run contains a recipe, which is code. A user who can write to the folder of a run could therefore
make Traindeck run other code.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_own(path: Path) -> bool:
    """Whether this user owns `path`; True where the system has no owners. Raises OSError."""
    return not hasattr(os, "geteuid") or path.stat().st_uid == os.geteuid()


def is_private(folder: Path) -> bool:
    """Whether only this user can create files in `folder`. Raises OSError."""
    if not hasattr(os, "geteuid"):
        return True  # Windows protects a user's folders by other means
    return is_own(folder) and not folder.stat().st_mode & _OTHERS_MAY_WRITE


def make_private(folder: Path) -> None:
    """Remove the permissions of other users from `folder`, if they can write to it.

    Raises OSError; if the folder belongs to another user, its text is a sentence.
    """
    if is_private(folder):
        return
    if not is_own(folder):
        raise PermissionError(
            f"{folder} belongs to another user, who could put code into it. "
            "Set TRAINDECK_HOME to a folder of your own"
        )
    folder.chmod(0o700)
