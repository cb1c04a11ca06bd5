"""What happened to a run, in time: phases, and what stands out in them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CheckpointSaved,
    EpochEnded,
    Event,
    Paused,
    Queued,
    RecipeChosen,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    StopStage,
    TrainingStarted,
    Trouble,
    WorkerFailed,
)
from engine.spec.metric_direction import lower_is_better, primary_metric

MOST_MARKS = 5000
"""Marks of checkpoints and best values that are kept; later ones replace the first."""


class Phase(StrEnum):
    """What a run does for a while."""

    WAITING = "waiting"
    """In the queue."""

    STARTING = "starting"
    TRAINING = "training"
    PAUSED = "paused"
    RESTARTING = "restarting"
    """From a failure to the training of the next attempt."""

    STOPPING = "stopping"


class MarkKind(StrEnum):
    """What a mark stands for."""

    BEST = "best"
    CHECKPOINT = "checkpoint"
    PAUSE = "pause"
    FAILURE = "failure"
    TROUBLE = "trouble"
    RESUME = "resume"
    STOP = "stop"
    END = "end"


class Span(NamedTuple):
    """A phase, from `begin` to `end` (seconds since the epoch)."""

    phase: Phase
    begin: float
    end: float
    text: str = ""
    """What was done in it, such as `epochs 1–26`."""

    attempt: int = 1


class Mark(NamedTuple):
    """Something that happened at one moment."""

    kind: MarkKind
    time: float
    text: str


class Happened(Protocol):
    """A stored event."""

    @property
    def time(self) -> float: ...

    @property
    def event(self) -> Event: ...


class History:
    """Follows the events of one run, oldest first."""

    def __init__(self) -> None:
        self._metric, self._lower = "", True
        """The series whose best values are marked: the primary metric of the run."""

        self._directions: dict[str, str] = {}
        self._done: list[Span] = []
        self._phase: Phase | None = None
        self._begin = 0.0
        self._newest = 0.0
        self._attempt = 0
        self._epochs = (0, 0)
        """The epoch of the start of this training, and the last one that has ended."""

        self._steps = (0, 0)
        self._best: list[_Best] = []
        """Those that were best for a while, the best one last."""

        self._marks: list[Mark] = []
        self._checkpoints: list[Mark] = []
        self._paused_by = ""
        self.is_over = False

    def add(self, events: Iterable[Happened]) -> bool:
        """Add events; return whether something has changed."""
        changed = False
        for stored in events:
            self._newest = max(self._newest, stored.time)
            changed |= self._add(stored.event, stored.time)
        return changed

    def spans(self, now: float | None = None) -> list[Span]:
        """Return the phases; the present one lasts until `now`, or to the newest event."""
        spans = list(self._done)
        if self._phase is not None:
            end = max(self._begin, self._newest if now is None else now)
            spans.append(self._span(end))
        return spans

    @property
    def marks(self) -> list[Mark]:
        """All marks, by time. Of the best values only those that were best for a while."""
        return sorted(
            [*self._marks, *self._checkpoints, *(best.mark for best in self._best)],
            key=lambda mark: mark.time,
        )

    def seconds(self, phase: Phase | None = None, now: float | None = None) -> float:
        """Return how long a phase lasted in all; None: all phases."""
        return sum(span.end - span.begin for span in self.spans(now) if phase in (None, span.phase))

    def _add(self, event: Event, time: float) -> bool:
        match event:
            case AttemptStarted(attempt=attempt):
                self.is_over = False
                was_down = self._phase is Phase.RESTARTING
                self._attempt = attempt
                if not was_down:
                    self._enter(None, time)
                    if attempt > 1:
                        self._mark(MarkKind.RESUME, time, f"attempt {attempt}")
                    self._enter(Phase.STARTING, time)
            case Queued(ahead=ahead):
                self._enter(Phase.WAITING if ahead else Phase.STARTING, time)
            case TrainingStarted():
                if event.metric_directions:
                    self._directions = dict(event.metric_directions)
                if self._phase is Phase.TRAINING:
                    return False  # of a script, of which more became known
                epoch = event.step // event.steps_per_epoch if event.steps_per_epoch else None
                first = self._epochs[1] if epoch is None else epoch
                self._epochs, self._steps = (first, first), (event.step, event.step)
                self._enter(Phase.TRAINING, time)
            case EpochEnded():
                self._epochs = self._epochs[0], max(self._epochs[1], event.epoch)
                self._steps = self._steps[0], event.step
                self._note_best(event, time)
            case CheckpointSaved(step=step):
                self._steps = self._steps[0], max(self._steps[1], step)
                self._checkpoints.append(
                    Mark(MarkKind.CHECKPOINT, time, f"checkpoint at step {step:,}")
                )
                del self._checkpoints[:-MOST_MARKS]
            case Paused():
                self._enter(Phase.PAUSED, time)
                self._mark(MarkKind.PAUSE, time, self._paused_by or "paused")
                self._paused_by = ""
            case Resumed():
                begin = self._epochs[1]
                self._enter(Phase.TRAINING, time)
                self._epochs = begin, begin
            case Trouble(kind, text, raised):
                if raised:
                    if kind == "disk":
                        self._paused_by = "paused, disk full"
                    self._mark(MarkKind.TROUBLE, time, _first_sentence(text))
            case Alarm(kind=kind, text=text, raised=raised):
                if not raised or kind != "lost":
                    return False
                self._mark(MarkKind.FAILURE, time, _first_sentence(text))
            case Restarting(failure=failure, number=number, most=most):
                who = f"rank {failure.rank} failed" if failure.rank >= 0 else "failed"
                text = f"{who}, restarted ({number} of {most})"
                self._mark(MarkKind.FAILURE, time, text)
                self._enter(Phase.RESTARTING, time)
            case Shrunk(text=text, restarts=restarts):
                self._mark(MarkKind.TROUBLE, time, _first_sentence(text))
                if restarts:
                    self._enter(Phase.RESTARTING, time)
            case Rewound(step=step, epoch=epoch):
                self._epochs, self._steps = (epoch, epoch), (step, step)
                self._best = [best for best in self._best if best.step <= step]
            case StopStage():
                if self._phase is not Phase.STOPPING:
                    self._mark(MarkKind.STOP, time, "stopped")
                    self._enter(Phase.STOPPING, time)
            case RecipeChosen(version=version):
                self._mark(MarkKind.RESUME, time, f"recipe {version}")
            case RunEnded(state=state, reason=reason, failure=failure):
                kind = MarkKind.FAILURE if failure else MarkKind.END
                text = _first_sentence(reason) if failure else state
                self._mark(kind, time, text)
                self._enter(None, time)
                self.is_over = True
            case WorkerFailed():
                return False
            case _:
                return False
        return True

    def _enter(self, phase: Phase | None, time: float) -> None:
        if phase is self._phase:
            return
        if self._phase is not None and time > self._begin:
            self._done.append(self._span(time))
        elif self._phase is None and phase is None:
            return
        self._phase, self._begin = phase, time

    def _span(self, end: float) -> Span:
        assert self._phase is not None
        text = self._what() if self._phase is Phase.TRAINING else ""
        return Span(self._phase, self._begin, end, text, max(1, self._attempt))

    def _what(self) -> str:
        first, last = self._epochs
        if last > first:
            return f"epochs {first + 1}–{last}" if last > first + 1 else f"epoch {last}"
        begin, end = self._steps
        return f"steps {begin:,}–{end:,}" if end > begin else ""

    def _mark(self, kind: MarkKind, time: float, text: str) -> None:
        self._marks.append(Mark(kind, time, text))

    def _note_best(self, event: EpochEnded, time: float) -> None:
        if not self._metric:
            names = [name for name in event.metrics if name.startswith("validation/")]
            self._metric = primary_metric(names, self._directions)
            self._lower = lower_is_better(self._metric, self._directions)
        value = event.metrics.get(self._metric, math.nan)
        if not math.isfinite(value):
            return
        known = self._best[-1].value if self._best else None
        if known is not None and not (value < known if self._lower else value > known):
            return
        text = f"best {self._metric.partition('/')[2]} {value:.4g}, epoch {event.epoch}"
        self._best.append(_Best(value, event.step, Mark(MarkKind.BEST, time, text)))
        del self._best[:-MOST_MARKS]


class _Best(NamedTuple):
    value: float
    step: int
    mark: Mark


def _first_sentence(text: str) -> str:
    head, dot, _ = text.partition(". ")
    return (head + dot).strip()
