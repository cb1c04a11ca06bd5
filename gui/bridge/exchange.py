"""Exports runs and imports files in the background, with progress; one of them at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from engine.exports.export_runs import CannotExport, Exported, Format, proposed_name, refusal
from engine.files.atomic_file import write_atomically
from engine.imports.csv_tables import ColumnNames, Header, read_header
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import Imported, import_runs
from engine.interface.exchange import export_to
from engine.interface.files.transfers import DownloadFailed, copy_checkpoint
from engine.interface.values import NoAnswer
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_info import NoSuchRun, RunInfo
from engine.system.cancelled import Cancelled
from gui.bridge.background import Background
from gui.bridge.machines.machines import place_of

__all__ = ["ColumnNames", "Exchange", "Exported", "Format", "Header", "Imported"]

_PAUSE = 0.1
"""Seconds between two reports of the progress."""


class Exchange(QObject):
    """Carries out one export or import after the other."""

    progress = Signal(str, int, int)
    """What is done; how much of it, and of how much."""

    exported = Signal(object)
    """Exported"""

    imported = Signal(object)
    """Imported"""

    header_read = Signal(object)
    """Header of a CSV file; None: it cannot be read, or there is none."""

    checkpoints_listed = Signal(list)
    """list[CheckpointInfo], by step: the answer to `list_checkpoints`."""

    copied = Signal(object)
    """Path of the new folder with the files of a checkpoint."""

    saved = Signal(object)
    """Path of a failure file."""

    failed = Signal(str)
    """A sentence; empty: it was cancelled. Nothing was left behind."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._stop = threading.Event()
        self._told = 0.0

    def refusal(self, infos: Sequence[RunInfo], format: Format) -> str:
        """Return why these runs cannot be exported so; empty if they can."""
        machines = {place_of(info.id)[0] for info in infos}
        if len(machines) > 1:
            return "These runs are on several machines: export those of one of them."
        return "" if any(machines) else refusal(infos, format)

    def proposed(self, infos: Sequence[RunInfo], format: Format, folder: str) -> str:
        """Return a name that does not exist in `folder` yet."""
        return self.free_name(proposed_name(infos, format), folder)

    def free_name(self, proposed: str, folder: str) -> str:
        """Return `proposed`, or a name like it that does not exist in `folder` yet."""
        name = Path(proposed)
        names = [name.name, *(f"{name.stem}-{number}{name.suffix}" for number in range(2, 1000))]
        return next((each for each in names if not (Path(folder) / each).exists()), name.name)

    def home(self) -> str:
        """Return the folder that is offered first."""
        return str(Path.home())

    def export(self, infos: Sequence[RunInfo], format: Format, target: str) -> None:
        """Begin an export; `exported` or `failed` follows."""
        self._stop.clear()
        chosen, path = tuple(infos), Path(target).expanduser().absolute()

        def work() -> Exported:
            engine = self._background.machines.engine(place_of(chosen[0].id)[0])
            there = [info._replace(id=place_of(info.id)[1]) for info in chosen]
            return export_to(engine, there, format, path, self._tell_progress, self._stop)

        self._background.run(work, self.exported.emit, self._fail)

    def list_checkpoints(self, run_id: str) -> None:
        """Read the checkpoints of a run; `checkpoints_listed` or `failed` follows."""

        def work() -> list[CheckpointInfo]:
            engine, run = self._background.machines.engine_of(run_id)
            return engine.list_checkpoints(run)

        self._background.run(work, self.checkpoints_listed.emit, self._fail)

    def copy_checkpoint(self, run_id: str, name: str, target: str) -> None:
        """Begin to copy a checkpoint to the new folder `target`; `copied` or `failed` follows."""
        self._stop.clear()
        path = Path(target).expanduser().absolute()

        def work() -> Path:
            engine, run = self._background.machines.engine_of(run_id)
            copy_checkpoint(engine, run, name, path, self._tell_progress)
            return path

        self._background.run(work, self.copied.emit, self._fail)

    def save_case(self, run_id: str, target: str) -> None:
        """Begin to save the failure file of a run as `target`; `saved` or `failed` follows."""
        path = Path(target).expanduser().absolute()

        def work() -> Path:
            engine, run = self._background.machines.engine_of(run_id)
            try:
                write_atomically(path, engine.read_case(run), mode=0o600)
            except OSError as error:
                raise CannotExport(f"The failure file cannot be saved: {error}.") from error
            return path

        self._background.run(work, self.saved.emit, self._fail)

    def import_files(self, paths: Sequence[str], columns: ColumnNames) -> None:
        """Begin an import; `imported` or `failed` follows."""
        self._stop.clear()
        found = [Path(path).expanduser() for path in paths]
        self._background.run(
            lambda: import_runs(found, columns, self._tell), self.imported.emit, self._fail
        )

    def read_header(self, path: str) -> None:
        """Read which columns a CSV file has; `header_read` follows, for another file None."""

        def read() -> Header | None:
            file = Path(path).expanduser()
            if file.suffix.casefold() not in (".csv", ".tsv", ".txt") or not file.is_file():
                return None
            try:
                return read_header(file)
            except (CannotImport, OSError):
                return None  # the import itself says why

        self._background.run(read, self.header_read.emit, self._fail)

    def cancel(self) -> None:
        """End what is under way; `failed` follows with an empty text."""
        self._stop.set()

    def open_folder(self, path: Path) -> None:
        """Show where an export lies in the file manager."""
        folder = path if path.is_dir() else path.parent
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))

    def open_page(self, path: Path) -> None:
        """Open a report in the browser."""
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))

    def _tell_progress(self, done: int, total: int) -> None:
        self._tell("", done, total)

    def _tell(self, what: str, done: int, total: int) -> None:
        """Report from the thread that works. Raises _Cancelled."""
        if self._stop.is_set():
            raise _Cancelled
        now = time.monotonic()
        if now - self._told > _PAUSE or done >= total:
            self._told = now
            per_mille = 1000 * done // total if total else 0  # Qt counts in 32 bits
            self.progress.emit(what, per_mille, 1000)

    def _fail(self, error: Exception) -> None:
        if self._stop.is_set() and isinstance(error, NoAnswer | Cancelled):
            error = _Cancelled()
        if not isinstance(error, _EXPECTED):
            self.failed.emit(repr(error))
            raise error
        self.failed.emit(str(error))


class _Cancelled(Exception):
    """The user does not want it any more."""


_EXPECTED = (CannotExport, CannotImport, DownloadFailed, NoAnswer, NoSuchRun, _Cancelled)
