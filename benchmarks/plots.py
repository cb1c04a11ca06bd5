"""Pans and zooms a long curve: milliseconds per repaint, beside pyqtgraph's own decimation.

python -m benchmarks.plots [--points 10000000] [--frames 300]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtWidgets import QWidget

from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.growing_pyramid import Array
from gui.plots.plot.curve_plot import CurvePlot
from gui.style import theme
from gui.window.application import application

SIZE = (1200, 600)


def views(points: int, frames: int) -> list[tuple[float, float]]:
    """A zoom from everything to a thousandth, then a pan over the whole curve at a tenth."""
    zoom = [points * 1000.0 ** (-number / (frames // 2)) for number in range(frames // 2)]
    inwards = [(0.37 * (points - width), 0.37 * (points - width) + width) for width in zoom]
    width = points / 10
    ways = np.linspace(0, points - width, frames - len(inwards))
    return inwards + [(float(start), float(start) + width) for start in ways]


def measure(
    widget: QWidget, show: Callable[[float, float], None], seen: Sequence[tuple[float, float]]
) -> Array:
    """Milliseconds from a new view to the finished picture."""
    taken = []
    for first, last in seen:
        begin = time.perf_counter()
        show(first, last)
        widget.grab()
        taken.append((time.perf_counter() - begin) * 1000)
    return np.array(taken)


def ours(steps: Array, values: Array, smoothing: float) -> tuple[CurvePlot, Callable[..., None]]:
    """A plot of the window."""
    plot = CurvePlot("Loss", theme=theme.DARK)
    plot.set_smoothing(smoothing)
    plot.add_points("train", StoredPoints(steps, steps, values, len(steps)))
    plot.resize(*SIZE)
    plot.show()
    plot.refresh()
    plot.viewport.set_follow(False)

    def show(first: float, last: float) -> None:
        plot.canvas.show_x((first, last))
        plot.refresh()

    return plot, show


def slide(points: int) -> Array:
    """Milliseconds from each move of the smoothing slider to the next picture: what the window
    stands still for. The rest of a long curve is smoothed in the pictures after that."""
    steps = np.arange(float(points))
    plot, _ = ours(steps, np.random.default_rng(0).normal(size=points), 0.5)
    taken = []
    for smoothing in np.linspace(0.1, 0.999, 30):
        begin = time.perf_counter()
        plot.set_smoothing(float(smoothing))
        plot.refresh()
        plot.grab()
        taken.append((time.perf_counter() - begin) * 1000)
    plot.close()
    return np.array(taken)


def peer(steps: Array, values: Array) -> tuple[pg.PlotWidget, Callable[..., None]]:
    """The same with pyqtgraph's own means for long curves."""
    plot = pg.PlotWidget()
    curve = plot.plot(steps, values, pen=pg.mkPen("w", width=1))
    curve.setDownsampling(auto=True, method="peak")
    curve.setClipToView(True)
    plot.resize(*SIZE)
    plot.show()
    return plot, lambda first, last: plot.setXRange(first, last, padding=0)


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--frames", type=int, default=300)
    wanted = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    app = application(["benchmark"])
    rng = np.random.default_rng(0)
    steps = np.arange(float(wanted.points))
    values = np.exp(-3 * steps / wanted.points) + rng.normal(0, 0.1, wanted.points)
    seen = views(wanted.points, wanted.frames)
    medians = {}
    for name, (widget, show) in {
        "Traindeck, smoothed over raw": ours(steps, values, 0.9),
        "Traindeck, raw": ours(steps, values, 0.0),
        "pyqtgraph, peak and clip": peer(steps, values),
    }.items():
        app.processEvents()
        measure(widget, show, seen[:3])
        taken = measure(widget, show, seen)
        medians[name] = median = float(np.median(taken))
        print(f"{name:30} median {median:8.2f} ms   p99 {np.percentile(taken, 99):8.2f} ms")
        widget.close()
    ratio = medians["pyqtgraph, peak and clip"] / medians["Traindeck, raw"]
    print(f"pyqtgraph / Traindeck, raw: {ratio:.1f}")
    taken = slide(1_000_000)
    print(
        f"smoothing slider over 1e6 points: median {np.median(taken):.1f} ms, "
        f"longest {taken.max():.1f} ms"
    )


if __name__ == "__main__":
    main()
