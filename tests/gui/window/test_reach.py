"""Everybody reaches everything: by keys, by ear, and without guessing what is cut off."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QGraphicsView,
    QLabel,
    QLineEdit,
    QMainWindow,
    QMenu,
    QPlainTextEdit,
    QProgressBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from gui.app import AppController
from gui.widgets.elided_label import ElidedLabel
from tests.gui.window_states import called, plain, visible_widgets, window_in_state
from tools.screenshots.pictures import State

STATES: list[State] = ["running", "failed", "compare", "first-start", "gpus"]
FIELDS = (
    QLineEdit, QComboBox, QAbstractSpinBox, QAbstractSlider, QAbstractItemView, QPlainTextEdit,
    QProgressBar, QGraphicsView,
)  # fmt: skip
MOST_STOPS = 400


@pytest.fixture(params=STATES)
def app(request: pytest.FixtureRequest, qapp: QApplication) -> Iterator[AppController]:
    with window_in_state(request.param, qapp) as app:
        yield app


def test_whatever_is_no_text_has_a_name(app: AppController) -> None:
    """And nothing is cut off, and no letter is underlined twice: one window for all of it."""
    seen = visible_widgets(app.window)
    buddies = {
        buddy for label in seen if isinstance(label, QLabel) if (buddy := label.buddy()) is not None
    }
    buddies |= {proxy for buddy in buddies if (proxy := buddy.focusProxy()) is not None}
    nameless = [
        called(widget)
        for widget in seen
        if needs_a_name(widget) and not widget.accessibleName() and widget not in buddies
    ]
    assert not nameless
    assert not [called(widget) for widget in seen if is_cut_off(widget)]
    doubled = [key for key, count in mnemonics(app.window).items() if count > 1]
    assert not doubled, "Alt and this letter would only move the focus to and fro"


def needs_a_name(widget: QWidget) -> bool:
    """Whether a screen reader has nothing to say about it of its own accord."""
    if isinstance(widget, QAbstractButton):
        return not re.search(r"\w", widget.text())
    if isinstance(widget, QLabel):
        return not widget.text() and not widget.pixmap().isNull()
    painted = any(
        each.__module__.startswith("gui.") and "paintEvent" in vars(each)
        for each in type(widget).__mro__
    )
    return painted or isinstance(widget, FIELDS)


def is_cut_off(widget: QWidget) -> bool:
    """Whether a text does not fit, and no tooltip has the whole of it."""
    if not isinstance(widget, QLabel | QAbstractButton) or not re.search(r"\w", widget.text()):
        return False
    seen = widget.visibleRegion().boundingRect()
    if seen.isEmpty():  # scrolled away
        return False
    if isinstance(widget, QLabel) and widget.wordWrap():
        return widget.heightForWidth(widget.width()) > widget.height()
    hint = widget.sizeHint()
    tall_enough = isinstance(widget, ElidedLabel) or hint.height() <= widget.height() + 1
    if hint.width() <= min(widget.width(), seen.width()) and tall_enough:
        return False
    return plain(widget.text()).strip() not in plain(widget.toolTip())


def mnemonics(window: QMainWindow) -> Counter[str]:
    """The underlined letters of what is in sight, the menus of the menu bar among it."""
    found: Counter[str] = Counter()
    for widget in visible_widgets(window):
        if isinstance(widget, QAbstractButton) or (isinstance(widget, QLabel) and widget.buddy()):
            found.update(letter(widget.text()))
    for menu in window.menuBar().findChildren(QMenu):
        inside = Counter(key for action in menu.actions() for key in letter(action.text()))
        assert not [key for key, count in inside.items() if count > 1], menu.title()
    for action in window.menuBar().actions():
        found.update(letter(action.text()))
    return found


def letter(text: str) -> list[str]:
    """The underlined letter of `text`, if one is."""
    return [key.upper() for key in re.findall("&(.)", text.replace("&&", ""))]


def test_tab_goes_to_everything_pane_after_pane(app: AppController, qtbot: QtBot) -> None:
    window = app.window
    with qtbot.waitActive(window):
        window.activateWindow()
    stops = go_round(window)
    left_out = [
        called(widget)
        for widget in visible_widgets(window)
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.isEnabled()
        and widget.focusProxy() is None
        and widget not in stops
        and not any(widget.isAncestorOf(stop) for stop in stops)
    ]
    assert not left_out
    panes = [
        pane
        for pane in (
            app.controls, app.alarms, app.devices, app.form, app.run_list_panel, app.banner,
            app.welcome_page, app.plots, app.comparison, app.log_bar, app.log,
        )
        if pane.isVisible()
    ]  # fmt: skip
    visited = [pane for stop in stops for pane in panes if pane.isAncestorOf(stop) or pane is stop]
    order = [pane for place, pane in enumerate(visited) if pane is not visited[place - 1]]
    names = [type(pane).__name__ for pane in order]
    assert len(order) <= len(set(map(id, visited))), f"Tab leaves a pane and comes back: {names}"


def go_round(window: QWidget) -> list[QWidget]:
    """Where Tab leads, once round."""
    QTest.keyClick(window, Qt.Key.Key_Tab)  # who begins in the middle begins in a pane
    stops: list[QWidget] = []
    for _ in range(MOST_STOPS):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        stop = QApplication.focusWidget()
        assert stop is not None, "the focus is lost"
        if stop in stops:
            return stops
        stops.append(stop)
    raise AssertionError("Tab does not come round")


@pytest.mark.parametrize("state", ["failed", "compare", "first-start"])
def test_the_focus_is_not_lost_with_its_button(
    state: State, qapp: QApplication, qtbot: QtBot
) -> None:
    pressed: dict[State, Callable[[AppController], QAbstractButton]] = {
        "failed": lambda app: app.banner.dismiss,
        "compare": lambda app: app.comparison.chips.close_button,
        "first-start": lambda app: app.welcome_page.button,
    }
    with window_in_state(state, qapp) as app:
        with qtbot.waitActive(app.window):
            app.window.activateWindow()
        button = pressed[state](app)
        button.setFocus()
        if state == "first-start":
            app.welcome_page.show_starting(True)
        else:
            QTest.keyClick(button, Qt.Key.Key_Space)
        focused = QApplication.focusWidget()
        assert not (button.isVisible() and button.isEnabled())
        assert focused is not None
        assert focused.isVisible()
        assert focused.isEnabled()
