"""Copies a plot to the clipboard or saves it, as a picture or as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QWidget

from engine.runs.run_info import RunInfo
from gui.bridge.background import Background
from gui.bridge.files.export_file import (
    EXPORT_ERRORS,
    CsvTable,
    RunTable,
    SeriesTable,
    csv_text,
    write_bytes,
    write_csv,
)
from gui.plots.export import image
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.widgets.save_dialog import ask_where_to_save

MAX_COPIED_POINTS = 200_000
"""With more points than these, the plot is not copied but must be saved."""

_NAMED_RUNS = 3
"""A picture of more runs counts the others."""

_IN_NAMES = str.maketrans(" /:", "---")
"""What stands in the name of a file for characters of titles and of runs such as `gpus:12`."""

AskFile = Callable[[QWidget, str, str, str], str]
"""Takes parent, title, proposed path and filter; returns the chosen path with the same suffix, or
an empty string."""


class PlotExport(QObject):
    """Carries out the export entries of a plot's menu; the store is read in the background."""

    message = Signal(str)
    """A sentence: what was copied or saved, or why not."""

    def __init__(
        self, background: Background, ask_file: AskFile | None = None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._background = background
        self._ask = ask_file or ask_where_to_save
        self._run_id: str | None = None
        self._run_title = ""
        self._folder = Path.home()

    def watch(self, run_id: str | None) -> None:
        """Read data from the store of `run_id`."""
        self._run_id = run_id
        self._run_title = f"#{run_id}" if run_id else ""

    def show_info(self, info: RunInfo) -> None:
        """Note the title of the watched run, which its pictures show."""
        if info.id == self._run_id:
            self._run_title = info.title

    def export(self, action: PlotAction, plot: CurvePlot, series: Sequence[str]) -> None:
        """Copy or save `plot`, which shows `series` of the watched run."""
        document = None
        if self._run_id is not None and series:
            document = RunTable(self._run_id, series, self._background.machines.engine_of)
        prefix = f"{self._run_id}-" if self._run_id else ""
        self._export(action, plot, prefix, self._run_title, document)

    def export_runs(
        self, action: PlotAction, plot: CurvePlot, series: str, runs: Mapping[str, str]
    ) -> None:
        """Copy or save `plot`, which shows `series` of several runs; `runs` are their names by
        their ids."""
        run_ids = {name: run_id for run_id, name in runs.items()}
        find = self._background.machines.engine_of
        document = SeriesTable(series, run_ids, find) if runs else None
        named = "-".join(runs) if len(runs) <= _NAMED_RUNS else f"{len(runs)}-runs"
        prefix = f"{named}-" if runs else ""
        self._export(action, plot, prefix, _joined(list(runs.values())), document)

    def _export(
        self,
        action: PlotAction,
        plot: CurvePlot,
        prefix: str,
        source: str,
        document: CsvTable | None,
    ) -> None:
        match action:
            case PlotAction.COPY_PICTURE:
                QApplication.clipboard().setMimeData(image.for_clipboard(plot, source))
                self.message.emit(f"The plot of {plot.title} is in the clipboard.")
            case PlotAction.SAVE_PNG:
                self._save(
                    plot, prefix, "png", lambda file: write_bytes(file, image.png(plot, source))
                )
            case PlotAction.SAVE_SVG:
                self._save(
                    plot, prefix, "svg", lambda file: write_bytes(file, image.svg(plot, source))
                )
            case PlotAction.COPY_CSV | PlotAction.SAVE_CSV if document is None:
                self.message.emit(f"The plot of {plot.title} has no data yet.")
            case PlotAction.COPY_CSV if document is not None:
                self._copy_data(plot.title, document)
            case PlotAction.SAVE_CSV if document is not None:
                self._save(plot, prefix, "csv", partial(self._save_data, document))

    def _save(
        self, plot: CurvePlot, prefix: str, ending: str, write: Callable[[Path], None]
    ) -> None:
        name = f"{prefix}{plot.title.lower()}.{ending}".translate(_IN_NAMES)
        title = f"Save the plot of {plot.title}"
        chosen = self._ask(plot, title, str(self._folder / name), f"*.{ending}")
        if not chosen:
            return
        file = Path(chosen)
        self._folder = file.parent
        try:
            write(file)
        except OSError as error:
            self._failed(file, error)
        else:
            if ending != "csv":
                self.message.emit(f"Saved as {file}.")

    def _save_data(self, document: CsvTable, file: Path) -> None:
        self.message.emit(f"Writing {file}…")
        self._background.run(
            lambda: write_csv(document, file),
            lambda points: self.message.emit(f"{points:,} points saved as {file}."),
            partial(self._failed, file),
        )

    def _copy_data(self, title: str, document: CsvTable) -> None:
        def read() -> tuple[int, str]:
            points = document.points()
            return points, csv_text(document) if points <= MAX_COPIED_POINTS else ""

        self._background.run(
            read, partial(self._copied, title), partial(self._failed, "the clipboard")
        )

    def _copied(self, title: str, result: tuple[int, str]) -> None:
        points, text = result
        if not text:
            message = (
                f"{title} has {points:,} points, too many for the clipboard: save them as a file."
            )
            self.message.emit(message)
            return
        QApplication.clipboard().setText(text)
        self.message.emit(f"{points:,} points of {title} are in the clipboard.")

    def _failed(self, where: Path | str, error: Exception) -> None:
        if not isinstance(error, EXPORT_ERRORS):
            raise error
        why = str(error).rstrip(".")
        self.message.emit(f"The plot could not be written to {where}: {why}.")


def _joined(names: Sequence[str]) -> str:
    """Name a few runs; the legend names all."""
    if len(names) <= _NAMED_RUNS:
        return ", ".join(names)
    named = ", ".join(names[:_NAMED_RUNS])
    return f"{named} and {len(names) - _NAMED_RUNS} more"
