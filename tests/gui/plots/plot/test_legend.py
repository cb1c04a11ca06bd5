"""The legend: a click hides a curve, Alt+click shows it alone, and the keyboard does both."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QHBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gui.plots.plot.dash_styles import DASH_STYLES, DashStyle
from gui.plots.plot.legend import Legend

ALT = Qt.KeyboardModifier.AltModifier
STYLE = Qt.ToolButtonStyle
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def legend(qtbot: QtBot) -> Legend:
    made = Legend()
    qtbot.addWidget(made)
    for name in ("a", "b", "c"):
        made.set_curve(name, name, "#ffffff")
    made.resize(300, 30)
    made.show()
    return made


def shown(legend: Legend) -> str:
    return "".join(name for name in legend.names() if legend.chip(name).isChecked())


def test_alt_and_a_click_shows_one_alone_and_again_all(legend: Legend) -> None:
    QTest.mouseClick(legend.chip("b"), LEFT, ALT)
    assert shown(legend) == "b"
    QTest.mouseClick(legend.chip("c"), LEFT, ALT)
    assert shown(legend) == "c"
    QTest.mouseClick(legend.chip("c"), LEFT, ALT)
    assert shown(legend) == "abc"


def test_the_keyboard_does_the_same(legend: Legend) -> None:
    told: list[tuple[str, bool]] = []
    legend.toggled.connect(lambda name, on: told.append((name, on)))
    chip = legend.chip("a")
    assert chip.focusPolicy() & Qt.FocusPolicy.TabFocus
    QTest.keyClick(chip, Qt.Key.Key_Return)
    QTest.keyClick(chip, Qt.Key.Key_Space)
    assert told == [("a", False), ("a", True)]
    QTest.keyClick(chip, Qt.Key.Key_Return, ALT)
    assert shown(legend) == "a"


@pytest.mark.parametrize("dash", DASH_STYLES)
def test_a_chip_shows_the_dash_of_its_curve_and_whether_it_is_seen(
    legend: Legend, dash: DashStyle
) -> None:
    def drawn(name: str) -> QImage:
        chip = legend.chip(name)
        state = QIcon.State.On if chip.isChecked() else QIcon.State.Off
        return chip.icon().pixmap(chip.iconSize(), QIcon.Mode.Normal, state).toImage()

    solid = drawn("a")
    legend.set_curve("b", "b", "#ffffff", dash)
    shown = drawn("b")
    assert (shown == solid) is (not dash.pattern)
    legend.chip("b").click()
    assert drawn("b") != shown, "and not by its colour alone"


def test_names_are_shown_whole_or_not_at_all(qtbot: QtBot) -> None:
    card = QWidget()
    qtbot.addWidget(card)
    legend = Legend()
    QHBoxLayout(card).addWidget(legend)
    for name in ("a", "b", "c"):
        legend.set_curve(name, f"a name of some length {name}", "#ffffff")
    card.show()

    def are_said(width: int) -> bool:
        card.resize(width, 40)
        QApplication.processEvents()
        chips = legend.chips()
        assert all(chip.width() >= chip.sizeHint().width() for chip in chips)
        return {chip.toolButtonStyle() for chip in chips} == {STYLE.ToolButtonTextBesideIcon}

    assert are_said(700)
    assert not are_said(300)
    legend.remove("b")
    legend.remove("c")
    assert are_said(300)


def test_chips_are_sorted_by_the_given_order(legend: Legend) -> None:
    legend.arrange(["c", "a", "b"])
    assert legend.names() == ["c", "a", "b"]
    QApplication.processEvents()
    assert legend.chip("c").x() < legend.chip("a").x() < legend.chip("b").x()
