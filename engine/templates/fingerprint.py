"""Notices that packages, or files of Traindeck itself, changed on disk after their import."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine.processes.process import PROJECT

_PACKAGE_FOLDERS = ("site-packages", "dist-packages")

Stamp = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes."""


class Fingerprint:
    """The files that this process imports, the engine's own, and the folders of packages.

    Create it before the imports: what changes meanwhile is noticed too.
    """

    def __init__(self) -> None:
        folders = [entry for entry in sys.path if Path(entry).name in _PACKAGE_FOLDERS]
        # A worker also imports, or runs, files of the engine that its template has not imported.
        own = map(str, (PROJECT / "engine").rglob("*.py"))
        keras = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")  # noqa: PTH111
        settings = str(Path(keras, "keras.json"))  # Keras reads it when it is imported
        self._stamps = {path: _stamp(path) for path in (*folders, *own, settings)}

    def add_imported(self) -> None:
        """Watch the files of all modules that are imported by now."""
        for module in list(sys.modules.values()):
            if isinstance(file := getattr(module, "__file__", None), str):
                self._stamps.setdefault(file, _stamp(file))

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
