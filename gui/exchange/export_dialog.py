"""The dialog that exports runs: as what, and where to."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.runs.run_info import RunInfo
from gui.bridge.exchange import Exchange, Exported, Format
from gui.exchange.target_rows import TargetRows
from gui.exchange.work_dialog import MOST_REMARKS, WorkDialog
from gui.widgets.entry_fields import Combo
from gui.widgets.plain_text import Label

_FOLDER, _FORMAT = "exchange/folder", "exchange/format"


_TEXTS = {
    Format.HTML: (
        "Report (HTML)",
        "One page with plots, figures, settings and environment. It opens from disk, "
        "prints, and loads nothing; of several runs it is a comparison.",
    ),
    Format.CSV: ("CSV", "A folder with two tables: every point, and one line for each run."),
    Format.PARQUET: ("Parquet", "The same two tables for pandas, Polars, DuckDB."),
    Format.TENSORBOARD: (
        "TensorBoard",
        "A folder with event files for each run: points, images, histograms.",
    ),
}
"""Name and meaning of each format."""


class ExportDialog(WorkDialog):
    """Exports some runs once or several times; the last format and folder are remembered."""

    def __init__(
        self,
        infos: Sequence[RunInfo],
        exchange: Exchange,
        settings: QSettings | None,
        parent: QWidget,
    ) -> None:
        """`infos` are the runs, at least one."""
        title = f"Export {len(infos):,} runs"
        if len(infos) == 1:
            title = f"Export {infos[0].title}"
        super().__init__(title, "Export", exchange, parent)
        self._infos = infos
        self._settings = settings
        self._done: Exported | None = None
        self.about.setText(title)
        self.format = Combo()
        self.format.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.format.setAccessibleName("Format")
        for format, (name, _) in _TEXTS.items():
            self.format.addItem(name, format)
        self.meaning = Label(objectName="note", wordWrap=True)
        self.meaning.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.form.addRow("&Format", self.format)
        self.form.addRow("", self.meaning)
        folder = self._stored(_FOLDER) or exchange.home()
        title = "Where to export to"
        self.target = TargetRows(self.form, folder, self._proposed, title, self)
        self.folder, self.name = self.target.folder, self.target.name
        stored = self._stored(_FORMAT)
        known = [str(format) for format in _TEXTS]
        self.format.setCurrentIndex(known.index(stored) if stored in known else 0)
        self.format.currentIndexChanged.connect(self._show_format)
        self.show_button.clicked.connect(self._show_done)
        exchange.exported.connect(self._exported)
        self._show_format()
        self.format.setFocus()

    @property
    def chosen(self) -> Format:
        """The format that is chosen."""
        return Format(self.format.currentData())

    def work(self) -> None:
        """Begin the export."""
        if self._settings is not None:
            self._settings.setValue(_FOLDER, self.folder.text())
            self._settings.setValue(_FORMAT, str(self.chosen))
        self._exchange.export(self._infos, self.chosen, self.target.path())

    def problem(self) -> str:
        return self.target.problem()

    def _show_format(self) -> None:
        reason = self._exchange.refusal(self._infos, self.chosen)
        self.meaning.setText(_TEXTS[self.chosen][1])
        self.show_outcome(reason, is_problem=True)
        self.begin.setEnabled(not reason)
        self.target.propose()

    def _proposed(self, folder: str) -> str:
        return self._exchange.proposed(self._infos, self.chosen, folder)

    def _exported(self, done: Exported) -> None:
        if not self.is_working:
            return
        self._done = done
        text = f"{done.points:,} points of {done.runs:,} runs are in {done.path}."
        if done.runs == 1:
            text = f"{done.points:,} points of 1 run are in {done.path}."
        is_page = self.chosen.is_file
        self.done_with(
            "\n".join([text, *done.remarks[:MOST_REMARKS]]),
            "Open report" if is_page else "Open folder",
        )
        self.target.propose()

    def _show_done(self) -> None:
        if self._done is None:
            return
        if self.chosen.is_file:
            self._exchange.open_page(self._done.path)
        else:
            self._exchange.open_folder(self._done.path)

    def _stored(self, key: str) -> str:
        value = self._settings.value(key) if self._settings is not None else None
        return value if isinstance(value, str) else ""
