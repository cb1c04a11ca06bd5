"""The crosshair without a mouse: from point to point, from mark to mark, seen and heard."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QAccessibleAnnouncementEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QSplitter
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved
from engine.runs.store_reader import StoredEvent
from gui.plots.panel import keyboard_cursor
from gui.plots.panel.keyboard import PlotKeys
from gui.plots.panel.run_plots import PlotGrid
from gui.plots.plot.menu import PlotAction
from tests.gui.plots.conftest import paint
from tests.gui.points import points_of

KEYS = Qt.Key
SHIFT = Qt.KeyboardModifier.ShiftModifier
STEPS = np.arange(0.0, 101.0)

Press = Callable[..., None]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a screen reader is given to say."""
    said: list[str] = []

    def note(event: QAccessibleAnnouncementEvent) -> None:
        said.append(event.message())

    monkeypatch.setattr(keyboard_cursor.QAccessible, "updateAccessibility", note)
    return said


@pytest.fixture
def press(grid: PlotGrid, qtbot: QtBot) -> Press:
    """Presses a key in the plot of the loss, which has points at every step and a validation at
    every tenth; the plot of memory has another curve."""
    PlotKeys([grid], grid)
    grid.bar.slider.setValue(0)
    grid.add_points("train/loss", points_of(STEPS, 200.0 - STEPS))
    grid.add_points("validation/loss", points_of(STEPS[::10], 1000.0 + STEPS[::10]))
    grid.add_points("device/a/memory", points_of(STEPS[:60], STEPS[:60] * 2**30))
    paint(grid)
    grid.activateWindow()
    canvas = grid.plot("Loss").canvas
    canvas.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(canvas.hasFocus)

    def press(key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        QTest.keyClick(QApplication.focusWidget(), key, modifier)
        paint(grid)

    return press


def box(grid: PlotGrid, title: str = "Loss") -> str:
    made = grid.plot(title).canvas.crosshair.box
    return str(made.text()).replace("&nbsp;", " ") if made.isVisible() else ""


def put_star(grid: PlotGrid) -> None:
    """Let the validation be best at step 60."""
    steps = STEPS[::10]
    grid.set_points(
        "validation/loss", points_of(steps, np.where(steps == 60, 140.0, 1000.0 + steps))
    )


def show(grid: PlotGrid, first: float, last: float) -> None:
    canvas = grid.plot("Loss").canvas
    canvas.show_x((first, last))
    canvas.moved.emit(first, last)


def checkpoints(*steps: int) -> list[StoredEvent]:
    return [
        StoredEvent(step, 1.7e9 + step, CheckpointSaved(f"/x/step-{step}.ckpt", step, 1, 9, 0.1))
        for step in steps
    ]


def test_the_arrows_go_from_point_to_point_and_the_values_are_heard(
    grid: PlotGrid, press: Press, heard: list[str]
) -> None:
    assert box(grid) == ""
    press(KEYS.Key_Right)
    assert grid.pointed_at == 100, "it begins with the newest values"
    assert heard == ["step 100: train 100, val 1100."]
    assert "1100" in box(grid)
    press(KEYS.Key_Left)
    assert grid.pointed_at == 99
    assert heard[-1] == "step 99: train 101, val 1100."
    press(KEYS.Key_Home)
    assert grid.pointed_at == 0
    press(KEYS.Key_Left)
    assert grid.pointed_at == 0, "there is nothing before it"
    press(KEYS.Key_Right, SHIFT)
    assert grid.pointed_at == pytest.approx(6), "a twentieth of what is in sight"
    press(KEYS.Key_End)
    assert grid.pointed_at == 100


def test_every_plot_shows_it_and_the_next_one_says_its_values(
    grid: PlotGrid, press: Press, heard: list[str]
) -> None:
    press(KEYS.Key_Home)
    for _ in range(3):
        press(KEYS.Key_Right)
    assert "step 3" in box(grid, "Device memory")
    grid.plot("Device memory").canvas.setFocus(Qt.FocusReason.TabFocusReason)
    assert heard[-1].startswith("step 3: a 3.0 GiB")
    press(KEYS.Key_End)
    assert grid.pointed_at == 59
    assert "step 59" in box(grid)


def test_it_leaves_no_trace_where_it_stood(grid: PlotGrid, press: Press) -> None:
    """Seen on the screen: a picture of the widget alone would be painted anew."""
    before = on_the_screen(grid)
    for x in (20.0, 50.0, 80.0):
        grid.point_at(x)
        assert on_the_screen(grid) != before
    grid.point_at(None)
    assert on_the_screen(grid) == before


def on_the_screen(grid: PlotGrid) -> QImage:
    QApplication.processEvents()
    return grid.screen().grabWindow(grid.winId()).toImage()


def test_it_goes_with_escape(grid: PlotGrid, press: Press) -> None:
    grid.placement.do(next(iter(grid.placement.kinds())), PlotAction.ENLARGE)
    press(KEYS.Key_End)
    assert box(grid)
    press(KEYS.Key_Escape)
    assert not box(grid)
    assert grid.placement.is_enlarged
    press(KEYS.Key_Escape)
    assert not grid.placement.is_enlarged


def test_it_goes_with_the_focus(grid: PlotGrid, press: Press, qtbot: QtBot) -> None:
    window, other = QSplitter(), QLineEdit()
    qtbot.addWidget(window)
    window.addWidget(grid)
    window.addWidget(other)
    window.show()
    with qtbot.waitActive(window):
        window.activateWindow()
    grid.plot("Loss").canvas.setFocus()
    press(KEYS.Key_End)
    grid.bar.slider.setFocus()
    assert box(grid), "smoothing changes the values there"
    other.setFocus()
    assert not box(grid)
    grid.setParent(None)


def test_what_is_out_of_sight_comes_into_sight(grid: PlotGrid, press: Press) -> None:
    canvas = grid.plot("Loss").canvas
    show(grid, 20.0, 30.0)
    press(KEYS.Key_Home)
    assert grid.pointed_at == 20
    press(KEYS.Key_Left)
    assert grid.pointed_at == 19
    assert canvas.area.viewRange()[0] == pytest.approx([18.0, 28.0])
    assert box(grid)
    press(KEYS.Key_Plus)
    assert canvas.area.viewRange()[0] == pytest.approx([18.3, 25.3]), "it zooms around it"


def test_of_a_million_points_those_that_can_be_told_apart(grid: PlotGrid, press: Press) -> None:
    many = np.arange(1_000_000.0)
    grid.set_points("train/loss", points_of(many, many))
    paint(grid)
    press(KEYS.Key_Home)
    press(KEYS.Key_Right)
    canvas = grid.plot("Loss").canvas
    assert grid.pointed_at == pytest.approx(canvas.pixels(1.0), rel=0.01)
    first = canvas.area.viewRange()[0][0]
    show(grid, first, first + 20.0)
    press(KEYS.Key_Home)
    start = grid.pointed_at
    press(KEYS.Key_Right)
    assert start is not None
    assert grid.pointed_at == start + 1, "every point, where there is room for it"


def test_the_legend_is_a_part_of_the_plot(grid: PlotGrid, press: Press, heard: list[str]) -> None:
    plot = grid.plot("Loss")
    press(KEYS.Key_End)
    plot.legend.chip(plot.curve_names()[1]).setFocus()
    press(KEYS.Key_Space)
    press(KEYS.Key_Left)
    assert heard[-1] == "step 99: train 101."
    press(KEYS.Key_Return, Qt.KeyboardModifier.AltModifier)
    press(KEYS.Key_Left)
    assert grid.pointed_at == 90, "alone: the validation has every tenth"


def test_curves_that_are_hidden_have_no_points(grid: PlotGrid, press: Press) -> None:
    plot = grid.plot("Loss")
    plot.legend.chip(plot.curve_names()[0]).click()
    press(KEYS.Key_End)
    press(KEYS.Key_Left)
    assert grid.pointed_at == 90


def test_from_mark_to_mark_with_what_they_say(
    grid: PlotGrid, press: Press, heard: list[str]
) -> None:
    loss = 200.0 - STEPS
    loss[[50, 51, 52, 70]] = math.nan
    grid.set_points("train/loss", points_of(STEPS, loss))
    put_star(grid)
    grid.take_events(checkpoints(20, 80))
    paint(grid)
    found = []
    for _ in range(6):
        press(KEYS.Key_M)
        found.append(grid.pointed_at)
    assert found == [20, 50, 60, 70, 80, 80], "a gap is one mark, and after the last is none"
    assert [said.split("\n")[0] for said in heard] == [
        "Checkpoint of step 20: step-20.ckpt",
        "Not a number at step 50",
        "Best: 140 at step 60",
        "Not a number at step 70",
        "Checkpoint of step 80: step-80.ckpt",
        "step 80: train 120, val 1080.",
    ]
    assert "Checkpoint of step 80: step-80.ckpt" in box(grid)
    assert "Checkpoint" not in box(grid, "Device utilisation")
    press(KEYS.Key_Left)
    assert "Checkpoint" in box(grid), "near it, it is still said"
    press(KEYS.Key_Left)
    assert "Checkpoint" not in box(grid)
    press(KEYS.Key_M, SHIFT)
    assert grid.pointed_at == 70


def test_a_mark_out_of_sight_comes_into_sight(
    grid: PlotGrid, press: Press, heard: list[str]
) -> None:
    loss = 200.0 - STEPS
    loss[90] = math.nan
    grid.set_points("train/loss", points_of(STEPS, loss))
    paint(grid)
    canvas = grid.plot("Loss").canvas
    show(grid, 20.0, 30.0)
    press(KEYS.Key_M)
    assert grid.pointed_at == 90
    assert heard[-1].startswith("Not a number at step 90")
    assert canvas.area.viewRange()[0] == pytest.approx([81.0, 91.0])


def test_the_mouse_finds_the_star_too(grid: PlotGrid, press: Press) -> None:
    plot = grid.plot("Loss")
    put_star(grid)
    paint(grid)
    pixel = plot.canvas.area.mapFromView(QPointF(60.0, 140.0)).x()
    assert plot.canvas._marked_near(pixel + 2) == "Best: 140 at step 60"
    assert plot.canvas._marked_near(pixel + 20) == ""


def test_without_points_nothing_happens(grid: PlotGrid, press: Press, heard: list[str]) -> None:
    grid.clear()
    grid.plot("Loss").canvas.setFocus()
    for key in (KEYS.Key_Right, KEYS.Key_Home, KEYS.Key_M):
        press(key)
    assert not heard
    assert not box(grid)


def test_a_real_announcement_hurts_nobody(grid: PlotGrid) -> None:
    keyboard_cursor.announce(grid.plot("Loss").canvas, "step 1: train 2")
