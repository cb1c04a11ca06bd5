"""A folder with our packages alone, for the path of a worker in another environment."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from engine.environments import registry
from engine.files.ownership import make_private_folder
from engine.processes.process import PROJECT
from engine.system import paths

PACKAGES = ("engine", "resources")


def folder() -> Path:
    """Return a folder that has links to PACKAGES and nothing else; make it if it is missing.

    The folder in which Traindeck is installed may hold all packages of its environment. Each
    installation has a folder of its own. Raises OSError.
    """
    paths.prepare_home()
    make_private_folder(registry.folder())
    number = hashlib.sha256(os.fsencode(PROJECT)).hexdigest()[:12]
    found = registry.folder() / f".traindeck-{number}"
    make_private_folder(found)
    for name in PACKAGES:
        _link(found / name, PROJECT / name)
    return found


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    temporary = link.with_name(f".{link.name}.{secrets.token_hex(3)}.tmp")
    temporary.symlink_to(target, target_is_directory=True)
    try:
        temporary.replace(link)  # another process may make it at this moment
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
