"""The table of the layers of a step: outputs, gradients and updates, coloured by their size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from PySide6.QtCore import QMargins, QRect, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPainter
from PySide6.QtWidgets import (
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from engine.training.probes.step_inspection import LayerFigures, ParameterFigures
from gui.step.sample_table import figure
from gui.style.theme import theme_of
from gui.widgets.cell_painting import draw_text
from gui.widgets.plain_text import plain_tip
from gui.widgets.table import LEFT, RIGHT, Index, Table, TableModel

ROW_HEIGHT = 26
_PAD = 8
_MOST = 280
"""Width of a column, for long names of layers."""

_DECADES = 4.0
"""Powers of ten between the faintest colour and the strongest one."""


class Column(Enum):
    """A column of the table; the value is its title."""

    LAYER = "Layer"
    OUTPUT = "Output |max|"
    MEAN = "Mean"
    NOT_FINITE = "Not finite"
    GRADIENT = "Gradient"
    WEIGHT = "Weight norm"
    UPDATE = "Update/weight"


_SHADED = {Column.OUTPUT, Column.GRADIENT, Column.WEIGHT, Column.UPDATE}


class Layer(NamedTuple):
    """A row: a layer, with the norms over all its parameters; None: it has none, or is not seen."""

    name: str
    kind: str
    output: float | None
    """The largest absolute value of the outputs that are finite."""

    mean: float | None
    not_finite: float | None
    gradient: float | None
    weight: float | None
    update: float | None
    """The norm of the update, divided by that of the weights."""

    def value(self, column: Column) -> float | None:
        """Return what the cell of a column shows."""
        return {
            Column.LAYER: None,
            Column.OUTPUT: self.output,
            Column.MEAN: self.mean,
            Column.NOT_FINITE: self.not_finite,
            Column.GRADIENT: self.gradient,
            Column.WEIGHT: self.weight,
            Column.UPDATE: self.update,
        }[column]


def layers_of(
    layers: Sequence[LayerFigures], parameters: Sequence[ParameterFigures]
) -> list[Layer]:
    """Return a row for each layer, in the order of the forward pass.

    A layer that only contains others has none; parameters of layers that were not seen have one.
    """
    own: dict[str, list[ParameterFigures]] = {}
    for parameter in parameters:
        own.setdefault(parameter.layer, []).append(parameter)
    seen = {layer.name: layer for layer in layers if layer.name}
    names = dict.fromkeys((*seen, *own))
    return [
        _row(name, seen.get(name), own.get(name, []))
        for name in names
        if name in own or not any(_is_inside(other, name) for other in seen)
    ]


def _is_inside(name: str, container: str) -> bool:
    return name.startswith((f"{container}.", f"{container}/"))


def _row(name: str, seen: LayerFigures | None, own: Sequence[ParameterFigures]) -> Layer:
    output = mean = not_finite = None
    if seen is not None:
        has_finite = seen.smallest <= seen.largest
        output = max(abs(seen.smallest), abs(seen.largest)) if has_finite else None
        mean, not_finite = seen.mean if has_finite else None, seen.not_finite
    gradients = [each.gradient_norm for each in own if each.gradient_norm is not None]
    weight = math.hypot(*(each.weight_norm for each in own)) if own else None
    update = math.hypot(*(each.update_norm for each in own)) if own else None
    return Layer(
        name or "the model",
        seen.kind if seen else "",
        output,
        mean,
        not_finite,
        math.hypot(*gradients) if gradients else None,
        weight,
        update / weight if update is not None and weight else None,
    )


class LayerModel(TableModel[Layer, Column]):
    """The layers of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = list(Column)
        self._most: dict[Column, float] = {}

    def show_layers(self, rows: Sequence[Layer]) -> None:
        """Show these layers, and no others."""
        self.beginResetModel()
        self.rows = rows
        self._most = {
            column: max(
                (v for row in rows if (v := row.value(column)) and math.isfinite(v)), default=0.0
            )
            for column in _SHADED
        }
        self.endResetModel()

    def title(self, column: Column) -> str:
        """Return the title of a column."""
        return column.value

    def alignment(self, column: Column) -> Qt.AlignmentFlag:
        """Return where the texts of a column stand."""
        return LEFT if column is Column.LAYER else RIGHT

    def text(self, row: Layer, column: Column) -> str:
        """Return the text of a cell."""
        value = row.value(column)
        match column:
            case Column.LAYER:
                return f"{row.name} {row.kind}".rstrip()
            case Column.NOT_FINITE if value is not None:
                return "" if value == 0 else f"{value:.1%}" if value >= 0.001 else "< 0.1%"
            case Column.UPDATE if value is not None and math.isfinite(value):
                return f"{value:.2e}"
            case _:
                return figure(value)

    def title_look(self, column: Column, role: int) -> object:
        """Return what the largest output is, as a tooltip."""
        is_tip = role == Qt.ItemDataRole.ToolTipRole and column is Column.OUTPUT
        return "The largest absolute value of the outputs that are finite" if is_tip else None

    def tip(self, row: Layer, column: Column) -> str:
        """Return name and class of a layer, or the whole number."""
        value = row.value(column)
        text = self.text(row, column) if value is None else repr(value)
        if value == 0 and column in _SHADED:
            text += ": nothing of the layer differs from zero"
        return plain_tip(text)

    def is_odd(self, row: Layer, column: Column) -> bool:
        """Whether a cell says that something is not finite, or that all of a layer is zero."""
        value = row.value(column)
        if column is Column.LAYER:
            return row is next((each for each in self.rows if each.not_finite), None)
        if column is Column.NOT_FINITE:
            return bool(value)
        return _is_not_finite(value) or (value == 0 and column in _SHADED)

    def shade(self, row: Layer, column: Column) -> float:
        """Return how strong the colour of a cell is, from 0 to 1: by the power of ten."""
        value, most = row.value(column), self._most.get(column, 0.0)
        if not value or not most or not math.isfinite(value):
            return 0.0
        return max(0.0, 1.0 + math.log10(value / most) / _DECADES)


def _is_not_finite(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)


class LayerTable(Table):
    """Scrolls by itself; all rows are copied with Ctrl+C."""

    def __init__(self) -> None:
        super().__init__("Layers of the step", ROW_HEIGHT)
        self._model = LayerModel()
        self.setModel(self._model)
        self.setItemDelegate(_ShadedCell(self._model, self))
        self.add_copy("Copy all rows")
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setMaximumSectionSize(_MOST)
        header.setResizeContentsPrecision(-1)

    def show_layers(
        self, layers: Sequence[LayerFigures], parameters: Sequence[ParameterFigures]
    ) -> None:
        """Show these layers, and no others; the first that is not finite is in sight."""
        rows = layers_of(layers, parameters)
        self._model.show_layers(rows)
        first = next((number for number, row in enumerate(rows) if row.not_finite), None)
        if first is not None:
            self.selectRow(first)
            self.scrollTo(self._model.index(first, 0))


class _ShadedCell(QStyledItemDelegate):
    """Paints a cell with a ground that says how large its value is, and what is odd."""

    def __init__(self, model: LayerModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """The text with the room around it that the paint leaves."""
        return super().sizeHint(option, index).grownBy(QMargins(_PAD - 2, 0, _PAD - 2, 0))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        theme = theme_of(QGuiApplication.palette())
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        row, column = self._model.rows[index.row()], list(Column)[index.column()]
        is_odd = self._model.is_odd(row, column)
        painter.save()
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, QColor(theme.selected))
        shade = self._model.shade(row, column)
        if column is not Column.LAYER and (shade or is_odd):
            ground = QColor(theme.bad if is_odd else theme.accent_bg)
            ground.setAlphaF(0.25 if is_odd else 0.08 + 0.42 * shade)
            painter.fillRect(rect.adjusted(1, 1, -1, -1), ground)
        painter.setPen(QColor(theme.bad if is_odd and column is Column.LAYER else theme.text))
        inside = rect.adjusted(_PAD, 0, -_PAD, 0)
        draw_text(painter, inside, self._model.text(row, column), self._model.alignment(column))
        painter.restore()
