"""Notices that packages, or files of Traindeck itself, changed on disk after their import."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE_FOLDERS = ("site-packages", "dist-packages")

Stamp = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes."""


class Fingerprint:
    """The files that this process has imported, and the folders of installed packages."""

    def __init__(self) -> None:
        modules = [
            str(file)
            for module in list(sys.modules.values())
            if (file := getattr(module, "__file__", None))
        ]
        folders = [entry for entry in sys.path if Path(entry).name in _PACKAGE_FOLDERS]
        settings = Path.home() / ".keras" / "keras.json"  # Keras reads it when it is imported
        self._stamps = {path: _stamp(path) for path in {*modules, *folders, str(settings)}}

    def changed(self) -> str:
        """Return the path of a file or folder that has changed; empty if none has."""
        for path, stamp in self._stamps.items():
            if _stamp(path) != stamp:
                return path
        return ""


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116  # thousands of files: three times faster than Path
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
