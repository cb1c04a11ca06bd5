"""The toolbar above the plots, at every width."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gui.plots.data.x_axis import XKind
from gui.plots.panel.toolbar import PlotToolbar
from gui.style.theme import DARK


def test_a_narrow_toolbar_has_a_menu_for_the_horizontal_axis(qtbot: QtBot) -> None:
    panel = QWidget()
    qtbot.addWidget(panel)
    toolbar = PlotToolbar(DARK, panel)
    toolbar.resize(1200, 40)
    panel.show()
    step = toolbar.x_buttons[XKind.STEP]
    assert step.isVisible()
    assert not toolbar.x_choice.isVisible()
    least = toolbar.minimumSizeHint().width()
    toolbar.resize(least, 40)
    QApplication.processEvents()
    assert toolbar.minimumSizeHint().width() <= least, "it does not grow while it gets narrow"
    assert not step.isVisible()
    assert toolbar.x_choice.isVisible()
    assert toolbar.x_choice.text() == "Step"
    with qtbot.waitSignal(toolbar.x_chosen) as chosen:
        toolbar.x_choice.menu().actions()[1].trigger()
    assert chosen.args == [XKind.EPOCH]
    assert toolbar.x_choice.text() == "Epoch"
    assert toolbar.x_choice.accessibleName() == "Horizontal axis: Epoch"
