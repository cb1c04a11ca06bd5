"""The entries of the menu and the keys that press a button of the watched run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from gui.run_view.run_controls import RunControls
from gui.style.state_style import state_name
from gui.widgets.steady_button import SteadyButton


class RunActions(QObject):
    """A key whose button is disabled says why nothing is done; an entry of the open menu is
    disabled as its button is."""

    refused = Signal(str)
    """Why nothing is done."""

    def __init__(
        self, controls: RunControls, buttons: Mapping[QAction, SteadyButton], menu: QMenu
    ) -> None:
        """`buttons` by the actions of `menu` that press them."""
        super().__init__(controls)
        self._controls, self._buttons = controls, dict(buttons)
        for action in buttons:
            action.setAutoRepeat(False)  # a second Stop ends the run at once
            action.triggered.connect(partial(self._press, action))
        menu.aboutToShow.connect(self._follow_buttons)
        menu.aboutToHide.connect(self._enable_all)  # a disabled action does not hear its key

    def _follow_buttons(self) -> None:
        for action, button in self._buttons.items():
            action.setEnabled(button.isEnabled())

    def _enable_all(self) -> None:
        for action in self._buttons:
            action.setEnabled(True)

    def _press(self, action: QAction) -> None:
        button, info = self._buttons[action], self._controls.info
        if button.isEnabled():
            button.click()
            return
        name = action.text().replace("&", "")
        text = f"{name}: no run is shown."
        if info is not None:
            text = f"{name} is not possible: run {info.id} is {state_name(info.state)}."
        self.refused.emit(text)
