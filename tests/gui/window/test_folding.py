"""The column that is dragged and folds to a rail, and the lower panel that folds to a line."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from engine.messages.events import Notice, WorkerFailed
from gui.app import AppController
from gui.window.body import DEFAULT_WIDTH, MAX_WIDTH, MIN_WIDTH, NARROW
from gui.window.lower_panel import HEIGHT, TALL
from tests.gui.conftest import window_of_module
from tests.gui.window.test_reach import is_cut_off
from tests.gui.window_states import called, visible_widgets
from tests.support.device_states import cpu, gpu
from tests.support.recorded_runs import RecordedRun


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """A window on a machine with two GPUs, with one run."""
    with window_of_module(home, gpu(0), gpu(1), cpu()) as app:
        run = RecordedRun()
        run.begin()
        run.add(Notice("something happened"))
        run.add(WorkerFailed(0, "It broke.", "model", "", False))
        yield app
        run.store.close()


@pytest.fixture
def app(opened: AppController, qtbot: QtBot) -> AppController:
    """The window, wide, and laid out as at the first start."""
    window = opened.window
    qtbot.waitUntil(lambda: "It broke." in window.bottom.line.text())
    window.resize(1280, 800)
    window.show_page("run")
    window.reset_layout.trigger()
    window.body.close_over()
    with qtbot.waitActive(window):
        window.activateWindow()
    QApplication.processEvents()
    return opened


def resize(app: AppController, width: int, height: int) -> None:
    app.window.resize(width, height)
    for _ in range(4):
        QApplication.processEvents()


def test_the_column_follows_the_mouse_within_its_limits(app: AppController) -> None:
    body = app.window.body
    assert app.window.column.width() == DEFAULT_WIDTH
    left = app.window.run_page.mapTo(app.window, QPoint()).x()
    drag(body.handle, 60)
    assert app.window.column.width() == DEFAULT_WIDTH + 60
    assert app.window.run_page.mapTo(app.window, QPoint()).x() == left + 60
    drag(body.handle, 5000)
    assert app.window.column.width() == body.column_width <= MAX_WIDTH
    assert app.window.width() == 1280, "the page keeps what it needs"
    drag(body.handle, 200 - body.column_width)
    assert app.window.column.width() == MIN_WIDTH
    drag(body.handle, -MIN_WIDTH)
    assert body.is_folded


def drag(handle: QWidget, distance: int) -> None:
    begin = handle.rect().center()
    QTest.mousePress(handle, Qt.MouseButton.LeftButton, pos=begin)
    QTest.mouseMove(handle, begin + QPoint(distance, 0))
    QTest.mouseRelease(handle, Qt.MouseButton.LeftButton, pos=begin + QPoint(distance, 0))


def test_keys_change_the_width_fold_and_unfold(app: AppController) -> None:
    body = app.window.body
    body.handle.setFocus()
    QTest.keyClick(body.handle, Qt.Key.Key_Right)
    assert body.column_width > DEFAULT_WIDTH
    QTest.keyClick(body.handle, Qt.Key.Key_Return)
    assert body.is_folded
    assert app.window.rail.isAncestorOf(focused()), "the focus goes along"
    QTest.keyClick(app.window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    assert not body.is_folded
    assert app.window.column.isAncestorOf(focused())


def focused() -> QWidget:
    return QApplication.focusWidget()


def test_the_rail_has_the_devices_and_opens_the_column_over_the_page(app: AppController) -> None:
    resize(app, NARROW - 1, 700)
    window, rail = app.window, app.window.rail
    assert window.body.is_folded
    marks = [mark for mark in app.devices.rail.marks.values() if mark.isVisible()]
    assert [mark.accessibleName().split(" ")[1] for mark in marks] == ["0", "1"]
    assert "utilisation" in marks[0].accessibleName()
    page = window.run_page.geometry()
    for click, part in (
        (rail.new_run.click, app.form),
        (rail.runs.click, app.run_list_panel),
        (lambda: QTest.mouseClick(marks[0], Qt.MouseButton.LeftButton), app.devices),
    ):
        click()
        assert window.body.is_open_over
        assert part.isVisible()
        assert part.isAncestorOf(focused()) or part is focused()
        assert window.run_page.geometry() == page, "it lies over the page"
        QTest.keyClick(focused(), Qt.Key.Key_Escape)
        assert not window.body.is_open_over
        assert rail.isAncestorOf(focused())
    resize(app, NARROW, 700)
    assert not window.body.is_folded


def test_the_rail_shows_that_there_are_alarms(app: AppController) -> None:
    rail = app.window.rail
    resize(app, 900, 600)
    assert not rail.alarms.isVisible()
    app.alarms.summary.emit("GPU 1 is lost.", "bad")
    assert rail.alarms.isVisible()
    assert rail.alarms.accessibleDescription() == "GPU 1 is lost."
    app.alarms.summary.emit("", "")
    assert not rail.alarms.isVisible()


def test_a_click_beside_the_column_closes_it(app: AppController) -> None:
    resize(app, 900, 600)
    window = app.window
    window.rail.new_run.click()
    window_point = QPoint(880, 300)
    under = window.childAt(window_point)
    assert under is not None
    assert not window.run_page.isAncestorOf(under)
    QTest.mouseClick(under, Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    assert not window.body.is_open_over
    window.rail.new_run.click()
    window.bottom.tabs.setFocus()
    assert not window.body.is_open_over, "the user goes on in the page"


def test_a_problem_of_the_form_opens_the_form(app: AppController) -> None:
    resize(app, 900, 600)
    app.engine_client.problems.emit([])
    assert app.window.body.is_open_over
    assert app.form.isVisible()


def test_the_lower_panel_folds_to_the_newest_line(app: AppController, qtbot: QtBot) -> None:
    window = app.window
    panel = window.bottom
    assert panel.fold == "folded"
    assert not app.log.isVisible()
    assert "It broke." in panel.line.text()
    assert panel.warnings.isVisible()
    assert panel.warnings.accessibleName() == "Warnings: 1 · errors: 1"
    plots = app.rooms.run.plots.height()
    panel.fold_button.click()
    assert app.log.isVisible()
    assert not panel.line.isVisible()
    QTest.keyClick(window, Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert panel.fold == "folded"
    qtbot.waitUntil(lambda: app.rooms.run.plots.height() == plots)
    click_tab(window.bottom.tabs, 1)
    assert app.events.isVisible(), "a click on a tab unfolds the panel"
    panel.fill.click()
    assert app.events.isVisible()
    assert not app.rooms.run.plots.isVisible()
    panel.fill.click()
    assert app.rooms.run.plots.isVisible()


def click_tab(tabs: QTabBar, place: int) -> None:
    QTest.mouseClick(tabs, Qt.MouseButton.LeftButton, pos=tabs.tabRect(place).center())


def test_a_tall_window_opens_the_panel_until_the_user_has_chosen(app: AppController) -> None:
    resize(app, 1400, TALL + 200)
    assert app.window.bottom.fold == "open"
    assert abs(app.window.bottom.height() - HEIGHT) < 3
    app.window.bottom.fold_button.click()
    resize(app, 1400, TALL + 220)
    assert app.window.bottom.fold == "folded"


def test_a_double_click_on_a_tab_fills_the_page_and_back(app: AppController) -> None:
    tabs = app.window.bottom.tabs
    app.window.show_log()
    for fold in ("full", "open"):
        QTest.mouseDClick(tabs, Qt.MouseButton.LeftButton, pos=tabs.tabRect(1).center())
        assert app.window.bottom.fold == fold


def test_the_overview_is_one_click_away_and_the_key_of_the_filter_leaves_it(
    app: AppController,
) -> None:
    resize(app, 1280, 800)
    panel, tabs = app.window.bottom, app.window.bottom.tabs
    place = panel.page_names().index("overview")
    assert panel.fold == "folded"
    click_tab(tabs, place)
    assert app.rooms.overview.isVisible()
    assert app.rooms.run.plots.isVisible()
    panel.fold_button.click()
    assert panel.fold == "folded"
    QTest.keyClick(app.window, Qt.Key.Key_I, Qt.KeyboardModifier.ControlModifier)
    assert app.rooms.overview.isVisible()
    panel.fill.click()
    assert app.rooms.overview.isVisible()
    assert not app.rooms.run.plots.isVisible()
    panel.fill.click()
    QApplication.processEvents()
    assert app.rooms.run.plots.isVisible()
    assert abs(panel.height() - HEIGHT) < 3
    app.window.show_overview()
    QTest.keyClick(app.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert app.log.isVisible()
    assert app.window.filter.hasFocus()


def test_tab_goes_through_the_head_of_the_list_to_the_runs(app: AppController) -> None:
    panel = app.run_list_panel
    app.form.start_button.setFocus(Qt.FocusReason.TabFocusReason)
    visited: list[QWidget] = []
    for _ in range(8):
        QTest.keyClick(focused(), Qt.Key.Key_Tab)
        visited.append(focused())
        if focused() is app.run_list:
            break
    assert panel.search_button in visited
    assert panel.more in visited
    assert visited[-1] is app.run_list


def test_each_page_has_its_own_fold(app: AppController) -> None:
    window = app.window
    QTest.keyClick(window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert (window.page, window.body.is_folded) == ("runs", True)
    assert window.strip.pages["runs"].isChecked()
    window.strip.pages["run"].click()
    assert (window.page, window.body.is_folded) == ("run", False)


OpenMenu = Callable[[QWidget], None]


@pytest.mark.parametrize(
    ("press", "title"),
    [
        (lambda at: QTest.keyClick(at, Qt.Key.Key_F10), "Menu"),
        (lambda at: QTest.keyClick(at, Qt.Key.Key_Alt), "Menu"),
        (lambda at: QTest.keyClick(at, Qt.Key.Key_G, Qt.KeyboardModifier.AltModifier), "&Go"),
    ],
)
def test_keys_open_the_menu(app: AppController, press: OpenMenu, title: str) -> None:
    app.form.start_button.setFocus()
    press(app.window)
    menus = [app.window.strip.menu_button.menu(), *app.window.menus]
    assert [menu.title() for menu in menus if menu.isVisible()] == [title]
    for menu in menus:
        menu.close()


def test_alt_with_another_key_opens_no_menu(app: AppController) -> None:
    window = app.window
    QTest.keyPress(window, Qt.Key.Key_Alt)
    QTest.keyPress(window, Qt.Key.Key_Z, Qt.KeyboardModifier.AltModifier)
    QTest.keyRelease(window, Qt.Key.Key_Z, Qt.KeyboardModifier.AltModifier)
    QTest.keyRelease(window, Qt.Key.Key_Alt)
    assert not window.strip.menu_button.menu().isVisible()


def test_tables_survive_pages_and_panes(app: AppController) -> None:
    """Python's objects for their headers are gone after each change of the focus."""
    for _ in range(2):
        for key in (Qt.Key.Key_2, Qt.Key.Key_1):
            QTest.keyClick(app.window, Qt.Key.Key_F6)
            QTest.keyClick(app.window, key, Qt.KeyboardModifier.ControlModifier)
            gc.collect()
            app.window.grab()
    assert app.rooms.runs.comparison.table.horizontalHeader().offset() == 0


SIZES = [(900, 600), (910, 490), (1093, 570), (1366, 728), (1920, 1040)]
"""Half a screen; 1366 x 768 at 150, 125 and 100 %; 1920 x 1080, or 4K at 200 %."""


def test_nothing_is_cut_or_overlaps_at_any_size(app: AppController, qtbot: QtBot) -> None:
    for size in SIZES:
        app.window.run_page.choose("folded")
        resize(app, *size)
        assert (app.window.width(), app.window.height()) == size
        for show in (lambda: None, app.window.show_log, app.window.show_form):
            show()
            qtbot.waitUntil(lambda: not faults(app.window))
        app.window.body.close_over()


def faults(window: QWidget) -> list[str]:
    """What is cut off, lies partly over its neighbour, or stands outside of its parent."""
    seen = visible_widgets(window)
    found = [f"cut: {called(widget)}" for widget in seen if is_cut_off(widget)]
    by_parent: dict[QWidget, list[QWidget]] = {}
    for widget in seen:
        if (parent := widget.parentWidget()) is not None and parent.layout() is not None:
            by_parent.setdefault(parent, []).append(widget)
    for parent, children in by_parent.items():
        for one, other in combinations(children, 2):
            if one.geometry().intersects(other.geometry()):
                found.append(f"overlap in {called(parent)}: {called(one)}, {called(other)}")
        found += [
            f"outside of {called(parent)}: {called(child)}"
            for child in children
            if not parent.rect().contains(child.geometry())
        ]
    return found
