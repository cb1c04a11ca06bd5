"""Derives the time axis, the epochs and the markers of a run from its events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CheckpointFailed,
    CheckpointSaved,
    Paused,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    TrainingStarted,
    Trouble,
    WorkerStarted,
)
from engine.runs.store.store_reader import StoredEvent
from engine.system.units import duration
from gui.plots.data.x_axis import Polyline, XKind, XScale

MAX_MARKERS = 2000
"""With more markers, every other checkpoint marker is dropped: they are too close to each other."""


class MarkerKind(StrEnum):
    """The kinds of markers; each has its own shape."""

    CHECKPOINT = "checkpoint"
    RESTART = "restart"
    """The run continues, automatically or because the user resumed it."""

    EDIT = "edit"
    """The run continues with other settings or on other devices."""

    SHRUNK = "shrunk"
    """The run continues with smaller parts of each batch, because a device was out of memory."""

    PAUSE = "pause"
    ALARM = "alarm"


class Marker(NamedTuple):
    """Something that happened at one moment of the run."""

    kind: MarkerKind
    step: float
    """NaN: only the time is known."""

    time: float
    """Seconds since the epoch."""

    text: str
    attempts: range = range(0)
    """Of a restart: the attempts since the training last went on, whose changes begin here."""

    restart_text: str = ""
    """Of a restart: `text` without the changes."""


class RunTimeline:
    """Built from the events of one run, oldest first."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the run."""
        self.markers: list[Marker] = []
        self._epochs: Polyline | None = None
        self._training: Polyline | None = None
        self._restart_times: tuple[float, ...] = ()
        self._edits: Mapping[int, str] = {}
        self._last_training_time = math.nan
        """The last time that is known to belong to training, in seconds since the epoch."""

        self._is_training = False
        self._attempt = self._trained_attempt = 0
        self._checkpoint = ""
        self._restarting: Restarting | None = None
        self._shrunk: Shrunk | None = None
        self._paused_since = math.nan

    def scale(self, kind: XKind) -> XScale:
        """Return the horizontal axis of `kind` for this run."""
        return XScale(kind, self._epochs, self._training, self._restart_times)

    def set_edits(self, edits: Mapping[int, str]) -> None:
        """Set the changes of settings or devices before each attempt, by the attempt's number."""
        self._edits = edits
        self.markers = [self._with_changes(each) for each in self.markers]

    def add_events(self, events: Iterable[StoredEvent]) -> None:
        """Add events, oldest first."""
        for stored in events:
            self._add_event(stored)

    def _add_event(self, stored: StoredEvent) -> None:
        now, event = stored.time, stored.event
        match event:
            case AttemptStarted(attempt):
                self._begin_attempt(attempt, now)
            case WorkerStarted():
                self._is_training = False
            case TrainingStarted():
                self._start_training(event, now)
            case Rewound(step, checkpoint):
                self._checkpoint = checkpoint
                self.markers = [each for each in self.markers if not each.step > step]
            case Restarting():
                self._restarting = event
            case Shrunk(step=step, text=text, restarts=restarts):
                if restarts:  # its mark is where the training begins again
                    self._shrunk = event
                else:
                    self._add_marker(MarkerKind.SHRUNK, step, now, text)
            case CheckpointSaved(path, step):
                text = f"Checkpoint of step {step:,}: {Path(path).name}"
                self._add_marker(MarkerKind.CHECKPOINT, step, now, text)
            case CheckpointFailed(step, text):
                self._add_marker(MarkerKind.ALARM, step, now, text)
            case Paused():
                self._paused_since = now
            case Resumed(step):
                self._add_marker(MarkerKind.PAUSE, step, now, self._pause_text(step, now))
            case Alarm(text=text, raised=True) | Trouble(text=text, raised=True):
                self._add_marker(MarkerKind.ALARM, math.nan, now, text)
        if self._is_training:
            self._last_training_time = now
        if isinstance(event, RunEnded):
            self._is_training, self._restarting, self._shrunk = False, None, None

    def _begin_attempt(self, attempt: int, now: float) -> None:
        self._attempt, self._is_training, self._checkpoint = attempt, False, ""
        if self._training is None:
            self._training = Polyline((now,), (0.0,), 1.0)
        else:
            self._restart_times += (now,)

    def _start_training(self, event: TrainingStarted, now: float) -> None:
        step = event.step
        if math.isnan(self._last_training_time) or self._training is None:
            self._training = Polyline((now,), (0.0,), 1.0)
        else:
            down = now - self._last_training_time
            self._training = self._training.with_slope(self._last_training_time, 0.0).with_slope(
                now, 1.0
            )
            kind = MarkerKind.SHRUNK if self._shrunk else MarkerKind.RESTART
            text = self._restart_text(step, down)
            # Attempts in between may have failed before they started to train.
            attempts = range(self._trained_attempt + 1, self._attempt + 1)
            restart = Marker(kind, step, now, text, attempts, restart_text=text)
            self._keep_marker(self._with_changes(restart))
        self._epochs = _epoch_line(self._epochs, event)
        self._is_training, self._restarting, self._shrunk = True, None, None
        self._trained_attempt = self._attempt

    def _with_changes(self, marker: Marker) -> Marker:
        """Return `marker` with the changes that begin there, one text per attempt."""
        changes = [
            f"Changed: {self._edits[attempt]}."
            for attempt in marker.attempts
            if attempt in self._edits
        ]
        if not changes:
            return marker
        kind = MarkerKind.EDIT if marker.kind is MarkerKind.RESTART else marker.kind
        return marker._replace(kind=kind, text=" ".join([marker.restart_text, *changes]))

    def _restart_text(self, step: int, down: float) -> str:
        if self._shrunk is not None:
            return self._shrunk.text
        again = self._restarting
        if again is None:
            return f"Resumed at step {step:,} after {duration(down)} (attempt {self._attempt})."
        origin = ", from the beginning"
        if self._checkpoint:
            origin = f" at step {step:,}, from {self._checkpoint}"
        return f"Restart {again.number} of {again.most}{origin}: {again.failure.message}"

    def _pause_text(self, step: int, now: float) -> str:
        if math.isnan(self._paused_since):
            return f"Resumed after a pause at step {step:,}"
        return f"Resumed after a pause of {duration(now - self._paused_since)} at step {step:,}"

    def _add_marker(self, kind: MarkerKind, step: float, now: float, text: str) -> None:
        self._keep_marker(Marker(kind, step, now, text))

    def _keep_marker(self, marker: Marker) -> None:
        self.markers.append(marker)
        if len(self.markers) > MAX_MARKERS:
            thinned = [
                each
                for place, each in enumerate(self.markers)
                if each.kind is not MarkerKind.CHECKPOINT or place % 2 == 0
            ]
            self.markers = thinned[-MAX_MARKERS:]


def _epoch_line(before: Polyline | None, event: TrainingStarted) -> Polyline | None:
    """Return the function from steps to completed epochs after `event`; None: it is not known."""
    size = event.steps_per_epoch
    if not size:
        return before
    step, slope = float(event.step), 1.0 / size
    axis = (before or Polyline((0.0,), (0.0,), slope)).with_slope(step, slope)
    remaining = (event.total_steps - event.step) % size
    if event.epochs and event.total_steps and remaining:
        # With another batch size, the rest of the epoch has another number of steps than planned.
        done = event.epochs - (event.total_steps - event.step) // size
        rest = done - float(axis(np.array([step]))[0])
        axis = axis.with_slope(step, max(0.0, rest) / remaining).with_slope(step + remaining, slope)
    return axis
