"""Reads what is known of the shown run in the background, and opens its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from engine.runs.run_info import RunInfo
from engine.runs.run_overview import RunOverview
from gui.bridge.background import Background, Reading
from gui.bridge.machines.machines import UNREADABLE

if TYPE_CHECKING:
    from engine.interface.engine import Engine

T = TypeVar("T")

__all__ = ["OverviewReader", "RunOverview"]


class OverviewReader(QObject):
    """One reading at a time; a question that comes meanwhile is answered after it."""

    found = Signal(str, object)
    """Id of the run, and its RunOverview."""

    text = Signal(str, str, str)
    """Id of the run; which text (`diff` or `recipe`); the text."""

    failed = Signal(str)
    """A sentence."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._overviews = Reading(background, self._report, self._fail)

    def read(self, info: RunInfo, device_names: Mapping[str, str]) -> None:
        """Read what is known of a run; `found` follows."""
        names = dict(device_names)

        def work() -> tuple[str, RunOverview]:
            return info.id, self._ask(info, lambda engine, run: engine.read_overview(run, names))

        self._overviews.ask(work)

    def read_diff(self, info: RunInfo, attempt: int) -> None:
        """Read the changes that were not committed; `text` follows."""
        self._read_text(info, "diff", lambda engine, run: engine.read_diff(run, attempt))

    def read_recipe(self, info: RunInfo) -> None:
        """Read the run's copy of its recipe; `text` follows."""
        self._read_text(info, "recipe", lambda engine, run: engine.read_recipe(run))

    def open_folder(self, folder: Path) -> None:
        """Show a folder in the file manager of the desktop."""
        if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
            self.failed.emit(f"No file manager opens {folder}.")

    def _ask(self, info: RunInfo, question: Callable[[Engine, str], T]) -> T:
        """Ask the engine of a run, which gets the run's number; in a thread."""
        return question(*self._background.machines.engine_of(info.id))

    def _read_text(self, info: RunInfo, what: str, question: Callable[[Engine, str], str]) -> None:
        self._background.run(
            lambda: self._ask(info, question),
            lambda text: self.text.emit(info.id, what, text),
            self._fail,
        )

    def _report(self, answer: tuple[str, RunOverview]) -> None:
        self.found.emit(*answer)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, UNREADABLE):
            raise error
        self.failed.emit(f"The run cannot be read: {error}.")
