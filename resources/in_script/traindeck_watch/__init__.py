"""What watches an unmodified training script from inside its own Python (standard library only)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traindeck_watch.watch import Watch

_watch: Watch | None = None


def begin(folder: str) -> None:
    """Watch this process if it is part of the run's command; `folder` holds our packages.

    Compilers, package managers and helpers of `multiprocessing` are left alone.
    """
    global _watch
    from traindeck_watch import role

    own = role.of_this_process()
    if own is role.Role.NONE:
        return
    from traindeck_watch.imports import Imports

    imports = Imports(folder)
    if own is role.Role.LAUNCHER:
        # It trains nothing itself; what it starts is watched.
        sys.meta_path.insert(0, imports)
        return
    from traindeck_watch.watch import Watch

    _watch = Watch()
    imports.watch = _watch
    sys.meta_path.insert(0, imports)
    imports.patch_what_is_loaded()
    if own is role.Role.MAIN:
        os.environ[role.WATCHED_VARIABLE] = str(os.getpid())
        _watch.connect()


def current() -> Watch | None:
    """Return the watch of this process, if it has one."""
    return _watch
