"""A training without a framework: its trainer counts, and its session records the events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from engine.messages.channel import Alive
from engine.messages.commands import Command
from engine.messages.events import Event, Metrics
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.metric_direction import direction_overrides
from engine.spec.run_spec import RunSpec
from engine.training.command_mailbox import CommandMailbox
from engine.training.loop import Loop
from engine.training.protocols import DoneSteps

STEPS = 4
"""Steps per epoch."""

VALIDATIONS = 3
EPOCHS = 2
SECONDS = 60.0
"""The longest wait; only a failing test waits so long."""

Moment = tuple[str, int, int]
"""A batch that was just done: ("train" or "validate", epoch, batch), both from 0."""

FIRST: Moment = ("train", 0, 0)
LAST_OF_EPOCH: Moment = ("train", 0, STEPS - 1)
IN_VALIDATION: Moment = ("validate", 0, 0)


class SingleProcess:
    """A single rank, which agrees with itself."""

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        return control_word


class ThreadedRanks:
    """A barrier and a control word for ranks in threads; a missing rank breaks the barrier."""

    def __init__(self, ranks: int) -> None:
        self._barrier = threading.Barrier(ranks, timeout=SECONDS)
        self._word = (0, 0)

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        if control_word != (0, 0):
            self._word = control_word
        self._barrier.wait()
        agreed = self._word
        self._barrier.wait()
        self._word = (0, 0)
        self._barrier.wait()
        return agreed


class CountingTrainer:
    """The loss of a step is one divided by its number; the weights are its number of steps."""

    steps_per_epoch = STEPS
    validation_batches = VALIDATIONS
    epoch_ended = False
    parameters = 10
    input_problem = ""
    goes_on: Callable[[int], bool]
    progress: Callable[[int], None]
    waits = False

    def __init__(
        self, peers: SingleProcess | ThreadedRanks, rank: int = 0, replicas: int = 1
    ) -> None:
        self.replicas = replicas
        self.done: list[Moment] = []
        self.read: list[int] = []
        """After which steps values were read."""

        self.after: Callable[[Moment], None] = lambda moment: None
        self.on_read: Callable[[], None] = lambda: None
        self.loss: Callable[[int], float] = lambda step: 1 / step
        self.validation: Callable[[int], dict[str, float]] = lambda epoch: {"loss": 0.5}
        self.end_reason: Callable[[int], str] = lambda epoch: ""
        self.moves: list[str] = []
        self.agree = peers.agree
        self._rank = rank
        self._validated = 0
        self._is_on_devices = True
        self.ends_after = 0
        """The batches after which the data of each epoch end; 0: they do not end early."""

    def run_steps(self, position: Position, count: int) -> DoneSteps:
        assert self._is_on_devices
        if self.ends_after:
            left = self.ends_after - position.batch
            self.epoch_ended = left < count
            count = min(left, count)
        values = {
            "loss": [self._step(position, number) for number in range(count)],
            "learning_rate": [0.1] * count,
        }

        def read() -> dict[str, list[float]]:
            self.read.append(position.step + count)
            self.on_read()
            return values

        return DoneSteps(count, 32.0 * count, read, self.waits)

    def rank_metrics(self) -> dict[str, float]:
        return {"batches": float(len(self.done))}

    def begin_validation(self) -> None:
        self._validated = 0

    def validate(self, batch: int, count: int) -> int:
        count = min(count, VALIDATIONS - batch)
        for number in range(batch, batch + count):
            self._validated += 1
            self._note(("validate", self.done[-1][1], number))
        return count

    def end_validation(self) -> dict[str, float]:
        return {"seen": float(self._validated)} | self.validation(self.done[-1][1])

    def end_epoch(self, epoch: int, metrics: Mapping[str, float]) -> str:
        return self.end_reason(epoch)

    def save(self, folder: Path) -> None:
        assert self._is_on_devices
        (folder / f"rank{self._rank}").write_text(repr(self.done))

    def restore(self, folder: Path) -> None:
        raise AssertionError("the worker restores, before there is a loop")

    def free_devices(self) -> None:
        assert self._is_on_devices
        self._is_on_devices = False
        self.moves.append("freed")

    def restore_devices(self) -> None:
        assert not self._is_on_devices
        self._is_on_devices = True
        self.moves.append("restored")

    def empty_cache(self) -> dict[str, int]:
        return {f"cpu:{self._rank}": 4096}

    def close(self) -> None:
        raise AssertionError("the worker closes, after the loop")

    def _step(self, start: Position, number: int) -> float:
        self._note(("train", start.epoch, start.batch + number))
        return self.loss(start.step + number + 1)

    def _note(self, moment: Moment) -> None:
        self.done.append(moment)
        self.after(moment)


class RecordingSession:
    """Records all events, and lets a test answer them."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self.spec = RunSpec(
            recipe="r", strategy="torch/single", devices=("cpu:0",), batch_size=8, epochs=EPOCHS
        )
        self.rank = rank
        self.folder = folder
        self.mailbox = CommandMailbox()
        self.recipe_directions: dict[str, str] = {}
        self.alive = Alive()
        self.part_sender = None
        self.emitted: list[Event] = []
        self.is_orphaned = False
        self.has_durable_store = True
        self.unrecorded_in: list[str] = []
        """The folders into which unrecorded events were to be written."""

        self.flushes: list[tuple[int, list[int]]] = []
        """For each flush: the last step whose points were sent, and the checkpoints' steps."""

        self.answers: dict[type[Event], list[Command]] = {}

    @property
    def metric_directions(self) -> dict[str, str]:
        spec = self.spec
        return direction_overrides(
            self.recipe_directions, spec.checkpoint_best, spec.early_stopping
        )

    def flush(self) -> Callable[[], bool]:
        last = max(
            (event.points[0].steps[-1] for event in self.emitted if isinstance(event, Metrics)),
            default=0,
        )

        def wait() -> bool:
            self.flushes.append((last, [*checkpoint_files.folders(self.folder)]))
            return self.has_durable_store

        return wait

    def save_unrecorded(self, checkpoint: Path, *, expected: bool = False) -> None:
        if self.is_orphaned:
            self.keep_unrecorded(checkpoint)

    def keep_unrecorded(self, checkpoint: Path) -> None:
        self.unrecorded_in.append(checkpoint.name)

    def emit(self, event: Event) -> None:
        self.emitted.append(event)
        for command in self.answers.get(type(event), []):
            self.mailbox.post(command)


class Training:
    """One rank's loop, and its results for a test."""

    def __init__(self, folder: Path) -> None:
        self.session = RecordingSession(folder)
        self.trainer = CountingTrainer(SingleProcess())

    def change_spec(self, **changes: Any) -> None:
        """Change the spec before the training begins."""
        self.session.spec = msgspec.structs.replace(self.session.spec, **changes)

    def post(self, moment: Moment, *commands: Command) -> None:
        """Send commands while the trainer computes the batch `moment`."""

        def after(now: Moment) -> None:
            if now == moment:
                for command in commands:
                    self.session.mailbox.post(command)

        self.trainer.after = after

    def run(self, position: Position | None = None) -> list[Event]:
        Loop(self.trainer, self.session, position or Position()).run()
        return self.session.emitted

    def emitted(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.session.emitted if isinstance(event, kinds)]

    def curve(self, series: str) -> list[tuple[int, float]]:
        return [
            pair
            for event in self.session.emitted
            if isinstance(event, Metrics)
            for points in event.points
            if points.series == series
            for pair in zip(points.steps, points.values, strict=True)
        ]

    def saved(self) -> list[Position]:
        return [
            info.manifest.position for info in checkpoint_files.checkpoints(self.session.folder)
        ]

    def kinds(self) -> dict[int, tuple[str, ...]]:
        """Return the kinds of each checkpoint, by step."""
        return {
            info.manifest.position.step: info.manifest.kinds
            for info in checkpoint_files.checkpoints(self.session.folder)
        }


def every_batch(first_epoch: int = 0) -> list[Moment]:
    """Every batch of a training, in order."""
    return [
        (what, epoch, batch)
        for epoch in range(first_epoch, EPOCHS)
        for what, count in (("train", STEPS), ("validate", VALIDATIONS))
        for batch in range(count)
    ]
