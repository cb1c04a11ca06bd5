"""The layers of a model as a tree, with a bar for the share of each in all parameters."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QPainter,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeView,
)

from engine.facts.run_facts import Layer, ModelFacts
from engine.system import units
from gui.style.theme import theme_of
from gui.widgets.cell_painting import draw_bar
from gui.widgets.plain_text import plain_tip

MOST_ROWS = 15
"""Rows in sight; more are reached by scrolling in the tree."""

_ROW = 25
_SHARE = Qt.ItemDataRole.UserRole + 1
_MODULE, _KIND, _PARAMETERS, _SIZE, _SHARE_COLUMN = range(5)
_WITH_SIZE = 400
"""Logical pixels from which the column of bytes has room."""


class ModelTree(QTreeView):
    """Its rows fold by module."""

    def __init__(self) -> None:
        super().__init__()
        self._facts = ModelFacts()
        self._module_width = 0
        self._model = QStandardItemModel(0, 5, self)
        self._model.setHorizontalHeaderLabels(["Module", "Kind", "Params", "Size", "Share"])
        self.setModel(self._model)
        self.setAccessibleName("Layers of the model")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setUniformRowHeights(True)
        self.setIndentation(12)
        self.setItemDelegateForColumn(_SHARE_COLUMN, _ShareDelegate(self))
        header = self.header()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(30)
        modes = QHeaderView.ResizeMode
        header.setSectionResizeMode(_KIND, modes.Stretch)
        for column in (_MODULE, _PARAMETERS, _SIZE, _SHARE_COLUMN):
            header.setSectionResizeMode(column, modes.Interactive)
        for column in (_PARAMETERS, _SIZE):
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            self._model.horizontalHeaderItem(column).setTextAlignment(right)
        header.resizeSection(_SIZE, 82)
        self.expanded.connect(self._fit)
        self.collapsed.connect(self._fit)

    def show_model(self, facts: ModelFacts) -> None:
        """Show the layers of a model."""
        if facts == self._facts:
            return
        self._facts = facts
        self._model.setRowCount(0)
        roots = [layer for layer in facts.layers if not layer.depth]
        metrics = self.fontMetrics()
        self._module_width = 40 + max(
            (
                metrics.horizontalAdvance(layer.path.rpartition(".")[2] or layer.kind)
                + self.indentation() * layer.depth
                for layer in facts.layers
                if 0 < layer.depth < 3 or len(facts.layers) == 1
            ),
            default=0,
        )
        hides_root = len(roots) == 1 and len(facts.layers) > 1
        parents: dict[int, QStandardItem] = {}
        total = max(1, facts.parameters)
        for layer in facts.layers:
            if hides_root and not layer.depth:
                continue
            row = self._row(layer, parents, total)
            above = parents.get(layer.depth - 1)
            (above or self._model.invisibleRootItem()).appendRow(row)
            parents[layer.depth] = row[0]
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the size of the layers where there is room."""
        super().resizeEvent(event)
        self.setColumnHidden(_SIZE, self.width() < _WITH_SIZE)
        self._fit_modules()

    def sizeHint(self) -> QSize:
        """As high as its rows, up to a limit."""
        return QSize(240, self.height())

    def _row(
        self, layer: Layer, parents: dict[int, QStandardItem], total: int
    ) -> Sequence[QStandardItem]:
        above = parents.get(layer.depth - 1)
        name = layer.path or layer.kind
        if above is not None and layer.path:
            outer = above.data(_SHARE)
            name = layer.path.removeprefix(f"{outer}.") if outer else layer.path
        texts = (name, self._kind(layer), count_text(layer.parameters), "", "")
        row = [QStandardItem(text) for text in texts]
        row[_SIZE].setText(units.byte_size(layer.bytes) if layer.bytes else "")
        row[_MODULE].setData(layer.path, _SHARE)
        share = layer.parameters / total
        row[_SHARE_COLUMN].setData(share, _SHARE)
        row[_SHARE_COLUMN].setAccessibleText(f"{share:.0%}")
        tip = self._tip(layer, share)
        muted = self.palette().placeholderText()
        for column, item in enumerate(row):
            item.setEditable(False)
            item.setToolTip(plain_tip(tip))
            item.setSizeHint(QSize(0, _ROW))
            if column in (_PARAMETERS, _SIZE):
                item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            if not layer.trainable or column in (_KIND, _SIZE):
                item.setForeground(muted)
        return row

    def _kind(self, layer: Layer) -> str:
        if layer.parameters and not layer.trainable:
            return f"{layer.kind}, frozen"
        return layer.kind

    def _tip(self, layer: Layer, share: float) -> str:
        lines = [f"{layer.path or layer.kind}: {layer.kind}"]
        if layer.detail:
            lines.append(layer.detail)
        text = (
            f"{layer.parameters:,} parameters ({share:.2%}), {layer.trainable:,} of them "
            f"trained, {units.byte_size(layer.bytes)}"
        )
        lines.append(text)
        if layer.shared:
            lines.append("Some are shared with a module above, where they are counted.")
        if layer.is_folded:
            lines.append("The modules in it are not listed: there are too many.")
        return "\n".join(lines)

    def _fit_modules(self) -> None:
        is_narrow = self.width() < _WITH_SIZE
        self.header().resizeSection(_PARAMETERS, 62 if is_narrow else 86)
        self.header().resizeSection(_SHARE_COLUMN, 42 if is_narrow else 70)
        most = int(self.width() * (0.27 if is_narrow else 0.34))
        self.header().resizeSection(_MODULE, max(56, min(self._module_width, most)))

    def _fit(self) -> None:
        self._fit_modules()
        rows = self._shown(QModelIndex())
        self.setFixedHeight(
            self.header().sizeHint().height()
            + _ROW * max(1, min(rows, MOST_ROWS))
            + 2 * self.frameWidth()
            + 4
        )

    def _shown(self, parent: QModelIndex) -> int:
        rows = self._model.rowCount(parent)
        for row in range(self._model.rowCount(parent)):
            index = self._model.index(row, 0, parent)
            if self.isExpanded(index):
                rows += self._shown(index)
            if rows > MOST_ROWS:
                break
        return rows


class _ShareDelegate(QStyledItemDelegate):
    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        super().paint(painter, option, index)
        area: QRect = option.rect
        theme = theme_of(QGuiApplication.palette())
        share = float(index.data(_SHARE) or 0.0)
        bar = QRectF(area.left() + 4, area.center().y() - 2, area.width() - 8, 6)
        parts = [(share, theme.accent)] if share > 0 else []
        draw_bar(painter, bar, QColor(theme.line), parts, least=3.0)


def count_text(count: int) -> str:
    """Return `1.7 k`, `2.10 M`, `11.2 M`, `7.24 B` for a number of parameters; empty for none."""
    if not count:
        return "–"
    value = float(count)
    for unit in ("", "k", "M", "B", "T"):
        if value < 999.5 or unit == "T":
            break
        value /= 1000
    if not unit:
        return str(count)
    digits = 2 if value < 10 and unit != "k" else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"
