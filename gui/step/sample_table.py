"""The table of the samples of a step, the most suspicious one first."""

from __future__ import annotations

import math
import re
from enum import Enum

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPixmap
from PySide6.QtWidgets import QHeaderView

from engine.training.probes.step_inspection import Picture, SampleFigures
from gui.style.theme import theme_of
from gui.widgets.table import LEFT, RIGHT, Table, TableModel

ROW_HEIGHT = 30
PICTURE = 24
_LEAST = 46
_ROLE = Qt.ItemDataRole
_INDEX = re.compile(r"sample (\d+)")


class Column(Enum):
    """A column of the table; the value is its title."""

    SAMPLE = "Sample"
    TARGET = "Target"
    LOSS = "Loss"
    GRADIENT = "Gradient norm"
    INPUTS = "Inputs"
    RANK = "Rank"


_WIDTHS = {
    Column.SAMPLE: 170,
    Column.TARGET: 60,
    Column.LOSS: 74,
    Column.GRADIENT: 116,
    Column.INPUTS: 110,
    Column.RANK: 46,
}
_SORTED = {Column.SAMPLE, Column.LOSS, Column.GRADIENT}


class SampleModel(TableModel[SampleFigures, Column]):
    """The samples of all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = list(Column)
        self._samples: tuple[SampleFigures, ...] = ()
        """The samples, the most suspicious first."""

    def show_samples(self, samples: tuple[SampleFigures, ...]) -> None:
        """Show these samples, and no others, the most suspicious first."""
        self._samples = samples
        self._sort(None)

    def sort_by(self, column: Column) -> None:
        """Sort by a column, its largest first but for indexes; again: the other way round.

        A third time: the most suspicious first.
        """
        falls = column is not Column.SAMPLE
        if column not in _SORTED:
            return
        if self.sorted_by != self.name(column):
            self._sort(column, descending=falls)
        else:
            self._sort(column if self.descending == falls else None, descending=not falls)

    def _sort(self, column: Column | None, *, descending: bool = False) -> None:
        self.beginResetModel()
        self.rows = self._samples
        if column is not None:
            sign = -1 if descending else 1
            self.rows = sorted(self._samples, key=lambda row: _key(row, column, sign))
        self.endResetModel()
        self.show_sort("" if column is None else self.name(column), descending=descending)

    def title_look(self, column: Column, role: int) -> object:
        """Return what a click does, as a tooltip."""
        if role == _ROLE.ToolTipRole and column in _SORTED:
            return "A click sorts; the third one shows the most suspicious first again"
        return None

    def title(self, column: Column) -> str:
        """Return the title of a column."""
        return column.value

    def alignment(self, column: Column) -> Qt.AlignmentFlag:
        """Return where the texts of a column stand."""
        return LEFT if column in (Column.SAMPLE, Column.TARGET) else RIGHT

    def text(self, row: SampleFigures, column: Column) -> str:
        """Return the text of a cell."""
        match column:
            case Column.SAMPLE:
                return row.name.removeprefix("sample ")
            case Column.TARGET:
                return row.target
            case Column.LOSS:
                return figure(row.loss)
            case Column.GRADIENT:
                return figure(row.gradient_norm)
            case Column.RANK:
                return str(row.rank)
            case Column.INPUTS:
                return _inputs(row)

    def tip(self, row: SampleFigures, column: Column) -> str:
        """Return all that the inputs say, else the text of the cell."""
        is_input = column in (Column.SAMPLE, Column.INPUTS) and row.inputs.text
        return row.inputs.text if is_input else super().tip(row, column)

    def look(self, row: SampleFigures, column: Column, role: int) -> object:
        """Return the picture of a sample, and the colour of what is not finite."""
        if role == _ROLE.DecorationRole and column is Column.SAMPLE:
            return pixmap(row.inputs.picture, PICTURE)
        if role == _ROLE.ForegroundRole and _is_odd(row, column):
            return QColor(theme_of(QGuiApplication.palette()).bad)
        return None


class SampleTable(Table):
    """Scrolls by itself; all rows are copied with Ctrl+C."""

    def __init__(self) -> None:
        super().__init__("Samples of the step", ROW_HEIGHT)
        self._model = SampleModel()
        self.setModel(self._model)
        self.setIconSize(QSize(PICTURE, PICTURE))
        self.add_copy("Copy all rows")
        header = self.horizontalHeader()
        header.setSectionsClickable(True)
        header.sectionClicked.connect(lambda number: self._model.sort_by(list(Column)[number]))
        for number, column in enumerate(Column):
            self.setColumnWidth(number, _WIDTHS[column])
        header.setMinimumSectionSize(_LEAST)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)

    def show_samples(self, samples: tuple[SampleFigures, ...]) -> None:
        """Show these samples, and no others."""
        self._model.show_samples(samples)
        ranks = {sample.rank for sample in samples}
        self.setColumnHidden(list(Column).index(Column.RANK), len(ranks) < 2)
        self.setColumnHidden(
            list(Column).index(Column.TARGET), not any(each.target for each in samples)
        )


def figure(value: float | None) -> str:
    """Return a value in four digits; empty: it is not known."""
    return "" if value is None else "NaN" if math.isnan(value) else f"{value:.4g}"


def pixmap(picture: Picture | None, size: int) -> QPixmap | None:
    """Return a picture as large as fits into a square of `size` logical pixels; None: none."""
    if picture is None:
        return None
    is_grey = picture.channels == 1
    formats = QImage.Format
    image = QImage(
        picture.pixels,
        picture.width,
        picture.height,
        picture.width * picture.channels,
        formats.Format_Grayscale8 if is_grey else formats.Format_RGB888,
    )
    return QPixmap.fromImage(image.copy()).scaled(size, size, Qt.AspectRatioMode.KeepAspectRatio)


def _inputs(row: SampleFigures) -> str:
    inputs = row.inputs
    if inputs.not_finite:
        return f"{inputs.not_finite:,} NaN/Inf"
    if inputs.smallest <= inputs.largest:
        return f"{_short(inputs.smallest)} to {_short(inputs.largest)}"
    return inputs.text


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _key(row: SampleFigures, column: Column, sign: int) -> tuple[bool, float]:
    """Return what sorts a sample: NaN is the largest; what is not known comes last."""
    value = row.loss if column is Column.LOSS else row.gradient_norm
    if column is Column.SAMPLE:
        index = _INDEX.match(row.name)
        value = float(index[1]) if index else None
    if value is None:
        return True, 0.0
    return False, sign * (math.inf if math.isnan(value) else value)


def _is_odd(row: SampleFigures, column: Column) -> bool:
    match column:
        case Column.INPUTS:
            return bool(row.inputs.not_finite)
        case Column.LOSS:
            return row.loss is not None and not math.isfinite(row.loss)
        case Column.GRADIENT:
            return row.gradient_norm is not None and not math.isfinite(row.gradient_norm)
        case _:
            return False
