"""Computes the texts of the figure cards from the curves, events and status of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QObject, Signal

from engine.messages.events import EpochEnded, Rewound, TrainingStarted
from engine.runs.run_info import RunInfo
from engine.runs.series_names import is_machine_memory, series_name
from engine.spec.metric_direction import is_better, lower_is_better, primary_metric
from engine.system import units
from gui.run_view.loss_trend import LossTrend
from gui.style import formatting

if TYPE_CHECKING:
    from engine.runs.store.store_reader import StoredEvent
    from engine.runs.store.stored_points import StoredPoints

TRAIN_LOSS = "train/loss"
VALIDATION = "validation/"
CPU = "cpu"
_SHARES = {"data_share": "data", "communication_share": "comm."}
"""Parts of a step besides computing, of each rank: waiting for data, and communication."""

_UNKNOWN = "–"


class _Result(NamedTuple):
    """A value of a validation, and the step after which it was found."""

    value: float
    step: float


class _Results:
    """All results of one metric, and the best of them."""

    def __init__(self) -> None:
        self.all: list[_Result] = []
        self._best: _Result | None = None
        self._compared = 0
        self._lowest = False

    def best(self, *, lowest: bool) -> _Result | None:
        """Return the best result; None if none is finite."""
        if lowest != self._lowest:
            self._best, self._compared, self._lowest = None, 0, lowest
        for result in self.all[self._compared :]:
            if is_better(result.value, self._best and self._best.value, lowest=lowest):
                self._best = result
        self._compared = len(self.all)
        return self._best


class RunFigures(QObject):
    """Emits `figure(key, value, note, tone)` for each card of the figure row.

    The lines of a note say the same, each in fewer words.
    """

    figure = Signal(str, str, str, str)

    metric_named = Signal(str)
    """Caption of the card `metric`: the name of its metric."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._labels: dict[str, str] = {}
        self._trend = LossTrend()
        self.clear()

    def clear(self) -> None:
        """Drop all values, because another run is shown."""
        self._steps_per_epoch = 0
        self._trend.clear()
        self._epochs: dict[int, int] = {}
        """The epochs that are done, by the step after which they ended."""

        self._directions: Mapping[str, str] = {}
        self._results: dict[str, _Results] = {}
        """By series: as the store has them."""

        self._memory: dict[str, float] = {}
        self._shares: dict[str, dict[str, float]] = {part: {} for part in _SHARES}
        """The newest value of each part, by series of a rank."""

        self.metric_named.emit("VALIDATION")
        for key in ("loss", "metric", "throughput", "step_time", "memory"):
            self.figure.emit(key, _UNKNOWN, "", "")

    def set_device_names(self, labels: dict[str, str]) -> None:
        """Set the display name of each device, by its id."""
        if labels != self._labels:
            self._labels = labels
            self._show_memory()

    def show_info(self, info: RunInfo) -> None:
        """Show the newest status of the run, and its results as they are now."""
        status = info.status
        self._steps_per_epoch = status.steps_per_epoch
        self._directions = status.metric_directions or self._directions
        loss = status.metrics.get(TRAIN_LOSS)
        if loss is not None:
            self.figure.emit("loss", f"{loss:.4g}", *self._loss_note(loss))
        if status.samples_per_second:
            count = status.replicas
            note = f"{count} replicas" if count else ""
            if count == 1:
                note = "1 replica"
            speed = f"{status.samples_per_second:,.0f} samples/s"
            self.figure.emit("throughput", speed, note, "")
        if status.step_seconds:
            spent = {
                f"{name} {100 * share:.0f} %": share
                for part, name in _SHARES.items()
                if (share := self._mean_share(part)) is not None
            }
            step_time = formatting.step_time(status.step_seconds)
            mean = "mean of the last seconds"  # the plot has the newest point
            forms = [" · ".join(spent), max(spent, key=spent.__getitem__)] if spent else []
            forms = forms or ["per step"]
            note = "\n".join([f"{forms[0]} · {mean}", *forms])
            self.figure.emit("step_time", step_time, note, "")
        self._show_best(primary_metric(status.metrics, self._directions))

    def add_events(self, events: list[StoredEvent]) -> None:
        """Note the ends of epochs; after a rewind, drop those after its step."""
        for stored in events:
            match stored.event:
                case TrainingStarted(steps_per_epoch=steps_per_epoch):
                    self._steps_per_epoch = steps_per_epoch
                    self._directions = stored.event.metric_directions
                case EpochEnded(epoch, ended):
                    self._epochs[ended] = epoch
                case Rewound(step):
                    self._epochs = {ended: e for ended, e in self._epochs.items() if ended <= step}
                case _:
                    pass

    def set_points(self, series: str, points: StoredPoints) -> None:
        """Replace all points of a curve."""
        if series == TRAIN_LOSS:
            self._trend.clear()
        self._results.pop(series, None)
        self._memory.pop(series, None)
        self.add_points(series, points)

    def add_points(self, series: str, points: StoredPoints) -> None:
        """Add new points of a curve."""
        if series == TRAIN_LOSS:
            self._trend.add(points, self._steps_per_epoch)
        elif series.startswith(VALIDATION):
            found = map(_Result, points.value.tolist(), points.step.tolist())
            self._results.setdefault(series, _Results()).all.extend(found)
        elif _is_memory(series):
            finite = [value for value in points.value.tolist() if math.isfinite(value)]
            if finite:
                self._memory[series] = max(max(finite), self._memory.get(series, 0.0))
                self._show_memory()
        elif _part(series) in _SHARES and len(points.value) and math.isfinite(points.value[-1]):
            self._shares[_part(series)][series] = float(points.value[-1])

    def _mean_share(self, part: str) -> float | None:
        """Return the mean over the ranks, as the plot of the step time stacks it. One rank alone
        would mislead: what waits for a slow rank communicates for most of its step."""
        shares = self._shares[part].values()
        return sum(shares) / len(shares) if shares else None

    def _loss_note(self, loss: float) -> tuple[str, str]:
        """Return how the loss changes from epoch to epoch, and the tone of that."""
        trend = self._trend.trend(self._steps_per_epoch) if math.isfinite(loss) else None
        if trend is None:
            return "", ""
        sign, percent = "▼" if trend.change <= 0 else "▲", 100 * abs(trend.change)
        return f"{sign} {percent:.1f} % / epoch\n{sign} {percent:.0f} %/epoch", trend.tone

    def _show_memory(self) -> None:
        """Show the highest memory use, and whose it was: of the run's processes on the CPU, of all
        processes on a GPU. An old run has of the CPU what the whole machine used.

        All are samples: the kernel's peak of a process, which is not that of several, is higher.
        """
        known = self._memory
        of_run = {name: size for name, size in known.items() if not is_machine_memory(name)}
        shown = of_run or known
        if not shown:
            return
        top = max(shown, key=lambda name: shown[name])
        device = top.partition("/")[2].rpartition("/")[0]
        name = self._labels.get(device, device)
        note = f"{name} · all its processes" + f"\n{name}"
        if top.endswith("/process_memory"):
            where = f"processes of this run, {name}"
            whole = "processes of this run" if device == CPU else where
            note = whole + "\n" + "this run"
        elif is_machine_memory(top):
            note = "whole machine" + "\n" + "machine"
        largest = "the largest of samples every second"
        if top.endswith("/process_memory"):
            largest = "the largest of samples every 5 s, more often at first"
        text = f"{note.splitlines()[0]} · {largest}\n{note}"
        self.figure.emit("memory", units.byte_size(shown[top]), text, "")

    def _show_best(self, name: str) -> None:
        """Show the newest and the best result of the metric `name`."""
        results = self._results.get(name)
        if results is None or not results.all:
            if not name:
                self.figure.emit("metric", _UNKNOWN, "", "")
            return
        best = results.best(lowest=lower_is_better(name, self._directions))
        in_percent = any(result.value > 1 for result in results.all)
        self.metric_named.emit(series_name(name).upper())
        note = ""
        if best is not None:
            epoch = self._epochs.get(int(best.step))
            place, number = f"epoch {epoch}", f"{epoch}"
            if epoch is None:
                place = number = f"step {best.step:,.0f}"
            value = formatting.metric(name, best.value, in_percent=in_percent)
            short = f"★ {value}"
            at_place = f"{value} @ {place}"
            note = f"★ best {at_place}\n★ {at_place}\n{short} @ {number}\n{short}"
        newest = formatting.metric(name, results.all[-1].value, in_percent=in_percent)
        self.figure.emit("metric", newest, note, "best")


def _part(series: str) -> str:
    return series.rpartition("/")[2] if series.startswith("rank/") else ""


def _is_memory(series: str) -> bool:
    return series.startswith("device/") and series.endswith(("/memory", "/process_memory"))
