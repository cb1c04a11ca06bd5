"""The legend: a click hides a curve, Alt+click shows it alone, and the keyboard does both."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from gui.plots.plot.legend import Form, Legend

ALT = Qt.KeyboardModifier.AltModifier
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


def test_the_legend_takes_more_lines_and_then_short_names(legend: Legend) -> None:
    for name in ("a", "b", "c"):
        legend.set_curve(name, f"a name of some length {name}", "#ffffff", short=f"#{name}")
    legend.show_values(dict.fromkeys("abc", ("0.5", "0.25")))
    whole = sum(legend.chip(name).width_in(Form.SMOOTHED) for name in ("a", "b", "c"))

    def form(beside: int, below: int, lines: int) -> tuple[bool, Form]:
        is_beside = legend.fit(beside, below, lines)
        chips = legend.chips()
        assert len(chips) == 3
        assert all(chip.width() >= chip.sizeHint().width() for chip in chips)
        assert all(legend.height() >= chip.geometry().bottom() for chip in chips)
        return is_beside, legend.chip("a").form

    assert form(whole, whole, 1) == (True, Form.SMOOTHED)
    assert form(whole - 1, whole, 1) == (False, Form.SMOOTHED)
    assert form(0, whole - 1, 2) == (False, Form.SMOOTHED), "a second line"
    assert form(0, whole - 1, 1) == (False, Form.VALUE)
    short = sum(legend.chip(name).width_in(Form.SHORT) for name in ("a", "b", "c"))
    assert form(0, short, 1) == (False, Form.SHORT)


def test_chips_that_do_not_fit_are_in_a_menu_and_none_is_cut(legend: Legend) -> None:
    legend.show_values(dict.fromkeys("abc", ("0.5", "")))
    width = legend.chip("a").width_in(Form.SHORT)
    assert not legend.fit(0, width + 30, 1)
    first, more = legend.chips()
    assert first is legend.chip("a")
    assert (more.text(), more.accessibleName()) == ("+2", "2 more curves")
    assert more.geometry().right() < width + 30
    told: list[tuple[str, bool]] = []
    legend.toggled.connect(lambda name, on: told.append((name, on)))
    more.menu().aboutToShow.emit()
    assert [entry.text() for entry in more.menu().actions()] == ["b 0.5", "c 0.5"]
    more.menu().actions()[1].trigger()
    assert told == [("c", False)]
    assert legend.fit(1000, 1000, 1)
    assert len(legend.chips()) == 3


def test_a_screen_reader_hears_the_value_that_is_shown(legend: Legend, qtbot: QtBot) -> None:
    legend.show_values({"a": ("0.5", "0.25")})
    legend.fit(1000, 1000, 1)
    with qtbot.waitActive(legend):
        legend.activateWindow()
    legend.chip("a").setFocus()
    qtbot.waitUntil(legend.chip("a").hasFocus)
    assert legend.chip("a").accessibleName() == "a 0.5 smoothed 0.25"
    legend.show_values({"a": ("0.75", "0.5")})
    assert legend.chip("a").accessibleName() == "a 0.75 smoothed 0.5", "also while it has the focus"


def test_chips_are_sorted_by_the_given_order(legend: Legend) -> None:
    legend.arrange(["c", "a", "b"])
    assert legend.names() == ["c", "a", "b"]
    legend.fit(300, 300, 1)
    assert legend.chip("c").x() < legend.chip("a").x() < legend.chip("b").x()
