"""Everything by keyboard: the list of keys, and the way from pane to pane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from gui.app import AppController
from gui.window.shortcuts import ShortcutsDialog, every_action
from tests.gui.conftest import Record

OpenApp = Callable[[], AppController]


def test_every_key_that_does_something_is_listed_once(open_app: OpenApp) -> None:
    window = open_app().window
    dialog = ShortcutsDialog(window, window.menus)
    text = "\n".join(label.text() for label in dialog.findChildren(QLabel))
    keys = Counter[str]()
    for action in every_action(window):
        for shortcut in action.shortcuts():
            assert shortcut.toString() in text, action.text()
            if action.shortcutContext() == Qt.ShortcutContext.WindowShortcut:
                keys[shortcut.toString()] += 1
    assert "Zoom in" in text
    assert keys["F1"] == keys["F6"] == keys["Ctrl+R"] == 1
    assert [key for key, count in keys.items() if count > 1] == [], "neither would do anything"


def test_no_key_is_taken_twice_where_it_would_do_nothing(open_app: OpenApp) -> None:
    """A key of the whole window belongs to nobody else; one of a part may be that of another."""
    window = open_app().window
    owners: dict[str, list[QAction]] = {}
    for action in every_action(window):
        for shortcut in action.shortcuts():
            owners.setdefault(shortcut.toString(), []).append(action)
    for key, actions in owners.items():
        everywhere = [
            action
            for action in actions
            if action.shortcutContext() == Qt.ShortcutContext.WindowShortcut
        ]
        assert not everywhere or len(actions) == 1, f"{key}: {[each.text() for each in actions]}"
        for one, other in combinations(actions, 2):
            assert not related(one, other), f"{key}: {one.text()} and {other.text()}"


def related(one: QAction, other: QAction) -> bool:
    """Whether the keys of both are heard by the same widget."""
    widgets = [
        [part for part in action.associatedObjects() if isinstance(part, QWidget)]
        for action in (one, other)
    ]
    return any(
        first is second or first.isAncestorOf(second) or second.isAncestorOf(first)
        for first in widgets[0]
        for second in widgets[1]
    )


def test_the_list_of_keys_fits_on_a_small_screen(open_app: OpenApp) -> None:
    window = open_app().window
    dialog = ShortcutsDialog(window, window.menus)
    area = dialog.findChild(QScrollArea)
    assert area is not None
    content = area.widget().sizeHint()
    assert content.height() < 660
    assert content.width() < 1100
    usable = dialog.screen().availableSize()
    assert dialog.sizeHint().height() < usable.height(), "the rest is reached by scrolling"
    assert dialog.sizeHint().width() < usable.width()
    dialog.show()
    assert dialog.size() == dialog.sizeHint(), "Qt would cut it to two thirds of the screen"


def test_a_question_mark_opens_the_list(open_app: OpenApp, qtbot: QtBot) -> None:
    window = open_app().window
    with qtbot.waitActive(window):
        window.activateWindow()
    QTest.keyClick(window.centralWidget(), "?")
    assert window.findChild(ShortcutsDialog) is not None


def test_f6_goes_round_the_panes_and_back(open_app: OpenApp, record: Record, qtbot: QtBot) -> None:
    record().begin()
    app = open_app()
    with qtbot.waitActive(app.window):
        app.window.activateWindow()
    panes = (app.form, app.run_list_panel, app.plots, app.log)
    app.window.show_log()
    app.form.start_button.setFocus()
    visited = []
    for _ in range(3):
        QTest.keyClick(app.window, Qt.Key.Key_F6)
        visited.append(pane_of(panes))
    assert visited == [1, 2, 3]
    QTest.keyClick(app.window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert pane_of(panes) == 2
    app.window.fold_panel.trigger()
    QTest.keyClick(app.window, Qt.Key.Key_F6)
    assert app.window.bottom.tabs.hasFocus(), "the folded panel is one line, and a pane"


def test_every_button_in_sight_can_be_reached_and_has_a_name(
    open_app: OpenApp, record: Record
) -> None:
    record().begin()
    window = open_app().window
    for button in window.findChildren(QAbstractButton):
        if not button.isVisible() or button.objectName().startswith("qt_"):
            continue
        if button.parent() and button.parent().objectName().startswith("qt_"):
            continue
        name = button.text() or button.accessibleName()
        assert name, f"{button} in {button.parent()} has no name"
        if button.autoExclusive() and not button.isChecked():
            continue  # Qt gives Tab to the checked one; the arrow keys go on from there
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus, f"{name} cannot be tabbed to"


def test_the_arrow_keys_go_from_page_to_page(open_app: OpenApp, record: Record) -> None:
    record().begin()
    pages = open_app().window.strip.pages
    pages["run"].setFocus()
    QTest.keyClick(pages["run"], Qt.Key.Key_Right)
    assert pages["runs"].hasFocus()


def pane_of(panes: tuple[QWidget, ...]) -> int | None:
    focused = QApplication.focusWidget()
    return next(
        (
            place
            for place, pane in enumerate(panes)
            if focused is pane or (focused and pane.isAncestorOf(focused))
        ),
        None,
    )
