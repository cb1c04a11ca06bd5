"""The marks of checkpoints: ticks on the axis of the loss, filled, hollow, or a star."""

from __future__ import annotations

import numpy as np
import pytest

from engine.messages.events import CheckpointSaved
from engine.runs.store.store_reader import StoredEvent
from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.plots.conftest import paint
from tests.gui.stored_points import stored_points
from tests.support.sentences import sentence

STEPS = np.arange(0.0, 101.0)


@pytest.fixture
def loss(run_plots: RunPlots) -> CurvePlot:
    """Checkpoints at the steps 20, 50 and 80."""
    for series in ("train/loss", "device/a/memory"):
        run_plots.add_points(series, stored_points(STEPS, 100.0 - STEPS))
    run_plots.add_events(
        [
            StoredEvent(step, 1.7e9, CheckpointSaved(f"x/step-{step}", step, 1, 9, 0.1))
            for step in (20, 50, 80)
        ]
    )
    paint(run_plots)
    return run_plots.plot("Loss")


def test_what_is_deleted_and_the_best_one_are_said_while_the_mark_is_found(
    run_plots: RunPlots, loss: CurvePlot
) -> None:
    run_plots.set_crosshair_x(50.0, loss)
    assert loss.canvas.markers.note == sentence("checkpoint-of-step", step=50, name="step-50")
    run_plots.set_crosshair_x(None)
    assert loss.canvas.markers.note == ""
    run_plots.set_kept_checkpoints({50: True, 80: False})
    text = "Checkpoint of step {0}: step-{0}"
    assert [loss.canvas.mark_text_at(step) for step in (20, 50, 80)] == [
        f"{text.format(20)} (deleted)",
        f"{text.format(50)} (best)",
        text.format(80),
    ]
