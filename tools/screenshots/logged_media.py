"""Gives a replayed run images and histograms, as a script would have logged them."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
from PySide6.QtGui import QImage

from engine.messages.events import HistogramLogged, ImageLogged
from engine.runs.store.run_store import RunStore
from tools.screenshots.replayed_run import ReplayedRun

_STEPS = range(60, 1381, 60)
_EDGE = 96
_BINS = 48


def add_media(run: ReplayedRun) -> None:
    """Log two series of images and four of histograms over the steps of the run."""
    (run.folder / "media").mkdir()
    draws = np.random.default_rng(0)
    store = RunStore(run.folder)
    for step in _STEPS:
        share = step / _STEPS[-1]
        for number in range(8):
            noise = draws.normal(0.5, 0.5, (_EDGE, _EDGE))
            _log_image(
                run.folder,
                store,
                "samples",
                step,
                number,
                share * _ring(number) + (1 - share) * noise,
            )
        confusion = np.eye(10) * share + draws.random((10, 10)) * (1 - share) * 0.6
        _log_image(run.folder, store, "validation/confusion", step, 0, confusion)
        for layer, width in (("conv1", 0.30), ("conv2", 0.16), ("head", 0.5)):
            spread = width * (0.4 + share)
            values = np.concatenate(
                [draws.normal(0, spread, 3000), draws.normal(spread, 0.05, 500)]
            )
            counts, edges = np.histogram(values, _BINS)
            logged = HistogramLogged(
                f"weights/{layer}", step, edges.tolist(), counts.astype(float).tolist()
            )
            store.append(logged, time.time())
    store.close()


def _ring(number: int) -> np.ndarray:
    """Return a picture of a ring, another one for each number."""
    y, x = np.mgrid[-1 : 1 : _EDGE * 1j, -1 : 1 : _EDGE * 1j]
    turned = x * math.cos(number) + y * math.sin(number)
    distance = np.hypot(turned * (1 + 0.12 * number), y - 0.1 * math.sin(number))
    ring: np.ndarray = np.exp(-(((distance - 0.6) / 0.14) ** 2))
    return ring


def _log_image(
    folder: Path, store: RunStore, series: str, step: int, number: int, values: np.ndarray
) -> None:
    pixels = np.ascontiguousarray(np.clip(values * 255, 0, 255).astype(np.uint8))
    height, width = pixels.shape
    image = QImage(pixels.data, width, height, width, QImage.Format.Format_Grayscale8)
    file = f"media/{series.replace('/', '-')}-{step}-{number}.png"
    if not image.save(str(folder / file)):
        raise OSError(f"The image {file} could not be written.")
    caption = f"sample {number}" if series == "samples" else ""
    store.append(ImageLogged(series, step, file, width, height, caption), time.time())
