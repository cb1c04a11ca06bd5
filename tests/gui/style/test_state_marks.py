"""Each state of a run has a shape of its own, and the states that one compares a colour too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from gui.style.state_marks import state_pixmap
from gui.style.state_style import marked_state, state_colour, state_text
from gui.style.theme import DARK, LIGHT, Theme

NAMED = (
    RunState.QUEUED, RunState.RUNNING, RunState.PAUSED, RunState.FINISHED, RunState.STOPPED,
    RunState.FAILED, RunState.INTERRUPTED,
)  # fmt: skip


def inked(image: QImage) -> frozenset[tuple[int, int]]:
    return frozenset(
        (x, y)
        for x in range(image.width())
        for y in range(image.height())
        if image.pixelColor(x, y).alpha() > 128
    )


def test_no_two_states_have_one_shape(qapp: QApplication) -> None:
    shapes = [inked(state_pixmap(state, "#000000").toImage()) for state in (*RunState, None)]
    for number, one in enumerate(shapes):
        assert one
        for other in shapes[:number]:
            assert len(one ^ other) > len(one | other) / 8


def run(state: RunState, **status: Any) -> RunInfo:
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    return RunInfo("1", Path(), spec, RunStatus(**status), state, "")


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_the_states_that_one_compares_differ_in_colour_too(theme: Theme) -> None:
    assert len({state_colour(run(state), theme) for state in NAMED}) == len(NAMED)


def test_a_run_that_hangs_does_not_look_like_one_that_trains() -> None:
    hung = run(RunState.RUNNING, troubles={"hang": "No step was done for 12 min."})
    trains = run(RunState.RUNNING)
    assert marked_state(hung) is not marked_state(trains)
    assert state_colour(hung, DARK) != state_colour(trains, DARK)
    assert (state_text(hung), state_text(trains)) == ("no progress", "running")
    ended = run(RunState.FAILED, troubles={"hang": "No step was done for 12 min."})
    assert marked_state(ended) is RunState.FAILED
