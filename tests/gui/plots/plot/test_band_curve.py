"""The curve of a group: what it draws, reads out and exports."""

from __future__ import annotations

import numpy as np
import pytest

from gui.plots.data.band import band_of
from gui.plots.export.image import svg
from gui.plots.plot.band_curve import BandCurve
from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.plots.conftest import read_out

X = np.arange(5.0)


def show(plot: CurvePlot, *lines: tuple[list[float], list[float]]) -> BandCurve:
    band = band_of([(np.array(xs), np.array(ys)) for xs, ys in lines])
    plot.set_band("g", band, colour_index=3, label="seed 1", short="1", about="n - 1")
    plot.refresh()
    return plot.curves["g"]


def flat(value: float, count: int = 5) -> tuple[list[float], list[float]]:
    return X[:count].tolist(), [value] * count


def test_the_read_out_is_mean_and_deviation_and_says_how_many_have_data(plot: CurvePlot) -> None:
    show(plot, flat(1.0), flat(3.0), flat(5.0, 3), flat(9.0, 1))
    plot.set_smoothing(0.9)
    values = {}
    for x in (0.0, 2.0, 4.0):
        values[x] = next(each.value for each in plot.readings(x)[1])
    assert values == {
        0.0: "4.50 ± 3.42",
        2.0: "3.00 ± 2.00 (n = 3 of 4)",
        4.0: "2.00 ± 1.41 (n = 2 of 4)",
    }
    show(plot, flat(1.0), flat(3.0, 2))
    assert plot.readings(4.0)[1][0].value == "1.00 (n = 1 of 2)", "a single run has no deviation"
    assert "n - 1" in plot.legend.chip("g").toolTip()
    assert read_out(plot).startswith("seed 1 1.00 (n = 1 of 2)")


def test_the_area_is_that_of_the_deviation_and_fits(plot: CurvePlot) -> None:
    curve = show(plot, flat(1.0), flat(3.0))
    (_, _), (low, high) = plot.canvas.area.viewRange()
    assert low < 2 - np.sqrt(2)
    assert high > 2 + np.sqrt(2)
    xs, lower, upper = curve.drawn_area
    assert xs.tolist() == X.tolist()
    assert lower == pytest.approx(np.full(5, 2 - np.sqrt(2)))
    assert upper == pytest.approx(np.full(5, 2 + np.sqrt(2)))


def test_on_a_logarithmic_axis_an_edge_below_zero_is_below_every_value(plot: CurvePlot) -> None:
    plot.set_log_y(True)
    curve = show(plot, flat(1.0), flat(100.0))
    _, lower, upper = curve.drawn_area
    assert upper == pytest.approx(np.full(5, np.log10(50.5 + 99 / np.sqrt(2))))
    (_, _), (low, _) = plot.canvas.area.viewRange()
    assert (lower < low).all()


def test_an_exported_picture_has_the_area(plot: CurvePlot) -> None:
    show(plot, flat(1.0, 2), ([3.0, 4.0], [1.0, 2.0]))
    text = svg(plot, "two runs").decode()
    assert text.count('fill-opacity="0.22"') == 2, "one for each part"
