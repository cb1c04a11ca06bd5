"""What the events of a run mean for its plots: when it trained, its epochs, and its markers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from engine.events import (
    Alarm,
    AttemptStarted,
    CheckpointSaved,
    Paused,
    Resumed,
    Rewound,
    RunEnded,
    TrainingStarted,
    WorkerStarted,
)
from engine.store_reader import StoredEvent
from gui.plots.x_scale import Polyline, XKind, XScale, hours


class MarkerKind(StrEnum):
    """What a marker stands for; each kind has a shape of its own."""

    CHECKPOINT = "checkpoint"
    RESTART = "restart"
    PAUSE = "pause"
    ALARM = "alarm"


class Marker(NamedTuple):
    """Something that happened at one moment of the run."""

    kind: MarkerKind
    step: float
    """NaN: only its time is known."""

    time: float
    """Seconds since the epoch."""

    text: str


class RunCourse:
    """Folds the events of one run, oldest first."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the run."""
        self.markers: list[Marker] = []
        self._epochs: Polyline | None = None
        self._training: Polyline | None = None
        self._alive = math.nan
        """The last moment that is known to belong to training."""

        self._trains = False
        self._attempt = 0
        self._paused = math.nan

    def scale(self, kind: XKind) -> XScale:
        """The horizontal axis of `kind` for this run."""
        return XScale(kind, self._epochs, self._training)

    def take(self, events: Iterable[StoredEvent]) -> None:
        """Fold more events."""
        for stored in events:
            self._fold(stored)

    def _fold(self, stored: StoredEvent) -> None:
        now, event = stored.time, stored.event
        match event:
            case AttemptStarted(attempt):
                self._attempt, self._trains = attempt, False
                if self._training is None:
                    self._training = Polyline((now,), (0.0,), 1.0)
            case WorkerStarted():
                self._trains = False
            case TrainingStarted(step, steps_per_epoch):
                self._start(step, steps_per_epoch, now)
            case Rewound(step):
                self.markers = [each for each in self.markers if not each.step > step]
            case CheckpointSaved(path, step):
                text = f"Checkpoint of step {step:,}: {Path(path).name}"
                self._mark(MarkerKind.CHECKPOINT, step, now, text)
            case Paused():
                self._paused = now
            case Resumed(step):
                since = "" if math.isnan(self._paused) else f" of {hours(now - self._paused)}"
                text = f"Went on after a pause{since} at step {step:,}"
                self._mark(MarkerKind.PAUSE, step, now, text)
            case Alarm(text=text, raised=True):
                self._mark(MarkerKind.ALARM, math.nan, now, text)
        if self._trains:
            self._alive = now
        if isinstance(event, RunEnded):
            self._trains = False

    def _start(self, step: int, steps_per_epoch: int, now: float) -> None:
        if math.isnan(self._alive) or self._training is None:
            self._training = Polyline((now,), (0.0,), 1.0)
        else:
            self._training = self._training.bent(self._alive, 0.0).bent(now, 1.0)
            text = f"Attempt {self._attempt} goes on from step {step:,}"
            self._mark(MarkerKind.RESTART, step, now, text)
        slope = 1.0 / max(steps_per_epoch, 1)
        begin = self._epochs or Polyline((0.0,), (0.0,), slope)
        self._epochs = begin.bent(float(step), slope)
        self._trains = True

    def _mark(self, kind: MarkerKind, step: float, now: float, text: str) -> None:
        self.markers.append(Marker(kind, step, now, text))
