"""Small runs that older and newer versions recorded, in `tests/data/formats/`."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.system import paths

FORMATS = Path(__file__).parent.parent / "data" / "formats"
OLDEST_CHECKPOINT = "1.0-stop-on-nan"
"""The oldest run whose checkpoint is still read."""

NEWEST = "1.1"
ALL = sorted(folder.name for folder in FORMATS.iterdir())


def restore_run(name: str) -> Path:
    """Make a new run from the run of a format; return its folder."""
    folder = paths.create_run_folder()
    shutil.copytree(FORMATS / name, folder, dirs_exist_ok=True)
    folder.chmod(0o700)  # not that of the checkout
    return folder
