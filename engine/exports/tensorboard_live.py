"""Follows the store of an active run in a thread, and writes its TensorBoard log."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from engine.exports import run_source
from engine.exports.tensorboard_log import TensorBoardLog, read_position
from engine.files.disk_errors import short_reason
from engine.runs.run_info import RunInfo
from engine.runs.store.store_reader import RunReader

_log = logging.getLogger(__name__)

FOLDER = "tensorboard"
"""The folder of the log in the folder of a run that names no other."""

SECONDS = 1.0
"""Time between two looks at the store."""

_MOST_TRIED = 100


class TensorBoardFollower:
    """Writes the log of one run from a thread of its own. An error in there never ends the run."""

    def __init__(self, info: RunInfo, tell: Callable[[str], None]) -> None:
        """`tell` is called from the thread with a sentence, once for each new trouble."""
        self._info, self._tell = info, tell
        self._told = ""
        self._reader: RunReader | None = None
        self._log: TensorBoardLog | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="tensorboard")
        self._thread.start()

    def close(self, seconds: float) -> bool:
        """Write what is left, for at most `seconds`; return whether all is written."""
        self._ends.set()
        self._thread.join(seconds)
        return not (self._thread.is_alive() or self._told)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ends.wait(SECONDS)
            try:
                self._catch_up()
                self._told = ""
            except Exception as error:  # told to the user; the next turn tries it again
                self._report(error)
        if self._log is not None:
            self._log.close()
        if self._reader is not None:
            self._reader.close()

    def _catch_up(self) -> None:
        folder = self._info.folder
        if self._log is None:
            self._log = TensorBoardLog(
                log_folder(self._info), folder, run_source.settings_of(self._info.spec)
            )
        if self._reader is None:
            self._reader = RunReader(folder)
        known = len(self._log.remarks)
        self._log.catch_up(self._reader)
        for text in self._log.remarks[known:]:
            self._tell(f"The TensorBoard log of the run is not complete. {text}")

    def _report(self, error: Exception) -> None:
        _log.info("the TensorBoard log: %r", error)
        reason = str(error)
        if isinstance(error, OSError):
            reason = f"{error.filename or 'its folder'}: {short_reason(error)}"
        if reason != self._told:
            self._told = reason
            self._tell(
                f"The TensorBoard log of the run cannot be written: {reason}. The run goes on; "
                "what is missing in the log is added as soon as it can be written."
            )
        if isinstance(error, sqlite3.Error) and self._reader is not None:
            self._reader.close()
            self._reader = None


def log_folder(info: RunInfo) -> Path:
    """Return the folder of the log: one that is new, or that holds the log of this run."""
    if not info.spec.tensorboard_folder:
        return info.folder / FOLDER
    parent = Path(info.spec.tensorboard_folder).expanduser()
    for folder in sorted(parent.glob(f"{info.id}-*")):  # the run may have another name by now
        position = read_position(folder)
        if position is not None and position.run == str(info.folder):
            return folder
    stem = run_source.file_stem(info)
    names = (stem, *(f"{stem}-{number}" for number in range(2, _MOST_TRIED)))
    for name in names:  # those of another data folder have the same numbers
        if not (parent / name).exists():
            return parent / name
    raise FileExistsError(f"{parent} holds {_MOST_TRIED} logs with the name {stem}")
