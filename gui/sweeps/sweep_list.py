"""The list of all sweeps, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QWidget

from engine.sweeps.report import SweepSummary
from gui.style.state_marks import state_icon
from gui.style.theme import theme_of
from gui.sweeps.axes import short
from gui.sweeps.trial_texts import colour_of, mark_of, progress_of
from gui.widgets.plain_text import plain_tip

_NUMBER = Qt.ItemDataRole.UserRole
_HEIGHT = 46


class SweepList(QListWidget):
    """The current entry is the sweep that the page shows."""

    chosen = Signal(str)
    """Number of the sweep that the user wants to see."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._summaries: Sequence[SweepSummary] = ()
        self._is_filling = False
        self.setAccessibleName("Sweeps")
        self.setIconSize(QSize(14, 14))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setWordWrap(False)
        self.setSpacing(1)
        self.currentItemChanged.connect(self._choose)

    def show_sweeps(self, summaries: Sequence[SweepSummary], current: str) -> None:
        """Show these sweeps, and mark the one with the number `current`."""
        if list(summaries) == list(self._summaries) and current == self.current():
            return
        self._summaries = summaries
        self._is_filling = True
        while self.count() > len(summaries):
            self.takeItem(self.count() - 1)
        for row, summary in enumerate(summaries):
            item = self.item(row)
            if item is None:
                item = QListWidgetItem()
                item.setSizeHint(QSize(0, _HEIGHT))
                self.addItem(item)
            self._fill(item, summary)
            if summary.sweep == current:
                self.setCurrentRow(row)
        self._is_filling = False

    def current(self) -> str:
        """Return the number of the current sweep; empty: there is none."""
        item = self.currentItem()
        return str(item.data(_NUMBER)) if item is not None else ""

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            for row, summary in enumerate(self._summaries):
                self._fill(self.item(row), summary)

    def _fill(self, item: QListWidgetItem, summary: SweepSummary) -> None:
        title = f"Sweep {summary.sweep} · {summary.recipe_name}"
        progress = progress_of(summary)
        brief = f"{summary.done:,} of {summary.trials:,}"
        brief = progress if summary.problem else brief
        if summary.best is not None and summary.best.value is not None:
            brief += f" · ★ {short(summary.best.value)}"
        theme = theme_of(QGuiApplication.palette())
        said = title, progress, summary.problem, summary.reason
        item.setData(_NUMBER, summary.sweep)
        item.setText(f"{title}\n{brief}")
        item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{title}, {progress}")
        item.setIcon(state_icon(mark_of(summary.state), colour_of(summary.state, theme)))
        item.setToolTip(plain_tip("\n".join(filter(None, said))))

    def _choose(self) -> None:
        if not self._is_filling and (number := self.current()):
            self.chosen.emit(number)
