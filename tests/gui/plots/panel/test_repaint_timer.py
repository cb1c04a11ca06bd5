"""The repaint timer of the plots."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from gui.plots.panel.repaint_timer import FRAME_MS, IDLE_AFTER, IDLE_MS, RepaintTimer


def test_it_slows_down_while_there_is_nothing_to_paint(qtbot: QtBot) -> None:
    there_is_something = [True]
    frames = RepaintTimer(lambda: there_is_something[0])
    for _ in range(2 * IDLE_AFTER):
        frames.timeout.emit()
    assert frames.interval() == FRAME_MS
    there_is_something[0] = False
    for _ in range(IDLE_AFTER):
        frames.timeout.emit()
    assert frames.interval() == IDLE_MS
    there_is_something[0] = True
    frames.timeout.emit()
    assert frames.interval() == FRAME_MS
