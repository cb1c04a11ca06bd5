"""The legend of a plot: one chip per curve, with its colour, dash style and name; a click hides
it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QWidget

from gui.plots.plot.dash_styles import SOLID, DashStyle, icon_size, legend_icon
from gui.widgets.plain_text import plain_tip

MAX_NAMED = 4
"""With more chips, or if the names do not fit, the legend shows dots without names; the tooltips
have the names."""

MAX_NAMED_ALONE = 6
"""The same for a legend that has a line of its own."""


class LegendChip(QToolButton):
    """Checked while the curve is visible. Alt+click or Alt+Enter hides all other curves."""

    alone_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("chip")
        self.setCheckable(True)
        self.setChecked(True)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Handle a click with Alt."""
        if event.modifiers() & Qt.KeyboardModifier.AltModifier:
            self.alone_requested.emit()
        else:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Let Enter do what Space does. Alt+Enter shows the curve alone: desktops reserve
        Alt+Space."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
        elif event.modifiers() & Qt.KeyboardModifier.AltModifier:
            self.alone_requested.emit()
        else:
            self.toggle()


class Legend(QWidget):
    """A row of chips."""

    toggled = Signal(str, bool)
    """Name of a curve, and whether it should be visible."""

    def __init__(self, most_named: int = MAX_NAMED, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._most_named = most_named
        # Many chips must not widen a narrow card: those at the end are cut off.
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._chips: dict[str, LegendChip] = {}
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        self._row.addStretch(1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the names if they fit now."""
        super().resizeEvent(event)
        self._show_names()

    def chip(self, name: str) -> LegendChip:
        """Return the chip of the curve `name`."""
        return self._chips[name]

    def chips(self) -> list[LegendChip]:
        """All chips, from left to right."""
        return list(self._chips.values())

    def names(self) -> list[str]:
        """The names of the curves, from left to right."""
        return list(self._chips)

    def set_curve(self, name: str, label: str, colour: str, dash: DashStyle = SOLID) -> None:
        """Show the curve `name` as `label`; create its chip if necessary."""
        if name not in self._chips:
            self._add(name)
        chip = self._chips[name]
        chip.setText(label)
        tip = self.tr(
            "{curve}: click to hide or show, Alt+click to see it alone (Enter, Alt+Enter)"
        )
        chip.setToolTip(plain_tip(tip.format(curve=label)))
        chip.setAccessibleName(label)
        chip.setIcon(legend_icon(colour, dash))
        chip.setIconSize(icon_size(dash))
        self._show_names()

    def arrange(self, names: Sequence[str]) -> None:
        """Sort the chips by `names`, which must name every curve."""
        if list(names) == list(self._chips):
            return
        self._chips = {name: self._chips[name] for name in names}
        before = None
        for place, chip in enumerate(self._chips.values()):
            self._row.removeWidget(chip)
            self._row.insertWidget(place, chip)
            if before is not None:
                QWidget.setTabOrder(before, chip)
            before = chip

    def show_alone(self, name: str) -> None:
        """Hide every other curve; if `name` is the only visible one, show all."""
        others = [chip for each, chip in self._chips.items() if each != name]
        back = self._chips[name].isChecked() and not any(chip.isChecked() for chip in others)
        self._chips[name].setChecked(True)
        for chip in others:
            chip.setChecked(back)

    def remove(self, name: str) -> None:
        """Remove the chip of a curve."""
        chip = self._chips.pop(name)
        self._row.removeWidget(chip)
        chip.hide()  # a hidden chip passes on the focus, a deleted one does not
        chip.deleteLater()
        self._show_names()

    def clear(self) -> None:
        """Remove every chip."""
        for name in self.names():
            self.remove(name)

    def _add(self, name: str) -> None:
        chip = LegendChip()
        chip.toggled.connect(lambda visible: self.toggled.emit(name, visible))
        chip.alone_requested.connect(lambda: self.show_alone(name))
        self._row.insertWidget(len(self._chips), chip)
        self._chips[name] = chip

    def _show_names(self) -> None:
        """Show the names if all of them fit: a cut name is useless."""
        self._set_style(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        few = len(self._chips) <= self._most_named
        if not few or self._row.minimumSize().width() > self.width():
            self._set_style(Qt.ToolButtonStyle.ToolButtonIconOnly)

    def _set_style(self, style: Qt.ToolButtonStyle) -> None:
        for chip in self._chips.values():
            chip.setToolButtonStyle(style)
