"""Turns what a script's process reports into the events of a run."""

from __future__ import annotations

import base64
import binascii
import logging
import math
import os
import re
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from engine.facts.run_facts import ModelFacts
from engine.messages.channel import Alive
from engine.messages.events import (
    EpochEnded,
    HistogramLogged,
    ImageLogged,
    Metrics,
    Notice,
    Points,
    Progress,
    TrainingStarted,
    WorkerReady,
)
from engine.messages.merged_metrics import LARGEST_STEP
from engine.processes.process_tree import Identity, is_alive
from engine.runs.checkpoints.script_files import ScriptFile, note_file
from engine.runs.run_state import STEP_SECONDS, THROUGHPUT
from engine.script_rank.figures import Figure, is_of_steps
from engine.script_rank.frames import (
    Doing,
    Epoch,
    Histogram,
    Image,
    Memory,
    NewPoints,
    Outline,
    OwnFile,
    Plan,
    Said,
)
from engine.training.errors import LossNotFinite
from engine.worker import environment
from engine.worker.model_outline import layers_of, record_model
from engine.worker.session import WorkerSession

_log = logging.getLogger(__name__)

MEDIA = "media"
"""The folder of the pictures in a run folder."""

LONGEST_NAME = 300
LONGEST_CAPTION = 1000
LONGEST_NOTICE = 2000
MOST_NOTICES = 50
MOST_BINS = 1024
MOST_LAYERS = 5000
MOST_MEDIA_BYTES = 2**30
"""Bytes of pictures that an attempt keeps, of each rank."""

_PNG = b"\x89PNG\r\n\x1a\n"
_EPISODE_STEPS = 100
"""As in `engine.training.reporter`: an episode of losses that are not finite is told once."""

RESIDENT_SECONDS = 1.0

SPEED_SECONDS = 1.0
"""Least time between two points of the step time and of the throughput."""


class Reports:
    """The events of one rank. Only its main thread uses it."""

    def __init__(self, session: WorkerSession, first_step: int) -> None:
        self._session = session
        self._rank = session.rank
        self.step = first_step
        """Optimizer steps that are done, counted from the start of training."""

        self.first_step = first_step
        self.epochs_done = 0
        self.step_seconds = 0.0
        self._epoch = 0
        self._figure_step = 0
        """The last step of figures that were logged or read from lines, where no step is seen."""

        self._told = (first_step, 0)
        self._speed = 0.0
        self._plan = Plan()
        self.has_begun = False
        self.captures = False
        """Whether a figure came over the link."""

        self.has_loss = False
        """Whether one of them is the loss of a step."""

        self.logs = False
        """Whether one of them is more than the loss or learning rate of a step."""

        self._notices: set[str] = set()
        self._media_bytes = 0
        self._last_not_finite: int | None = None
        self._resident_due = 0.0
        self._timed = 0, 0.0
        """Steps since the last point of the step time, and their seconds."""

        self._speed_due = 0.0

    @property
    def has_stepped(self) -> bool:
        """Whether the script has done an optimizer step in this attempt."""
        return self.step > self.first_step

    @property
    def last_step(self) -> int:
        """The last step, also of a script whose steps are only those of its figures."""
        return self.step if self.has_stepped else max(self.step, self._figure_step)

    @property
    def plan(self) -> Plan:
        """What is known about the whole training."""
        return self._plan

    def begin(self, versions: dict[str, str]) -> None:
        """Report once that the command runs."""
        if self.has_begun:
            return
        self.has_begun = True
        self._session.emit(WorkerReady(self._rank, self._session.devices, versions))
        self._tell_plan()
        self.alive("", 0)

    def planned(self, plan: Plan) -> None:
        """Note what became known about the whole training."""
        changes = {
            name: value
            for name in plan.__struct_fields__
            if isinstance(value := getattr(plan, name), int) and 0 <= value <= LARGEST_STEP
        }
        known = {name: getattr(self._plan, name) for name in plan.__struct_fields__}
        if changes.items() <= known.items():
            return
        self._plan = Plan(**(known | changes))
        if self.has_begun:
            self._tell_plan()
            self._told = (-1, -1)  # the hang watch takes that for a beginning
            self._progress(None)

    def outline(self, frame: Outline) -> None:
        """Record the models that train."""
        if self._rank:
            return
        try:
            layers = layers_of(frame.rows[:MOST_LAYERS])
        except ValueError as error:
            _log.info("the outline of the model is none: %s", error)
            return
        versions = {name[:100]: text[:100] for name, text in frame.versions.items()}
        attempt = int(os.environ.get(environment.ATTEMPT, "0"))
        record_model(self._session.folder, attempt, ModelFacts(layers=layers, versions=versions))

    def points(self, new: NewPoints) -> None:
        """Report captured points and the progress. Raises LossNotFinite if the spec asks for it."""
        now = time.time()
        found = [points for each in new.points if (points := self._points(*each))]
        if self._rank == 0:
            self.captures |= bool(found)
            self.has_loss |= any(points.series.startswith("train/loss") for points in found)
            self.logs |= any(not is_of_steps(points.series) for points in found)
        else:
            found = [points for points in found if points.series.startswith("rank/")]
        if found:
            self._session.emit(Metrics(now, now, found))
            self._note_steps(each for each in found if not each.series.startswith("rank/"))
        before = self.step
        if 0 <= new.step <= LARGEST_STEP:
            self.step = max(self.step, new.step)
        if new.epoch is not None and 0 <= new.epoch <= LARGEST_STEP:
            self._set_epoch(new.epoch)
        if new.step_seconds is not None and 0 <= new.step_seconds < math.inf:
            self.step_seconds = new.step_seconds
        self._progress(new.samples_per_second)
        self._tell_speed(self.step - before)
        for points in found:
            if points.series == "train/loss":
                self._check_finite(points)

    def figures(self, figures: Iterable[Figure], epoch: int) -> None:
        """Report figures that lines of the output hold. Raises LossNotFinite as `points` does."""
        now = time.time()
        by_series: dict[str, Points] = {}
        for series, step, value, _ in figures:
            points = by_series.setdefault(series, Points(series, [], []))
            points.steps.append(step)
            points.values.append(value)
        if by_series:
            self._session.emit(Metrics(now, now, list(by_series.values())))
            self._note_steps(by_series.values())
        if epoch > self._epoch:
            self._set_epoch(epoch)
        if by_series:
            self._progress(None)
        if "train/loss" in by_series:
            self._check_finite(by_series["train/loss"])

    def _note_steps(self, points: Iterable[Points]) -> None:
        self._figure_step = max(self._figure_step, *(max(each.steps) for each in points), 0)

    def _set_epoch(self, epoch: int) -> None:
        is_first, self._epoch = not self._epoch, epoch
        if is_first and epoch and self._plan.epochs and self.has_begun:
            self._tell_plan()

    def epoch_ended(self, frame: Epoch) -> None:
        """Report the end of an epoch."""
        self.epochs_done = max(self.epochs_done, min(frame.epoch, LARGEST_STEP))
        if self._rank == 0 and 0 <= frame.epoch <= LARGEST_STEP and 0 <= frame.step <= LARGEST_STEP:
            metrics = {_name(name): value for name, value in frame.metrics.items()}
            self._session.emit(EpochEnded(frame.epoch, frame.step, metrics))

    def image(self, frame: Image) -> None:
        """Keep a picture, and report it."""
        try:
            content = base64.b64decode(frame.png, validate=True)
        except (binascii.Error, ValueError):
            return
        if not content.startswith(_PNG) or not self._is_step(frame.step, frame.series):
            return
        if self._media_bytes + len(content) > MOST_MEDIA_BYTES:
            self.say(
                f"The run keeps {MOST_MEDIA_BYTES // 2**20} MiB of pictures: further ones of this "
                "attempt are left out."
            )
            return
        series = _name(frame.series)
        stem = re.sub(r"[^\w.-]+", "-", series, flags=re.ASCII).strip(".-")[:60] or "picture"
        name = f"{stem}-{frame.step}-rank{self._rank}-{secrets.token_hex(3)}.png"
        try:
            folder = self._session.folder / MEDIA
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / name).write_bytes(content)
        except OSError as error:
            self.say(f"Pictures could not be kept: {error.strerror or error}.")
            return
        self._media_bytes += len(content)
        width, height = (max(0, min(size, 2**31)) for size in (frame.width, frame.height))
        caption = frame.caption[:LONGEST_CAPTION]
        self._session.emit(
            ImageLogged(series, frame.step, f"{MEDIA}/{name}", width, height, caption)
        )

    def histogram(self, frame: Histogram) -> None:
        """Report a distribution."""
        fits = len(frame.edges) == len(frame.counts) + 1 and 0 < len(frame.counts) <= MOST_BINS
        if fits and self._is_step(frame.step, frame.series):
            self._session.emit(
                HistogramLogged(_name(frame.series), frame.step, frame.edges, frame.counts)
            )

    def own_file(self, frame: OwnFile) -> None:
        """Remember a checkpoint that the script has written itself."""
        if self._rank or not 0 <= frame.step <= LARGEST_STEP:
            return
        path = Path(frame.path)
        if path.is_absolute() and not path.is_relative_to(self._session.folder / "checkpoints"):
            try:
                file = ScriptFile(str(path), frame.step, time.time(), frame.is_state)
                note_file(self._session.folder, file)
            except (OSError, ValueError) as error:  # ValueError: a name that is no text
                _log.info("the script's file %r is not remembered: %s", frame.path, error)

    def memory(self, frame: Memory) -> None:
        """Report the memory of the framework."""
        values = {"memory_allocated": frame.allocated, "memory_reserved": frame.reserved}
        self._rank_metrics({name: value for name, value in values.items() if value is not None})

    def resident(self, process: Identity) -> None:
        """Report the resident memory of the command, about every second."""
        now = time.monotonic()
        if now < self._resident_due or not is_alive(process):
            return
        self._resident_due = now + RESIDENT_SECONDS
        if (size := _resident_bytes(process[0])) and self.has_begun:
            self._rank_metrics({"memory_resident": float(size)})

    def said(self, frame: Said) -> None:
        """Pass on a sentence."""
        self.say(frame.text[:LONGEST_NOTICE])

    def say(self, text: str) -> None:
        """Tell the user a sentence, once."""
        text = " ".join(text.split())
        if text and text not in self._notices and len(self._notices) < MOST_NOTICES:
            self._notices.add(text)
            self._session.emit(Notice(text, self._rank))

    def doing(self, frame: Doing, place: int) -> None:
        """Note the present work of the script."""
        self.alive(frame.what[:40], place)

    def alive(self, doing: str, place: int) -> None:
        """Set what the signs of life say; a change of `place` means that the script advances."""
        doing = doing or ("training" if self.has_stepped else "the script")
        self._session.alive = Alive(doing, place)

    def _tell_plan(self) -> None:
        if self._rank:
            return
        plan = self._plan
        self._session.emit(
            TrainingStarted(
                step=self.last_step,
                steps_per_epoch=plan.steps_per_epoch or 0,
                epochs=(plan.epochs or 0) if self._epoch else 0,  # else nothing counts them
                replicas=plan.replicas or self._session.world_size,
                parameters=plan.parameters or 0,
                total_steps=plan.total_steps or 0,
                metric_directions=dict(self._session.metric_directions),
            )
        )

    def _progress(self, samples_per_second: float | None) -> None:
        if self._rank:
            return
        if samples_per_second is not None and 0 <= samples_per_second < math.inf:
            self._speed = samples_per_second
        now = (self.last_step, self._epoch)
        if now in (self._told, (self.first_step, 0)):
            return  # it is no progress: see `engine.diagnosis.hang_watch`
        self._told = now
        plan = self._plan
        total = plan.total_steps or (plan.steps_per_epoch or 0) * (plan.epochs or 0)
        self._session.emit(
            Progress(
                epoch=self._epoch,
                step=self.last_step,
                samples_per_second=self._speed,
                step_seconds=self.step_seconds,
                seconds_left=max(0, total - self.step) * self.step_seconds if total else 0.0,
            )
        )

    def _tell_speed(self, steps: int) -> None:
        """Report step time and throughput, about every second; `steps` more are done."""
        if self._rank or not steps or not self.step_seconds:
            return
        done, seconds = self._timed
        done, seconds = done + steps, seconds + steps * self.step_seconds
        self._timed = done, seconds
        now = time.monotonic()
        if now < self._speed_due:
            return
        self._speed_due, self._timed = now + SPEED_SECONDS, (0, 0.0)
        values = {STEP_SECONDS: seconds / done, THROUGHPUT: self._speed}
        points = [Points(name, [self.step], [value]) for name, value in values.items() if value]
        begin = time.time()
        self._session.emit(Metrics(begin, begin, points))

    def _rank_metrics(self, values: dict[str, float]) -> None:
        now = time.time()
        points = [
            Points(f"rank/{self._rank}/{name}", [self.step], [value])
            for name, value in values.items()
            if math.isfinite(value)
        ]
        if points:
            self._session.emit(Metrics(now, now, points))

    def _points(
        self, series: str, steps: list[int], values: list[float], times: list[float]
    ) -> Points | None:
        """Return the points that can be stored, if there are any."""
        if not steps or len(steps) != len(values) or (times and len(times) != len(steps)):
            return None
        kept = [place for place, step in enumerate(steps) if self._is_step(step, series)]
        if len(kept) < len(steps):
            steps, values = [steps[place] for place in kept], [values[place] for place in kept]
            times = [times[place] for place in kept] if times else times
        return Points(_name(series), steps, values, times) if kept else None

    def _is_step(self, step: int, series: str) -> bool:
        """Whether a curve can have this step; if not, say that what is there is left out."""
        if 0 <= step <= LARGEST_STEP:
            return True
        self.say(f"What '{_name(series)}' has at steps below 0 or above 2^63 is left out.")
        return False

    def _check_finite(self, losses: Points) -> None:
        for step, loss in zip(losses.steps, losses.values, strict=True):
            if math.isfinite(loss):
                continue
            if self._session.spec.on_nan == "stop":
                raise LossNotFinite(loss, step)
            last, self._last_not_finite = self._last_not_finite, step
            if last is None or step - last > _EPISODE_STEPS:
                self._session.emit(
                    Notice(f"The loss is not a finite number since step {step}.", self._rank)
                )


def _name(series: str) -> str:
    return " ".join(series.split())[:LONGEST_NAME] or "unnamed"


def _resident_bytes(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.Error, OSError):
        return 0
