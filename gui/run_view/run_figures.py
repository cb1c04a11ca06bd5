"""Computes the texts of the figure cards from the curves, events and status of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

from engine.messages.events import EpochEnded, Rewound, TrainingStarted
from engine.runs.run_info import RunInfo
from engine.runs.store_reader import StoredEvent, StoredPoints
from engine.spec.metric_direction import lower_is_better, primary_metric
from engine.system import units
from gui.plots.data.series_style import display_name
from gui.style import formatting
from gui.style.translation import QT_TRANSLATE_NOOP

TRAIN_LOSS = "train/loss"
_SHARES = {
    "rank/0/data_share": QT_TRANSLATE_NOOP("Plots", "data"),
    "rank/0/communication_share": QT_TRANSLATE_NOOP("Plots", "comm."),
}
"""Parts of a step besides computing: waiting for data, and communication."""

MAX_LOSSES = 40_000
"""Losses kept for the trend."""

_UNKNOWN = "–"

Array = npt.NDArray[np.float64]


class RunFigures(QObject):
    """Emits `figure(key, value, note, tone)` for each card of the figure row."""

    figure = Signal(str, str, str, str)

    metric_named = Signal(str)
    """Caption of the card `metric`: the name of its metric."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._labels: dict[str, str] = {}
        self.clear()

    def clear(self) -> None:
        """Drop all values, because another run is shown."""
        self._steps_per_epoch = 0
        self._losses: list[tuple[Array, Array]] = []
        self._epochs: dict[int, EpochEnded] = {}
        self._directions: Mapping[str, str] = {}
        self._memory: dict[str, float] = {}
        self._shares: dict[str, float] = {}
        self.metric_named.emit(self.tr("VALIDATION"))
        for key in ("loss", "metric", "throughput", "step_time", "memory"):
            self.figure.emit(key, _UNKNOWN, "", "")

    def set_device_names(self, labels: dict[str, str]) -> None:
        """Set the display name of each device, by its id."""
        if labels != self._labels:
            self._labels = labels
            self._show_memory()

    def show_info(self, info: RunInfo) -> None:
        """Show the newest status of the run."""
        status = info.status
        self._steps_per_epoch = status.steps_per_epoch
        loss = status.metrics.get(TRAIN_LOSS)
        if loss is not None:
            note, tone = self._trend()
            self.figure.emit("loss", f"{loss:.4g}", note, tone)
        if status.samples_per_second:
            count = status.replicas
            note = self.tr("{count} replicas").format(count=count) if count else ""
            if count == 1:
                note = self.tr("1 replica")
            speed = self.tr("{speed:,.0f} samples/s").format(speed=status.samples_per_second)
            self.figure.emit("throughput", speed, note, "")
        if status.step_seconds:
            spent = " · ".join(
                f"{display_name(name)} {100 * self._shares[series]:.0f} %"
                for series, name in _SHARES.items()
                if series in self._shares
            )
            step_time = f"{status.step_seconds * 1000:.3g} ms"
            self.figure.emit("step_time", step_time, spent or self.tr("per step"), "")

    def add_events(self, events: list[StoredEvent]) -> None:
        """Add the results of epochs; after a rewind, drop those after its step."""
        for stored in events:
            match stored.event:
                case TrainingStarted(steps_per_epoch=steps_per_epoch):
                    self._steps_per_epoch = steps_per_epoch
                    self._directions = stored.event.metric_directions
                case EpochEnded(epoch):
                    self._epochs[epoch] = stored.event
                case Rewound(step):
                    self._epochs = {e: end for e, end in self._epochs.items() if end.step <= step}
                case _:
                    pass
        self._show_best()

    def set_points(self, series: str, points: StoredPoints) -> None:
        """Replace all points of a curve."""
        if series == TRAIN_LOSS:
            self._losses = []
        if _is_memory(series):
            self._memory.pop(series, None)
        self.add_points(series, points)

    def add_points(self, series: str, points: StoredPoints) -> None:
        """Add new points of a curve."""
        values, statistics = points.value, points.statistics
        if series == TRAIN_LOSS:
            self._losses.append((points.step, values if statistics is None else statistics.mean))
            self._drop_old_losses()
        elif _is_memory(series) and np.isfinite(values).any():
            self._memory[series] = max(float(np.nanmax(values)), self._memory.get(series, 0.0))
            self._show_memory()
        elif series in _SHARES and np.isfinite(values[-1:]).any():
            self._shares[series] = float(values[-1])

    def _show_memory(self) -> None:
        """Show the highest memory use, and the device that had it."""
        if self._memory:
            top = max(self._memory, key=lambda name: self._memory[name])
            device = top.split("/")[1]
            note = self._labels.get(device, device)
            self.figure.emit("memory", units.byte_size(self._memory[top]), note, "")

    def _drop_old_losses(self) -> None:
        """Keep only the losses of the last two epochs, which `_trend` compares."""
        newest = self._losses[-1][0][-1] if len(self._losses[-1][0]) else 0
        oldest = newest - 2 * self._steps_per_epoch
        while len(self._losses) > 1 and self._steps_per_epoch and self._losses[0][0][-1] <= oldest:
            self._losses.pop(0)
        if sum(len(steps) for steps, _ in self._losses) > MAX_LOSSES:
            # An epoch may have millions of steps: an evenly spaced selection is enough.
            steps = np.concatenate([steps for steps, _ in self._losses])
            values = np.concatenate([values for _, values in self._losses])
            wanted = np.linspace(steps[0], steps[-1], MAX_LOSSES // 2)
            kept = np.unique(np.searchsorted(steps, wanted))
            self._losses = [(steps[kept], values[kept])]

    def _trend(self) -> tuple[str, str]:
        """Return the change of the mean training loss between the last two epochs, and its tone."""
        size = self._steps_per_epoch
        if not size or not self._losses:
            return "", ""
        steps = np.concatenate([steps for steps, _ in self._losses])
        values = np.concatenate([values for _, values in self._losses])
        if not len(steps) or steps[-1] < 2 * size:
            return "", ""
        age = steps[-1] - steps
        last, before = values[age < size], values[(age >= size) & (age < 2 * size)]
        if not (np.isfinite(last).any() and np.isfinite(before).any()):
            return "", ""
        old, new = float(np.nanmean(before)), float(np.nanmean(last))
        if not old or not math.isfinite(new / old):
            return "", ""
        change = new / old - 1
        sign, tone = ("▼", "good") if change <= 0 else ("▲", "warning")
        text = self.tr("{sign} {percent:.1f} % / epoch")
        return text.format(sign=sign, percent=100 * abs(change)), tone

    def _show_best(self) -> None:
        found = {epoch: end.metrics for epoch, end in self._epochs.items()}
        names = (name for metrics in found.values() for name in metrics)
        name = primary_metric(names, self._directions)
        results = {
            epoch: metrics[name]
            for epoch, metrics in found.items()
            if name in metrics and math.isfinite(metrics[name])
        }
        if not results:
            return
        pick = min if lower_is_better(name, self._directions) else max
        best = pick(results, key=lambda epoch: results[epoch])
        newest = results[max(results)]
        note = self.tr("★ best {value} @ epoch {epoch}")
        note = note.format(value=formatting.metric(name, results[best]), epoch=best)
        caption = self.tr("VAL {metric}").format(metric=formatting.metric_name(name).upper())
        self.metric_named.emit(caption)
        self.figure.emit("metric", formatting.metric(name, newest), note, "best")


def _is_memory(series: str) -> bool:
    return series.startswith("device/") and series.endswith("/memory")
