"""The dialog that makes runs of TensorBoard logs and CSV files."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QLineEdit, QPushButton, QSizePolicy, QWidget

from gui.bridge.exchange import ColumnNames, Exchange, Header, Imported
from gui.exchange.work_dialog import MOST_REMARKS, WorkDialog, path_row
from gui.widgets.entry_fields import Combo
from gui.widgets.layouts.fit_height import fit_height

_BETWEEN = "; "
"""Between the names of several files."""

_WIDE = QSizePolicy.Policy.Expanding


class ImportDialog(WorkDialog):
    """Asks for files or a folder, and of a CSV file what its columns mean."""

    open_wanted = Signal(str)
    """Id of an imported run that the user wants to see."""

    def __init__(self, exchange: Exchange, parent: QWidget) -> None:
        super().__init__("Import runs", "Import", exchange, parent)
        self._done: Imported | None = None
        self._header: Header | None = None
        self.about.setText(
            "Makes runs of TensorBoard logs and of CSV files: ours, downloads of TensorBoard "
            "and W&B, and tables with a column for each metric. They can be compared, "
            "exported, tagged and deleted, but not trained."
        )
        self.path = QLineEdit()
        self.path.setAccessibleName("Files or folder")
        self.path.setPlaceholderText("A CSV file, an event file, or a folder of logs")
        files, folder = QPushButton("Files…"), QPushButton("Folder…")
        files.clicked.connect(self._choose_files)
        folder.clicked.connect(self._choose_folder)
        self.form.addRow("&From", path_row(self.path, files, folder))
        self.columns: dict[str, Combo] = {}
        for key, title in (
            ("step", "Column of the &step"),
            ("time", "Column of the &time"),
            ("run", "Column of the &run"),
            ("series", "Column of the series &name"),
            ("value", "Column of the &value"),
        ):
            self.columns[key] = Combo()
            self.columns[key].setSizePolicy(_WIDE, QSizePolicy.Policy.Fixed)
            self.columns[key].setAccessibleName(title.replace("&", ""))
            self.form.addRow(title, self.columns[key])
        self.columns["series"].currentIndexChanged.connect(self._show_columns)
        self.path.editingFinished.connect(self._read_header)
        self.path.textChanged.connect(self._update_begin)
        self.show_button.clicked.connect(self._show_done)
        exchange.header_read.connect(self._show_header)
        exchange.imported.connect(self._imported)
        self._show_header(None)
        self._update_begin()
        self.path.setFocus()

    def set_paths(self, paths: list[str]) -> None:
        """Enter these files or folders."""
        self.path.setText(_BETWEEN.join(paths))
        self._read_header()

    def work(self) -> None:
        """Begin the import."""
        self._exchange.import_files(self._paths(), self._chosen_columns())

    def _chosen_columns(self) -> ColumnNames:
        chosen = {key: combo.currentData() or "" for key, combo in self.columns.items()}
        return ColumnNames(**chosen) if self._header is not None else ColumnNames()

    def _paths(self) -> list[str]:
        return [part.strip() for part in self.path.text().split(_BETWEEN) if part.strip()]

    def _choose_files(self) -> None:
        files, _ = QFileDialog.getOpenFileNames(
            self,
            "Files to import",
            "",
            "Tables and logs (*.csv *.tsv *.txt *tfevents* *.tdcase);;All files (*)",
        )
        if files:
            self.set_paths(files)

    def _choose_folder(self) -> None:
        if folder := QFileDialog.getExistingDirectory(self, "Folder with logs"):
            self.set_paths([folder])

    def _read_header(self) -> None:
        paths = self._paths()
        if len(paths) == 1:
            self._exchange.read_header(paths[0])
        else:
            self._show_header(None)

    def _show_header(self, header: Header | None) -> None:
        """Offer the columns of a table that no known program wrote."""
        self._header = header if header is not None and not header.is_certain else None
        for key, combo in self.columns.items():
            combo.blockSignals(True)
            combo.clear()
            if self._header is not None:
                none = "choose…" if key == "step" else "none"
                combo.addItem(none, "")
                for name in self._header.columns:
                    combo.addItem(name, name)
                combo.setCurrentIndex(max(0, combo.findData(getattr(self._header.guess, key))))
            combo.blockSignals(False)
        self._show_columns()

    def _show_columns(self) -> None:
        is_long = bool(self.columns["series"].currentData())
        for key, combo in self.columns.items():
            shown = self._header is not None and (key != "value" or is_long)
            self.form.setRowVisible(combo, shown)
        fit_height(self)

    def _update_begin(self) -> None:
        self.begin.setEnabled(bool(self._paths()) and not self.is_working)

    def _imported(self, done: Imported) -> None:
        if not self.is_working:
            return
        self._done = done
        text = f"{len(done.run_ids):,} runs with {done.points:,} points were imported."
        if len(done.run_ids) == 1:
            text = f"Run {done.run_ids[0]} with {done.points:,} points was imported."
        lines = [text, *done.remarks[:MOST_REMARKS]]
        if len(done.remarks) > MOST_REMARKS:
            more = f"{len(done.remarks) - MOST_REMARKS} more remarks are in the log of the runs."
            lines.append(more)
        self.done_with("\n".join(lines), "Show run")

    def _show_done(self) -> None:
        if self._done is not None:
            self.open_wanted.emit(self._done.run_ids[-1])
            self.close()
