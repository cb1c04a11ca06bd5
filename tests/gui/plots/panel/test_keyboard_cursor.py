"""The crosshair without a mouse: from point to point and from mark to mark, drawn and announced."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessibleAnnouncementEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QSplitter
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved
from engine.runs.store.store_reader import StoredEvent
from gui.plots.panel import keyboard_cursor
from gui.plots.panel.keyboard import PlotKeys
from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.menu import PlotAction
from tests.gui.plots.conftest import has_crosshair, paint, read_out
from tests.gui.stored_points import stored_points
from tests.support.sentences import sentence

KEYS = Qt.Key
SHIFT = Qt.KeyboardModifier.ShiftModifier
STEPS = np.arange(0.0, 101.0)

Press = Callable[..., None]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a screen reader announces."""
    said: list[str] = []

    def note(event: QAccessibleAnnouncementEvent) -> None:
        said.append(event.message())

    monkeypatch.setattr(keyboard_cursor.QAccessible, "updateAccessibility", note)
    return said


@pytest.fixture
def press(run_plots: RunPlots, qtbot: QtBot) -> Press:
    """Presses a key in the plot of the loss, which has points at every step and a validation at
    every tenth; the plot of memory has another curve."""
    PlotKeys([run_plots], run_plots)
    run_plots.toolbar.slider.setValue(0)
    run_plots.add_points("train/loss", stored_points(STEPS, 200.0 - STEPS))
    run_plots.add_points("validation/loss", stored_points(STEPS[::10], 1000.0 + STEPS[::10]))
    run_plots.add_points("device/a/memory", stored_points(STEPS[:60], STEPS[:60] * 2**30))
    paint(run_plots)
    run_plots.activateWindow()
    canvas = run_plots.plot("Loss").canvas
    canvas.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(canvas.hasFocus)

    def press(key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        QTest.keyClick(QApplication.focusWidget(), key, modifier)
        paint(run_plots)

    return press


def shown(run_plots: RunPlots, title: str = "Loss") -> str:
    """What a plot shows at its crosshair: marks, place and values; empty without a crosshair."""
    plot = run_plots.plot(title)
    if not has_crosshair(plot):
        return ""
    return "\n".join((plot.canvas.markers.note, plot.headline.text(), read_out(plot)))


def put_star(run_plots: RunPlots) -> None:
    """Move the best validation loss to step 60."""
    steps = STEPS[::10]
    run_plots.set_points(
        "validation/loss", stored_points(steps, np.where(steps == 60, 140.0, 1000.0 + steps))
    )


def show(run_plots: RunPlots, first: float, last: float) -> None:
    canvas = run_plots.plot("Loss").canvas
    canvas.show_x((first, last))
    canvas.moved.emit(first, last)


def checkpoints(*steps: int) -> list[StoredEvent]:
    return [
        StoredEvent(step, 1.7e9 + step, CheckpointSaved(f"/x/step-{step}.ckpt", step, 1, 9, 0.1))
        for step in steps
    ]


def test_arrows_go_from_point_to_point(run_plots: RunPlots, press: Press, heard: list[str]) -> None:
    assert shown(run_plots) == ""
    press(KEYS.Key_Right)
    assert run_plots.crosshair_x == 100, "it begins with the newest values"
    assert heard == ["step 100: train 100, val 1100."]
    assert "1100" in shown(run_plots)
    press(KEYS.Key_Left)
    assert run_plots.crosshair_x == 99
    assert heard[-1] == sentence("step-train-val")
    press(KEYS.Key_Home)
    assert run_plots.crosshair_x == 0
    press(KEYS.Key_Left)
    assert run_plots.crosshair_x == 0, "there is nothing before it"
    press(KEYS.Key_Right, SHIFT)
    assert run_plots.crosshair_x == pytest.approx(6), "a twentieth of what is in sight"
    press(KEYS.Key_End)
    assert run_plots.crosshair_x == 100


def test_every_plot_shows_the_crosshair_and_the_next_one_announces_its_values(
    run_plots: RunPlots, press: Press, heard: list[str]
) -> None:
    press(KEYS.Key_Home)
    for _ in range(3):
        press(KEYS.Key_Right)
    assert "step 3" in shown(run_plots, "Device memory")
    run_plots.plot("Device memory").canvas.setFocus(Qt.FocusReason.TabFocusReason)
    assert heard[-1].startswith("step 3: a 3.0 GiB")
    press(KEYS.Key_End)
    assert run_plots.crosshair_x == 59
    assert "step 59" in shown(run_plots)


def test_escape_hides_the_crosshair(run_plots: RunPlots, press: Press) -> None:
    run_plots.visibility.do(next(iter(run_plots.visibility.kinds())), PlotAction.ENLARGE)
    press(KEYS.Key_End)
    assert shown(run_plots)
    press(KEYS.Key_Escape)
    assert not shown(run_plots)
    assert run_plots.visibility.is_enlarged
    press(KEYS.Key_Escape)
    assert not run_plots.visibility.is_enlarged


def test_the_crosshair_is_hidden_when_the_focus_leaves(
    run_plots: RunPlots, press: Press, qtbot: QtBot
) -> None:
    window, other = QSplitter(), QLineEdit()
    qtbot.addWidget(window)
    window.addWidget(run_plots)
    window.addWidget(other)
    window.show()
    with qtbot.waitActive(window):
        window.activateWindow()
    run_plots.plot("Loss").canvas.setFocus()
    press(KEYS.Key_End)
    run_plots.toolbar.slider.setFocus()
    assert shown(run_plots), "smoothing changes the values there"
    other.setFocus()
    assert not shown(run_plots)
    run_plots.setParent(None)


def test_what_is_out_of_sight_comes_into_sight(run_plots: RunPlots, press: Press) -> None:
    canvas = run_plots.plot("Loss").canvas
    show(run_plots, 20.0, 30.0)
    press(KEYS.Key_Home)
    assert run_plots.crosshair_x == 20
    press(KEYS.Key_Left)
    assert run_plots.crosshair_x == 19
    assert canvas.area.viewRange()[0] == pytest.approx([18.0, 28.0])
    assert shown(run_plots)
    press(KEYS.Key_Plus)
    assert canvas.area.viewRange()[0] == pytest.approx([18.3, 25.3]), "it zooms around it"


def test_the_crosshair_skips_points_that_share_a_pixel(run_plots: RunPlots, press: Press) -> None:
    many = np.arange(1_000_000.0)
    run_plots.set_points("train/loss", stored_points(many, many))
    paint(run_plots)
    press(KEYS.Key_Home)
    press(KEYS.Key_Right)
    canvas = run_plots.plot("Loss").canvas
    assert run_plots.crosshair_x == pytest.approx(canvas.pixels(1.0), rel=0.01)
    first = canvas.area.viewRange()[0][0]
    show(run_plots, first, first + 20.0)
    press(KEYS.Key_Home)
    start = run_plots.crosshair_x
    press(KEYS.Key_Right)
    assert start is not None
    assert run_plots.crosshair_x == start + 1, "every point, where there is room for it"


def test_the_legend_is_a_part_of_the_plot(
    run_plots: RunPlots, press: Press, heard: list[str]
) -> None:
    plot = run_plots.plot("Loss")
    press(KEYS.Key_End)
    plot.legend.chip(list(plot.curves)[1]).setFocus()
    press(KEYS.Key_Space)
    press(KEYS.Key_Left)
    assert heard[-1] == "step 99: train 101."
    press(KEYS.Key_Return, Qt.KeyboardModifier.AltModifier)
    press(KEYS.Key_Left)
    assert run_plots.crosshair_x == 90, "alone: the validation has every tenth"


def test_curves_that_are_hidden_have_no_points(run_plots: RunPlots, press: Press) -> None:
    plot = run_plots.plot("Loss")
    plot.legend.chip(next(iter(plot.curves))).click()
    press(KEYS.Key_End)
    press(KEYS.Key_Left)
    assert run_plots.crosshair_x == 90


def test_without_points_nothing_happens(
    run_plots: RunPlots, press: Press, heard: list[str]
) -> None:
    run_plots.clear()
    run_plots.plot("Loss").canvas.setFocus()
    for key in (KEYS.Key_Right, KEYS.Key_Home, KEYS.Key_M):
        press(key)
    assert not heard
    assert not shown(run_plots)


def test_it_goes_from_mark_to_mark(run_plots: RunPlots, press: Press, heard: list[str]) -> None:
    loss = 200.0 - STEPS
    loss[[50, 51, 52, 70]] = math.nan
    run_plots.set_points("train/loss", stored_points(STEPS, loss))
    put_star(run_plots)
    run_plots.add_events(checkpoints(20, 80))
    paint(run_plots)
    found = []
    for _ in range(6):
        press(KEYS.Key_M)
        found.append(run_plots.crosshair_x)
    assert found == [20, 50, 60, 70, 80, 80], "a gap is one mark, and after the last is none"
    assert [said.split("\n")[0] for said in heard] == [
        sentence("checkpoint-of-step", step=20, name="step-20.ckpt"),
        "Not a number at step 50",
        "Best: 140 at step 60",
        "Not a number at step 70",
        sentence("checkpoint-of-step", step=80, name="step-80.ckpt"),
        "step 80: train 120, val 1080.",
    ]
    assert sentence("checkpoint-of-step", step=80, name="step-80.ckpt") in shown(run_plots)
    assert "Checkpoint" not in shown(run_plots, "Device utilisation")
    press(KEYS.Key_Left)
    assert "Checkpoint" in shown(run_plots), "near it, it is still said"
    press(KEYS.Key_Left)
    assert "Checkpoint" not in shown(run_plots)
    press(KEYS.Key_M, SHIFT)
    assert run_plots.crosshair_x == 70


def test_a_real_announcement_does_no_harm(run_plots: RunPlots) -> None:
    keyboard_cursor.announce(run_plots.plot("Loss").canvas, "step 1: train 2")
