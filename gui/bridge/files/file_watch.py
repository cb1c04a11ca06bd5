"""Notices that a file of the user changes on disk, also where an editor replaces it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

SETTLE_MS = 200
"""An editor writes a file in several steps; it is looked at so long after the first one."""

_State = tuple[int, int, int] | None
"""Inode, size and time of the last change; None: the file is not there."""


class FileWatch(QObject):
    """Watches one file at a time, and its folder: a file that is replaced is another one."""

    changed = Signal(str)
    """Path of the file, whose content may be another one now."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._file: Path | None = None
        self._state: _State = None
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self.check)
        self._watcher = QFileSystemWatcher(self)
        self._watcher.fileChanged.connect(self._check_soon)
        self._watcher.directoryChanged.connect(self._check_soon)

    def watch(self, file: Path | None) -> None:
        """Watch `file` as it is now, in the place of the one before; None: none."""
        self._settle.stop()
        if watched := [*self._watcher.files(), *self._watcher.directories()]:
            self._watcher.removePaths(watched)
        self._file = file
        self._state = _state_of(file)
        self._add_paths()

    def check(self) -> None:
        """Look at the file now. Some file systems, such as those of a network, announce nothing."""
        if self._file is None:
            return
        before, self._state = self._state, _state_of(self._file)
        self._add_paths()
        if self._state != before and self._state is not None:
            self.changed.emit(str(self._file))

    def _check_soon(self, _: str) -> None:
        if not self._settle.isActive():  # a folder may change all the time
            self._settle.start()

    def _add_paths(self) -> None:
        """Watch file and folder; Qt no longer watches a file that was deleted or replaced."""
        if self._file is None:
            return
        watched = {*self._watcher.files(), *self._watcher.directories()}
        wanted = (str(self._file), str(self._file.parent))
        if missing := [path for path in wanted if path not in watched and Path(path).exists()]:
            self._watcher.addPaths(missing)


def _state_of(file: Path | None) -> _State:
    try:
        status = file.stat() if file else None
    except (OSError, ValueError):  # ValueError: a path with a NUL byte
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if status else None
