"""The legend of a plot: one chip per curve, with its colour, dash style, name and value; a click
hides the curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import islice

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetrics,
    QIcon,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolButton, QWidget

from gui.plots.plot.dash_styles import SOLID, DashStyle, icon_size, legend_icon
from gui.style.theme import DARK, Theme
from gui.widgets.plain_text import plain_tip

_MARGIN, _SPACE = 3, 4
"""Logical pixels at both ends of a chip, and between its parts."""

_VERTICAL = 2
"""Logical pixels above and below the text of a chip."""

NO_VALUE = "–"


_MOST_MEASURED = 60
"""Chips of which some may find room; of hundreds, the menu has the rest."""


class Form(IntEnum):
    """What the chips show; a later form needs less room."""

    SMOOTHED = 0
    """Name, value, and smoothed value."""

    VALUE = 1
    """Name and value."""

    SHORT = 2
    """Short name and value."""


class LegendChip(QToolButton):
    """Checked while the curve is visible. Alt+click or Alt+Enter hides all other curves."""

    alone_requested = Signal()

    def __init__(self, sample: str) -> None:
        """`sample` is a usual value: the chip has room for it from the beginning."""
        super().__init__()
        self._sample = sample
        self.setObjectName("chip")
        self.setCheckable(True)
        self.setChecked(True)
        self.short = ""
        """The name where there is little room; empty: as `text`."""

        self.theme = DARK
        self.form = Form.SMOOTHED
        self.value = self.smoothed = ""
        self._room = [0, 0]
        """Widths that are kept for value and smoothed value: the widest so far, so that the chips
        do not move while values change."""

    def show_value(self, value: str, smoothed: str) -> bool:
        """Show the value of a point and the smoothed value there; empty: none. Return whether the
        chip needs more room than before."""
        if (value, smoothed) == (self.value, self.smoothed):
            return False
        self.ensurePolished()
        self.value, self.smoothed = value, smoothed
        before = list(self._room)
        if value:
            self._room[0] = max(before[0], self._bold().horizontalAdvance(value))
        if smoothed:
            wide = self.fontMetrics().horizontalAdvance(self._smoothed_text())
            self._room[1] = max(before[1], wide)
        if self.hasFocus():
            self.setAccessibleName(self.read_out)
        self.update()
        return self._room != before

    def forget_smoothed(self) -> None:
        """Keep no room for a smoothed value."""
        self.smoothed = ""
        self._room[1] = 0

    def width_in(self, form: Form) -> int:
        """Return the width in `form`, in logical pixels."""
        self.ensurePolished()
        self._room[0] = self._room[0] or self._bold().horizontalAdvance(self._sample)
        parts = [self.iconSize().width(), self.fontMetrics().horizontalAdvance(self._name(form))]
        parts += [room for room in (self._room[0], self._room[1] * (form is Form.SMOOTHED)) if room]
        return sum(parts) + _SPACE * (len(parts) - 1) + 2 * _MARGIN

    @property
    def read_out(self) -> str:
        """Name, value and smoothed value as one text."""
        parts = (self.text(), self.value, self._smoothed_text() if self.smoothed else "")
        return " ".join(part for part in parts if part)

    def sizeHint(self) -> QSize:
        """The size in the present form."""
        width = self.width_in(self.form)
        return QSize(width, self.fontMetrics().height() + 2 * _VERTICAL)

    def minimumSizeHint(self) -> QSize:
        """The same: nothing is cut."""
        return self.sizeHint()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Let a screen reader say the values that are shown now."""
        self.setAccessibleName(self.read_out)
        super().focusInEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the colour, the name, the value in bold, and the smoothed value."""
        theme = self.theme
        painter = QPainter(self)
        on = self.isChecked()
        if self.hasFocus() or self.underMouse():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QColor(theme.accent if self.hasFocus() else theme.line))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        area = self.rect().adjusted(_MARGIN, 0, -_MARGIN, 0)
        icon = QRect(area.topLeft(), QSize(self.iconSize().width(), area.height()))
        self.icon().paint(
            painter, icon, Qt.AlignmentFlag.AlignCenter, QIcon.Mode.Normal,
            QIcon.State.On if on else QIcon.State.Off,
        )  # fmt: skip
        left = icon.right() + 1 + _SPACE
        # A chip that is wider than its line keeps its value, and both ends of its name.
        wide = max(self.width_in(self.form) - self.width(), 0)
        name = self._name(self.form)
        if wide:
            room = self.fontMetrics().horizontalAdvance(name) - wide
            name = self.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, room)
        painter.setPen(QColor(theme.text if on else theme.muted))
        left = self._draw(painter, left, name)
        if not on:
            return
        value_font = QFont(self.font())
        value_font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(value_font)
        self._draw(painter, left, self.value)
        if self.form is Form.SMOOTHED and self.smoothed:
            painter.setFont(self.font())
            painter.setPen(QColor(theme.muted))
            self._draw(painter, left + self._room[0] + _SPACE, self._smoothed_text())

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

    def _name(self, form: Form) -> str:
        return (form is Form.SHORT and self.short) or self.text()

    def _smoothed_text(self) -> str:
        return f"smoothed {self.smoothed}"

    def _bold(self) -> QFontMetrics:
        font = QFont(self.font())
        font.setWeight(QFont.Weight.DemiBold)
        return QFontMetrics(font)

    def _draw(self, painter: QPainter, left: int, text: str) -> int:
        """Draw `text`, and return where the next part begins."""
        area = QRect(QPoint(left, 0), QSize(self.width(), self.height()))
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(area, int(flags | Qt.TextFlag.TextSingleLine), text)
        return left + painter.fontMetrics().horizontalAdvance(text) + _SPACE


class Legend(QWidget):
    """The chips in one line or several; those that do not fit are in a menu at the end."""

    toggled = Signal(str, bool)
    """Name of a curve, and whether it should be visible."""

    grown = Signal()
    """The legend needs another place or more lines: call `fit`."""

    def __init__(self, sample: str = "", parent: QWidget | None = None) -> None:
        """`sample` is a usual value, for which each chip has room from the beginning."""
        super().__init__(parent)
        self._sample = sample
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._chips: dict[str, LegendChip] = {}
        self._looks: dict[str, tuple[str, str, DashStyle, str, str, float]] = {}
        self._theme = DARK
        self.used_width = 0
        """Logical pixels that the last line takes."""

        self.more = QToolButton(self)
        self.more.setObjectName("chip")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(QMenu(self.more))
        self.more.menu().aboutToShow.connect(self._fill_menu)
        self.more.hide()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        for chip in self._chips.values():
            chip.theme = theme
            chip.update()

    def chip(self, name: str) -> LegendChip:
        """Return the chip of the curve `name`."""
        return self._chips[name]

    def chips(self) -> list[QToolButton]:
        """The visible chips, from left to right, and the button of the menu with the others."""
        shown: list[QToolButton] = [chip for chip in self._chips.values() if chip.isVisibleTo(self)]
        return [*shown, self.more] if self.more.isVisibleTo(self) else shown

    def names(self) -> list[str]:
        """The names of the curves, from left to right."""
        return list(self._chips)

    def set_curve(
        self,
        name: str,
        label: str,
        colour: str,
        dash: DashStyle = SOLID,
        short: str = "",
        about: str = "",
    ) -> None:
        """Show the curve `name` as `label`, or as `short` where there is little room; create its
        chip if necessary. `about` is added to its tooltip."""
        look = label, colour, dash, short, about, self.devicePixelRatioF()
        if name not in self._chips:
            self._add(name)
        elif self._looks.get(name) == look:
            return
        self._looks[name] = look
        chip = self._chips[name]
        chip.setText(label)
        chip.short = short
        tip = f"{label}: click to hide or show, Alt+click to see it alone (Enter, Alt+Enter)"
        chip.setToolTip(plain_tip("\n".join(filter(None, (tip, about)))))
        chip.setAccessibleName(label)
        chip.setIcon(legend_icon(colour, dash))
        chip.setIconSize(icon_size(dash))
        self.grown.emit()

    def show_values(self, values: Mapping[str, tuple[str, str]], missing: str = "") -> None:
        """Show the value and the smoothed value (empty: none) of each curve by its name, and
        `missing` for the others."""
        nothing = (missing, "")
        grew = [chip.show_value(*values.get(name, nothing)) for name, chip in self._chips.items()]
        if any(grew):
            self.grown.emit()

    def forget_smoothed(self) -> None:
        """Keep no room for smoothed values any more."""
        for chip in self._chips.values():
            chip.forget_smoothed()
        self.grown.emit()

    def arrange(self, names: Sequence[str]) -> None:
        """Sort the chips by `names`, which must name every curve."""
        if list(names) == list(self._chips):
            return
        self._chips = {name: self._chips[name] for name in names}
        before = None
        for chip in self._chips.values():
            if before is not None:
                QWidget.setTabOrder(before, chip)
            before = chip
        self.grown.emit()

    def show_alone(self, name: str) -> None:
        """Hide every other curve; if `name` is the only visible one, show all."""
        others = [chip for each, chip in self._chips.items() if each != name]
        back = self._chips[name].isChecked() and not any(chip.isChecked() for chip in others)
        self._chips[name].setChecked(True)
        for chip in others:
            chip.setChecked(back)

    def remove(self, name: str) -> None:
        """Remove the chip of a curve."""
        self._looks.pop(name, None)
        chip = self._chips.pop(name)
        chip.hide()  # a hidden chip passes on the focus, a deleted one does not
        chip.deleteLater()
        self.grown.emit()

    def clear(self) -> None:
        """Remove every chip."""
        for name in self.names():
            self.remove(name)

    def fit(self, beside: int, below: int, most_lines: int) -> bool:
        """Choose the form of the chips and place them: in one line of the width `beside`, or in up
        to `most_lines` lines of the width `below`. Return whether one line is enough."""
        chips = list(islice(self._chips.values(), _MOST_MEASURED))
        further = len(self._chips) - len(chips)
        for form in Form:
            widths = [chip.width_in(form) for chip in chips]
            if not further and sum(widths) <= beside:
                self._place(form, [list(zip(chips, widths, strict=True))])
                return True
            lines = self._lines(widths, below)
            if not further and len(lines) <= most_lines:
                break
        rest = further + sum(map(len, lines[most_lines:]))
        self._place(form, lines[:most_lines], below, rest=rest)
        return False

    def _lines(self, widths: Sequence[int], room: int) -> list[list[tuple[LegendChip, int]]]:
        """Break the first chips, with these widths, into lines; a chip is at most as wide as a
        line."""
        lines: list[list[tuple[LegendChip, int]]] = []
        used = room
        for chip, width in zip(self._chips.values(), widths, strict=False):
            width = min(width, room)
            if used + width > room:
                lines.append([])
                used = 0
            lines[-1].append((chip, width))
            used += width
        return lines

    def _place(
        self,
        form: Form,
        lines: Sequence[Sequence[tuple[LegendChip, int]]],
        room: int = 0,
        rest: int = 0,
    ) -> None:
        """Show the chips of `lines`. If the last `rest` chips are not among them, make room for the
        button of the menu, and leave out the chips that stand there."""
        last = list(lines[-1]) if lines else []
        if rest:
            while last and sum(width for _, width in last) + self._width_of_more(rest) > room:
                last.pop()
                rest += 1
        shown = [*lines[:-1], last]
        height = max((chip.sizeHint().height() for line in shown for chip, _ in line), default=0)
        visible = {id(chip) for line in shown for chip, _ in line}
        for chip in self._chips.values():
            chip.form = form
            chip.setVisible(id(chip) in visible)
            chip.update()
        left = 0
        for number, line in enumerate(shown):
            left = 0
            for chip, width in line:
                chip.setGeometry(left, number * height, width, height)
                left += width
        self.more.setVisible(rest > 0)
        if rest:
            self.more.setText(self._text_of_more(rest))
            self.more.setAccessibleName(f"{rest} more curves")
            self.more.setGeometry(
                left, (len(shown) - 1) * height, self._width_of_more(rest), height
            )
            left += self.more.width()
        self.used_width = left
        self.setFixedHeight(len(shown) * height)

    def _text_of_more(self, rest: int) -> str:
        return f"+{rest}"

    def _width_of_more(self, rest: int) -> int:
        self.more.ensurePolished()
        text = self._text_of_more(rest + len(self._chips))
        return self.more.fontMetrics().horizontalAdvance(text) + 4 * _MARGIN

    def _fill_menu(self) -> None:
        """List the curves whose chips do not fit, with their values."""
        menu = self.more.menu()
        menu.clear()
        for chip in self._chips.values():
            if not chip.isVisibleTo(self):
                entry = menu.addAction(chip.icon(), chip.read_out)
                entry.setCheckable(True)
                entry.setChecked(chip.isChecked())
                entry.toggled.connect(chip.setChecked)

    def _add(self, name: str) -> None:
        chip = LegendChip(self._sample)
        chip.setParent(self)
        chip.theme = self._theme
        chip.toggled.connect(lambda visible: self.toggled.emit(name, visible))
        chip.alone_requested.connect(lambda: self.show_alone(name))
        self._chips[name] = chip
