"""Everything by keyboard: the list of keys, and the way from pane to pane."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from gui.app import AppController
from gui.window.pages import PAGES, PageName, keys_of
from gui.window.shortcuts import ShortcutsDialog, every_action
from gui.window.tab_order import first_tab_stop
from tests.gui.conftest import window_of_module
from tests.support.device_states import cpu
from tests.support.recorded_runs import RecordedRun


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """A window with a run that trains."""
    with window_of_module(home, cpu()) as app:
        run = RecordedRun()
        run.begin()
        yield app
        run.store.close()


@pytest.fixture
def app(opened: AppController, qtbot: QtBot) -> AppController:
    """The window, laid out as at the first start, with the keyboard."""
    window = opened.window
    qtbot.waitUntil(lambda: opened.run_list.watched == "1")
    window.reset_layout.trigger()
    with qtbot.waitActive(window):
        window.activateWindow()
    return opened


def test_every_key_that_does_something_is_listed(app: AppController) -> None:
    dialog = ShortcutsDialog(app.window, app.window.menus)
    text = "\n".join(label.text() for label in dialog.findChildren(QLabel))
    for action in every_action(app.window):
        for shortcut in action.shortcuts():
            assert shortcut.toString() in text, action.text()
    assert "Zoom in" in text


def test_no_key_is_taken_twice_where_it_would_do_nothing(app: AppController) -> None:
    """A key of the whole window belongs to nobody else; one of a part may be that of another."""
    window = app.window
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


def test_a_question_mark_opens_the_list(app: AppController) -> None:
    window = app.window
    QTest.keyClick(window.centralWidget(), "?")
    (dialog,) = (each for each in window.findChildren(ShortcutsDialog) if each.isVisible())
    dialog.close()


def test_f6_goes_round_the_panes_and_back(app: AppController) -> None:
    panes = (app.form, app.run_list_panel, app.rooms.run.plots, app.log)
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


@pytest.mark.parametrize("page", PAGES)
def test_each_page_is_reached_by_keys(app: AppController, page: PageName, qtbot: QtBot) -> None:
    window = app.window
    window.show_page("machines" if page == "run" else "run")
    go = next(menu for menu in window.menus if menu.title() == "&Go")
    (entry,) = (each for each in go.actions() if each.shortcut().toString() == keys_of(page))
    entry.trigger()
    assert window.page == page
    assert window.strip.pages[PAGES[page].within or page].isChecked()
    pages: dict[PageName, QWidget] = {"run": app.rooms.run.plots, **window.parts.pages}
    qtbot.waitUntil(lambda: first_tab_stop(pages[page]) is not None)
    for key in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier):
        window.strip.menu_button.setFocus()
        for _ in range(12):
            QTest.keyClick(window, Qt.Key.Key_F6, key)
            if pane_of((pages[page],)) == 0:
                break
        assert pane_of((pages[page],)) == 0


def test_the_arrow_keys_go_from_page_to_page(app: AppController) -> None:
    pages = app.window.strip.pages
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
