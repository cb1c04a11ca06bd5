"""Each state of a run has a shape of its own, and the states that one compares a colour too."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from engine.runs.run_state import RunState
from gui.style.state_marks import state_pixmap
from gui.style.state_style import state_colour
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


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_the_states_that_one_compares_differ_in_colour_too(theme: Theme) -> None:
    assert len({state_colour(state, theme) for state in NAMED}) == len(NAMED)
