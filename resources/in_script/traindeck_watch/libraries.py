"""Which files are of installed packages, and not the user's code."""

from __future__ import annotations

import glob
import os
import sys

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120
_FOLDERS = ("site-packages", "dist-packages")


def is_library(file: str) -> bool:
    """Whether a file is Traindeck's, Python's, or one that was installed, also by
    `pip install --target` into any folder."""
    libraries = (_OURS, sys.prefix + "/lib/python", sys.base_prefix + "/lib/python")
    if file.startswith(libraries) or any(folder in file for folder in _FOLDERS):
        return True
    folder = os.path.dirname(file)  # noqa: PTH120
    while len(folder) > 1 and folder != os.path.dirname(folder):  # noqa: PTH120
        name = file[len(folder) + 1 :]
        pattern = os.path.join(glob.escape(folder), "*.dist-info", "RECORD")  # noqa: PTH118
        if any(_lists(record, name) for record in glob.iglob(pattern)):  # noqa: PTH207
            return True
        folder = os.path.dirname(folder)  # noqa: PTH120
    return False


def _lists(record: str, name: str) -> bool:
    try:
        with open(record, encoding="utf-8") as file:  # noqa: PTH123
            return any(line.startswith((name + ",", f'"{name}",')) for line in file)
    except (OSError, ValueError):
        return False
