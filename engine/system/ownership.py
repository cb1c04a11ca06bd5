"""Whose a folder is, where the system knows: what another user made is not to be trusted.

A run holds a recipe, which is code. Whoever could plant a run could have it executed.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_mine(path: Path) -> bool:
    """Whether this user owns `path`, or the system keeps no owners. Raises OSError."""
    return not hasattr(os, "geteuid") or path.stat().st_uid == os.geteuid()


def is_mine_alone(folder: Path) -> bool:
    """Whether nobody else can put anything into `folder`. Raises OSError."""
    if not hasattr(os, "geteuid"):
        return True  # Windows guards a user's folders by other means than these bits
    return is_mine(folder) and not folder.stat().st_mode & _OTHERS_MAY_WRITE


def keep_others_out(folder: Path) -> None:
    """Let only this user into `folder`, if others can write to it now.

    Raises OSError, in a sentence, when it belongs to somebody else.
    """
    if is_mine_alone(folder):
        return
    if not is_mine(folder):
        raise PermissionError(
            f"{folder} belongs to another user, who could put code into it. "
            "Set TRAINDECK_HOME to a folder of your own"
        )
    folder.chmod(0o700)
