"""Entries of the menu, and keys, of commands that the state of the run may not allow."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from gui.run_view.run_actions import RunActions
from gui.run_view.run_controls import RunControls
from gui.style.theme import DARK

SPEC = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0",))


def info(state: RunState) -> RunInfo:
    return RunInfo("7", Path("runs/7"), SPEC, RunStatus(state=state), state, "")


@pytest.mark.parametrize("state", [None, RunState.STOPPED, RunState.RUNNING])
def test_an_entry_looks_and_acts_as_its_button(state: RunState | None, qtbot: QtBot) -> None:
    controls = RunControls(DARK)
    qtbot.addWidget(controls)
    menu = QMenu(controls)
    action = QAction("Stop", menu)
    menu.addAction(action)
    actions = RunActions(controls, {action: controls.stop}, menu)
    refused: list[str] = []
    pressed: list[None] = []
    actions.refused.connect(refused.append)
    controls.stop_clicked.connect(lambda: pressed.append(None))
    controls.show_info(info(state) if state else None)
    menu.aboutToShow.emit()
    assert action.isEnabled() == (state is RunState.RUNNING)
    menu.aboutToHide.emit()
    assert action.isEnabled(), "its key is heard"
    assert not action.autoRepeat(), "a key that is held presses once"
    action.trigger()
    assert len(pressed) == (state is RunState.RUNNING)
    assert (
        refused
        == {
            None: ["Stop: no run is shown."],
            RunState.STOPPED: ["Stop is not possible: run 7 is stopped."],
            RunState.RUNNING: [],
        }[state]
    )
