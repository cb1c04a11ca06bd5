"""The training loop, one for both frameworks: chunks of steps, with commands between them.

```
for every epoch:
    for every chunk of K steps (about 100 ms):    <- all ranks agree here on K and on the commands
        run the steps, fetch their losses once
    for every chunk of validation batches:        <- and here
        add up loss and metrics
```
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Protocol

from engine import checkpoint
from engine.checkpoint import Position
from engine.events import (
    CacheEmptied,
    CheckpointSaved,
    EpochEnded,
    Event,
    Metrics,
    Notice,
    Paused,
    Points,
    Progress,
    Resumed,
    TrainingEnded,
    TrainingStarted,
)
from engine.spec import RunSpec
from engine.worker.mailbox import Ask, Mailbox
from engine.worker.pace import Pace

HOLD_BEAT = 0.2
"""Seconds between two looks for commands while paused; also keeps collectives from timing out."""


class Trainer(Protocol):
    """What a framework does for the loop. All ranks call every method, in the same order."""

    steps_per_epoch: int
    validation_batches: int
    replicas: int
    parameters: int

    def run_steps(self, epoch: int, batch: int, count: int) -> list[float]:
        """Train on global batches `batch` ... `batch + count - 1` of `epoch` (both from 0).

        Returns the mean loss over each global batch, the same on every rank.
        """

    def begin_validation(self) -> None:
        """Forget what the last validation added up."""

    def validate(self, batch: int, count: int) -> None:
        """Add up loss and metrics over validation batches `batch` ... `batch + count - 1`."""

    def end_validation(self) -> dict[str, float]:
        """Means over the validation data, the same on every rank, such as {"loss": ...}."""

    def save(self, folder: Path) -> None:
        """Write this rank's share of a checkpoint into `folder`, which exists."""

    def restore(self, folder: Path) -> None:
        """Take everything back that `save` wrote."""

    def empty_cache(self) -> dict[str, int]:
        """Give unused memory back; bytes freed by device."""

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        """Rank 0's `word`, on every rank. The others pass zeros."""

    def barrier(self) -> None:
        """Wait until all ranks are here."""

    def close(self) -> None:
        """Leave the other ranks; called last."""


class Session(Protocol):
    """What the worker's process does for the loop."""

    spec: RunSpec
    rank: int
    folder: Path
    mailbox: Mailbox

    def emit(self, event: Event) -> None:
        """Send an event to the supervisor; never blocks."""


class Loop:
    """One worker's training, from `position` to the end or to a Stop."""

    def __init__(self, trainer: Trainer, session: Session, position: Position) -> None:
        self._trainer = trainer
        self._session = session
        self._position = position
        self._leads = session.rank == 0
        self._pace = Pace(session.spec.batch_size)
        self._warned_of_loss = False

    def run(self) -> None:
        """Train; returns after `TrainingEnded`, with a last checkpoint saved."""
        trainer, spec = self._trainer, self._session.spec
        self._lead(
            TrainingStarted(
                step=self._position.step,
                steps_per_epoch=trainer.steps_per_epoch,
                epochs=spec.epochs,
                replicas=trainer.replicas,
                parameters=trainer.parameters,
            )
        )
        completed = True
        while self._position.epoch < spec.epochs:
            if not (self._train_epoch() and self._validate()):
                completed = False
                break
        self._save()
        self._lead(TrainingEnded(self._position.step, completed))

    def _train_epoch(self) -> bool:
        """Do the rest of the epoch's steps; False when stopped."""
        while (left := self._trainer.steps_per_epoch - self._position.batch) > 0:
            ask, count = self._boundary(min(left, self._pace.chunk))
            if not self._act(ask):
                return False
            begin, clock = time.time(), time.perf_counter()
            position = self._position
            losses = self._trainer.run_steps(position.epoch, position.batch, count)
            self._pace.trained(count, time.perf_counter() - clock)
            self._position = Position(position.epoch, position.batch + count, position.step + count)
            self._report(losses, begin)
        return True

    def _validate(self) -> bool:
        """Validate and close the epoch; False when stopped, and then the epoch is still open."""
        trainer = self._trainer
        trainer.begin_validation()
        done = 0
        while done < trainer.validation_batches:
            ask, count = self._boundary(
                min(trainer.validation_batches - done, self._pace.validation_chunk)
            )
            if not self._act(ask):
                return False
            clock = time.perf_counter()
            trainer.validate(done, count)
            self._pace.validated(count, time.perf_counter() - clock)
            done += count
        metrics = {f"validation/{name}": v for name, v in trainer.end_validation().items()}
        epoch, step = self._position.epoch + 1, self._position.step
        self._position = Position(epoch, 0, step)
        now = time.time()
        self._lead(
            Metrics(now, now, [Points(name, [step], [value]) for name, value in metrics.items()])
        )
        self._lead(EpochEnded(epoch, step, metrics))
        return True

    def _boundary(self, wanted: int) -> tuple[Ask, int]:
        """What is asked for and how many batches come next, the same on every rank."""
        word = (int(self._session.mailbox.take()), wanted) if self._leads else (0, 0)
        ask, count = self._trainer.agree(word)
        return Ask(ask), count

    def _act(self, ask: Ask) -> bool:
        """Do what is asked at this step boundary; False: stop."""
        if not self._act_in_place(ask):
            return False
        if Ask.PAUSE not in ask:
            return True
        self._lead(Paused(self._position.step))
        while Ask.RESUME not in ask:
            word = (int(self._session.mailbox.wait(HOLD_BEAT)), 0) if self._leads else (0, 0)
            ask = Ask(self._trainer.agree(word)[0])
            if not self._act_in_place(ask):
                return False
        self._lead(Resumed(self._position.step))
        return True

    def _act_in_place(self, ask: Ask) -> bool:
        if Ask.EMPTY_CACHE in ask:
            for device, freed in self._trainer.empty_cache().items():
                self._session.emit(CacheEmptied(self._session.rank, device, freed))
        if Ask.CHECKPOINT in ask:
            self._save()
        return Ask.STOP not in ask

    def _save(self) -> None:
        """Save here, unless this very step is saved already; answered either way."""
        started = time.perf_counter()
        folder, trainer, position = self._session.folder, self._trainer, self._position
        final = checkpoint.final_folder(folder, position.step)
        ours = self._leads
        # Rank 0 alone looks at the disk: the others might look a moment later.
        exists = bool(trainer.agree((int(final.exists()), 0) if ours else (0, 0))[0])
        if exists:
            if ours:
                self._answer_saved(
                    checkpoint.CheckpointInfo(final, checkpoint.read_manifest(final)), 0
                )
            return
        if ours:
            checkpoint.begin(folder, position.step)
        trainer.barrier()
        trainer.save(checkpoint.temporary_folder(folder, position.step))
        trainer.barrier()
        if ours:
            info = checkpoint.publish(
                folder,
                position,
                strategy=self._session.spec.strategy,
                replicas=trainer.replicas,
            )
            self._answer_saved(info, time.perf_counter() - started)
        trainer.barrier()

    def _answer_saved(self, info: checkpoint.CheckpointInfo, seconds: float) -> None:
        self._lead(
            CheckpointSaved(
                path=str(info.folder),
                step=info.manifest.position.step,
                epoch=info.manifest.position.epoch,
                bytes=info.manifest.bytes,
                seconds=seconds,
            )
        )

    def _report(self, losses: list[float], begin: float) -> None:
        if not self._leads:
            return
        step = self._position.step
        points = [
            Points("train/loss", list(range(step - len(losses) + 1, step + 1)), losses),
            Points("train/samples_per_second", [step], [self._pace.samples_per_second]),
        ]
        self._lead(Metrics(begin, time.time(), points))
        steps_left = self._trainer.steps_per_epoch * self._session.spec.epochs - step
        self._lead(
            Progress(
                epoch=self._position.epoch + 1,
                step=step,
                samples_per_second=self._pace.samples_per_second,
                step_seconds=self._pace.step_seconds,
                seconds_left=self._pace.seconds_left(steps_left),
            )
        )
        if not self._warned_of_loss and not all(map(math.isfinite, losses)):
            self._warned_of_loss = True
            first = (
                step
                - len(losses)
                + 1
                + next(i for i, loss in enumerate(losses) if not math.isfinite(loss))
            )
            self._lead(
                Notice(
                    f"The loss is not a finite number since step {first}: "
                    "try a smaller learning rate.",
                    rank=0,
                )
            )

    def _lead(self, event: Event) -> None:
        """Say something that all ranks know, once."""
        if self._leads:
            self._session.emit(event)
