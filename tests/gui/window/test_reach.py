"""Everybody reaches everything: by keys, by ear, and without guessing what is cut off.

It is seen what has the focus, and the focus is not lost with it. One window for all of a state: to
open it takes seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QImage
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
    QPlainTextEdit,
    QProgressBar,
    QScrollArea,
    QWidget,
)
from pytestqt.qtbot import QtBot

from gui.app import AppController
from gui.widgets.elided_label import ElidedLabel
from gui.window.main_window import MainWindow
from tests.gui.window_states import called, plain, visible_widgets, window_in_state
from tools.screenshots.pictures import State

STATES: list[State] = ["running", "failed", "compare", "first-start"]
AT_NIGHT: list[State] = ["runs", "media", "script", "race", "gpus"]
"""Each takes up to 5 s of a processor, and has few controls that none of the others has."""

FIELDS = (
    QLineEdit, QComboBox, QAbstractSpinBox, QAbstractSlider, QAbstractItemView, QPlainTextEdit,
    QProgressBar, QGraphicsView,
)  # fmt: skip
MOST_STOPS = 400


@pytest.mark.parametrize(
    "state", [*STATES, *(pytest.param(each, marks=pytest.mark.nightly) for each in AT_NIGHT)]
)
def test_everybody_reaches_the_window(state: State, qapp: QApplication, qtbot: QtBot) -> None:
    with window_in_state(state, qapp) as app:
        whatever_is_no_text_has_a_name(app)
        it_fits_a_small_screen(app.window)
        assert app.window.focusWidget() is app.window.strip.menu_button, "a named control"
        with qtbot.waitActive(app.window):
            app.window.activateWindow()
        stops = go_round(app.window)
        tab_goes_to_everything_pane_after_pane(app, stops)
        if state in ("running", "failed", "compare"):
            # A legend that comes into sight may put its last curves into its menu.
            kinds = {(type(stop), stop.objectName(), type(stop.parent())): stop for stop in stops}
            unseen = [
                called(stop)
                for stop in kinds.values()
                if not focus_shows(app.window, stop) and stop.isVisible()
            ]
            assert not unseen, "\n".join(unseen)
        match state:
            case "failed":
                loses_its_button(app.banner.dismiss)
            case "compare":
                a_pinned_run_keeps_the_focus(app)
                loses_its_button(app.rooms.runs.comparison.chips.close_button)
            case "first-start":
                loses_its_button(app.welcome_page.button, lambda: starts(app))
            case "running":
                the_focus_survives_another_run(app)


def whatever_is_no_text_has_a_name(app: AppController) -> None:
    """And nothing is cut off, and no letter is underlined twice."""
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

    unnamed = [
        called(widget)
        for widget in seen
        if widget.focusPolicy() is not Qt.FocusPolicy.NoFocus
        and not isinstance(widget.parentWidget(), QGraphicsView)
        and not spoken_name(widget)
    ]
    assert not unnamed, "it takes the focus, and a screen reader says nothing"


def spoken_name(widget: QWidget) -> str:
    """What Qt tells a screen reader: the accessible name, the text, or that of the label beside."""
    return QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name)


def it_fits_a_small_screen(window: QWidget) -> None:
    """At 200 %, 1280 x 800 pixels are 640 x 400; a frame and a panel take some of them."""
    least = window.minimumSizeHint()
    assert least.width() <= 628
    assert least.height() <= 340


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


def mnemonics(window: MainWindow) -> Counter[str]:
    """The underlined letters of what is in sight, and those of the menus."""
    found: Counter[str] = Counter()
    for widget in visible_widgets(window):
        if isinstance(widget, QAbstractButton) or (isinstance(widget, QLabel) and widget.buddy()):
            found.update(letter(widget.text()))
    for menu in window.menus:
        inside = Counter(key for action in menu.actions() for key in letter(action.text()))
        assert not [key for key, count in inside.items() if count > 1], menu.title()
        assert letter(menu.title()), "Alt opens it"
        found.update(letter(menu.title()))
    return found


def letter(text: str) -> list[str]:
    """The underlined letter of `text`, if one is."""
    return [key.upper() for key in re.findall("&(.)", text.replace("&&", ""))]


def tab_goes_to_everything_pane_after_pane(app: AppController, stops: list[QWidget]) -> None:
    """`stops`: where Tab leads, once round."""
    window = app.window
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
            app.window.strip, app.devices, app.form, app.alarms, app.run_list_panel, app.banner,
            app.welcome_page, app.rooms.run.plots, app.rooms.runs.comparison, app.log_bar, app.log,
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


def focus_shows(window: QMainWindow, stop: QWidget) -> bool:
    """Whether it can be seen that `stop` has the focus."""
    around: QWidget | None = stop
    while around := around.parentWidget() if around else None:
        if isinstance(around, QScrollArea):
            around.ensureWidgetVisible(stop)
    stop.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    focused = picture(window, stop)
    stop.clearFocus()
    QApplication.processEvents()
    return focused != picture(window, stop)


def picture(window: QWidget, stop: QWidget) -> QImage:
    """The widget with the card around it, which may be what changes."""
    card = stop
    while isinstance(stop, QGraphicsView) and card.objectName() != "card":
        parent = card.parentWidget()
        if parent is None:
            break
        card = parent
    place = QRect(card.mapTo(window, QPoint()), card.size())
    return window.grab(place).toImage()


def loses_its_button(button: QAbstractButton, press: Callable[[], object] | None = None) -> None:
    """The focus is not lost with the button that had it."""
    button.setFocus()
    assert button.hasFocus()
    if press is None:
        QTest.keyClick(button, Qt.Key.Key_Space)
    else:
        press()
    focused = QApplication.focusWidget()
    assert not (button.isVisible() and button.isEnabled())
    assert focused.isVisible()
    assert focused.isEnabled()


def starts(app: AppController) -> None:
    """As when the button of the welcome page was pressed."""
    app.welcome_page.show_starting(True)


def the_focus_survives_another_run(app: AppController) -> None:
    """Chips of curves go with the run that they belong to."""
    chip = app.rooms.run.plots.plots()[0].legend.chips()[0]
    chip.setFocus()
    assert chip.hasFocus()
    app.open(app.run_list.watched)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert QApplication.focusWidget() is not None


def a_pinned_run_keeps_the_focus(app: AppController) -> None:
    """Its chip is made anew."""
    chips, run_id = app.rooms.runs.comparison.chips, app.chosen.ids()[2]
    chips.pin(run_id).setFocus()
    QTest.keyClick(chips.pin(run_id), Qt.Key.Key_Space)
    assert app.chosen.baseline == run_id
    assert QApplication.focusWidget() is chips.pin(run_id)
