"""The marks of checkpoints: ticks on the axis of the loss, filled, hollow, or a star."""

from __future__ import annotations

import numpy as np
import pytest

from engine.messages.events import CheckpointSaved
from engine.runs.store.store_reader import StoredEvent
from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.theme import DARK
from tests.gui.plots.conftest import Inked, paint
from tests.gui.stored_points import stored_points
from tests.support.pixels import colours
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


def test_ticks_stand_on_the_axis_of_the_loss_only_and_hide_no_curve(
    run_plots: RunPlots, loss: CurvePlot, inked: Inked
) -> None:
    assert 3 * 20 <= inked(loss.canvas, DARK.ok) <= 3 * 40
    assert inked(run_plots.plot("Device memory").canvas, DARK.ok) == 0
    image = loss.canvas.grab().toImage()
    bottom = loss.canvas.area.mapRectToScene(loss.canvas.area.rect()).bottom()
    assert DARK.ok not in colours(image.copy(0, 0, image.width(), int(bottom) - 8))


def test_what_is_kept_is_filled_what_is_deleted_hollow_and_the_best_a_star(
    run_plots: RunPlots, loss: CurvePlot, inked: Inked
) -> None:
    filled = inked(loss.canvas, DARK.ok)
    run_plots.set_kept_checkpoints({80: False})
    hollow = inked(loss.canvas, DARK.ok)
    assert filled / 3 < hollow < filled
    assert inked(loss.canvas, DARK.warn) == 0
    run_plots.set_kept_checkpoints({50: True, 80: False})
    assert inked(loss.canvas, DARK.warn) > 15
    texts = [loss.canvas.mark_text_at(step) for step in (20, 50, 80)]
    text = "Checkpoint of step {0}: step-{0}"
    assert texts == [
        f"{text.format(20)} (deleted)",
        f"{text.format(50)} (best)",
        text.format(80),
    ]


def test_a_full_line_and_the_text_are_there_only_while_the_mark_is_found(
    run_plots: RunPlots, loss: CurvePlot, inked: Inked
) -> None:
    before = inked(loss.canvas, DARK.text)
    run_plots.set_crosshair_x(50.0, loss)
    assert loss.canvas.markers.note == sentence("checkpoint-of-step", step=50, name="step-50")
    assert inked(loss.canvas, DARK.text) > before + 0.5 * loss.canvas.area.height()
    run_plots.set_crosshair_x(None)
    assert loss.canvas.markers.note == ""
    assert inked(loss.canvas, DARK.text) == before
