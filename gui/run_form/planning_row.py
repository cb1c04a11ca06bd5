"""The line of the form about what can be measured before a run: memory, preflight, batch size."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QMenu, QPushButton, QSizePolicy, QToolButton, QWidget

from engine.planning.results import MemoryEstimate
from gui.run_form.memory_bar import MemoryBar, estimate_text
from gui.widgets.boxes import row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.icon_button import IconButton
from gui.widgets.plain_text import set_wrapped_tip
from gui.widgets.steady_button import let_go_of_menu

_HEIGHT = 16
"""Logical pixels, whatever it says: the buttons below must not move under the pointer."""


class PlanningRow(QWidget):
    """A sentence, the memory of the devices if it is predicted, and a menu with all measures."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._estimate: MemoryEstimate | None = None
        self._is_tried = True
        self._busy = ""
        self._display: Callable[[str], str] = str
        self.bar = MemoryBar()
        self.text = ElidedLabel(objectName="note")
        self.offer = _link("Preflight")
        self.offer.setAccessibleName("Preflight on these devices")
        self.estimate_link = _link("Estimate memory")
        self.stop_link = _link("Stop")
        self.stop_link.setAccessibleName("Stop predicting the memory")
        self.menu_button = IconButton(
            "dots-three-vertical",
            "More before a run",
            "More before a run: memory, batch size, strategies, sweep",
        )
        self.menu_button.setObjectName("dots")
        self.menu_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu("More before a run", self)
        self.preflight = self.menu.addAction("Preflight")
        self.estimate_memory = self.menu.addAction("Estimate memory")
        self.find_batch_size = self.menu.addAction("Find batch size…")
        self.race = self.menu.addAction("Race strategies")
        self.sweep = self.menu.addAction("Sweep…")
        self.menu_button.setMenu(self.menu)
        let_go_of_menu(self.menu_button)
        self.offer.clicked.connect(self.preflight.trigger)
        self.estimate_link.clicked.connect(self.estimate_memory.trigger)
        row_of(
            self.bar,
            (self.text, 1),
            self.offer,
            self.estimate_link,
            self.stop_link,
            self.menu_button,
            parent=self,
            margins=0,
            spacing=6,
        )
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._show()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, _HEIGHT)

    def set_tried(self, tried: bool) -> None:
        """Offer a preflight unless this recipe was `tried` on these devices."""
        if tried != self._is_tried:
            self._is_tried = tried
            self._show()

    def set_display(self, display: Callable[[str], str]) -> None:
        """Set what devices are called."""
        self._display = display

    def show_busy(self, text: str) -> None:
        """Say what is being predicted; empty: nothing is."""
        self._busy = text
        self._show()

    def show_estimate(self, estimate: MemoryEstimate | None) -> None:
        """Show the prediction for what is in the form; None: there is none."""
        self._estimate, self._busy = estimate, ""
        self._show()

    def _show(self) -> None:
        estimate = self._estimate
        text, tone, tip = "", "", ""
        if self._busy:
            text = self._busy
        elif estimate is not None:
            text, tone = _verdict(estimate)
            numbers = estimate_text(estimate.devices, self._display)
            tip = "\n".join(filter(None, (text, numbers)))
        elif not self._is_tried:
            text = "Not tried on these devices yet:"
        is_offered = not (self._busy or estimate or self._is_tried)
        self.bar.show_devices(
            estimate.devices if estimate is not None and not self._busy else (), self._display
        )
        self.text.setText(text)
        set_wrapped_tip(self.text, tip or text)
        if self.text.property("tone") != tone:
            self.text.setProperty("tone", tone)
            self.text.style().polish(self.text)
        self.offer.setVisible(is_offered)
        self.estimate_link.setVisible(not (self._busy or estimate or is_offered))
        self.stop_link.setVisible(bool(self._busy))


def _verdict(estimate: MemoryEstimate) -> tuple[str, str]:
    """Return the sentence of a prediction with its mark, and its tone."""
    if estimate.problem:
        return f"⚠ {estimate.problem}", "warning"
    if estimate.fits is None:
        return estimate.text, ""
    return (f"✓ {estimate.text}", "good") if estimate.fits else (f"✕ {estimate.text}", "bad")


def _link(text: str) -> QPushButton:
    button = QPushButton(text)
    button.setObjectName("link")
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    return button
