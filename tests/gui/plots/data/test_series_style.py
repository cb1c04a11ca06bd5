"""Series of scripts: those of several optimizers, and those that a logger has named."""

from __future__ import annotations

import pytest

from engine.runs.run_state import ENERGY
from engine.runs.series_names import series_title
from engine.runs.table.columns import Column, Kind, Part
from gui.compare.comparison_plots import comparison_style
from gui.plots.data.series_style import LEARNING_RATE, LOSS, style_of
from gui.runs_table.cell_texts import header_text


def test_several_optimizers_share_the_plots_of_loss_and_learning_rate() -> None:
    losses = [style_of(f"train/loss/{name}") for name in ("generator", "critic")]
    assert [style.plot for style in losses if style] == [LOSS, LOSS]
    assert [style.curve_name for style in losses if style] == ["generator", "critic"]
    rate = style_of("train/learning_rate/critic")
    assert (rate.plot, rate.curve_name) == (LEARNING_RATE, "critic")


def test_a_logger_s_series_is_drawn_under_its_own_name() -> None:
    for name in ("loss", "Loss/train", "episode reward", "sys/x"):
        style = style_of(name)
        assert style.plot.title == name
        assert style.factor == 1.0, "whether it is a share or per cent is not known"
    assert style_of("Loss").plot != LOSS  # type: ignore[union-attr]


def test_a_validation_loss_is_beside_the_training_loss_and_not_smoothed() -> None:
    style = style_of("val/loss")
    assert (style.plot, style.curve_name, style.smooth) == (LOSS, "val/loss", False)


def test_the_energy_of_a_run_has_a_plot_with_its_unit() -> None:
    style = style_of(ENERGY)
    assert (style.plot.title, style.plot.unit, style.is_device) == ("Energy", "Wh", False)
    assert style_of("device/GPU-1/energy") is None


@pytest.mark.parametrize(
    ("series", "marks"),
    [
        ("train/loss", True),
        ("validation/accuracy", True),
        ("episode reward", True),
        ("train/samples_per_second", False),
        ("device/gpu:0/power", False),
        ("rank/0/data_share", False),
    ],
)
def test_only_what_is_no_gap_of_a_measurement_is_marked(series: str, *, marks: bool) -> None:
    for style in (style_of(series), comparison_style(series)):
        assert style.marks_gaps is marks


def test_a_name_without_a_figure_is_not_drawn() -> None:
    assert [style_of(name) for name in ("train/", "validation/", "", "rank/0/x")] == [None] * 4


@pytest.mark.parametrize(
    ("series", "name"),
    [
        ("train/loss", "Train loss"),
        ("validation/loss", "Val loss"),
        ("train/accuracy", "Train accuracy"),
        ("validation/top_5", "Val top 5"),
        ("validation/top 5", "Val “top 5”"),
        ("train/learning_rate", "Learning rate"),
        ("train/gradient_norm", "Gradient norm"),
        ("train/samples_per_second", "Throughput"),
        ("train/step_seconds", "Step time"),
        ("Loss/train", "Loss/train"),
    ],
)
def test_one_thing_has_one_name(series: str, name: str) -> None:
    assert series_title(series) == name
    style = comparison_style(series)
    assert style.plot.title == name
    column = Column(series, series, Kind.NUMBER, Part.LAST, lambda _: None, None, series)
    assert header_text(column) == name
