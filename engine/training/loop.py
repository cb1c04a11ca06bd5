"""The training loop, one for both frameworks: chunks of steps, with commands between them.

```
for every epoch:
    for every chunk of K steps (about 100 ms):    <- all ranks agree here on K and on the commands
        run the steps, copy their metrics from the device once
    for every chunk of validation batches:        <- and here
        add up loss and metrics
```
"""

from __future__ import annotations

import time

from engine.messages.channel import Alive
from engine.messages.events import TrainingEnded, TrainingStarted
from engine.runs.checkpoint_files import Position
from engine.training.checkpoint_saver import CheckpointSaver
from engine.training.checkpoint_schedule import VALIDATION
from engine.training.pace import Pace
from engine.training.protocols import Session, Trainer, emit_once
from engine.training.reporter import Reporter
from engine.training.step_boundary import StepBoundary


class Loop:
    """One worker's training, from `position` to the end or to a Stop."""

    def __init__(self, trainer: Trainer, session: Session, position: Position) -> None:
        self._trainer = trainer
        self._session = session
        self._position = position
        self._is_rank_zero = session.rank == 0
        self._pace = Pace(session.spec.batch_size)
        self._reporter = Reporter(trainer, session, self._pace)
        self._saver = CheckpointSaver(trainer, session, position)
        self._boundary = StepBoundary(trainer, session, self._saver)

    def run(self) -> None:
        """Train, save a last checkpoint if the disk has room for it, and send `TrainingEnded`.

        All ranks call this. Raises LossNotFinite on every rank, if the spec says so.
        """
        trainer, spec = self._trainer, self._session.spec
        emit_once(
            self._session,
            TrainingStarted(
                step=self._position.step,
                steps_per_epoch=trainer.steps_per_epoch,
                epochs=spec.epochs,
                total_steps=self._position.total_steps(trainer.steps_per_epoch, spec.epochs),
                replicas=trainer.replicas,
                parameters=trainer.parameters,
                metric_directions=dict(self._session.metric_directions),
            ),
        )
        completed = True
        while self._position.epoch < spec.epochs:
            if not (self._train_epoch() and self._validate()):
                completed = False
                break
        self._saver.request_due(self._position)
        self._saver.request(["last"])
        while not self._saver.save(self._position):
            if not (completed and self._boundary.pause_for_disk(self._position)):
                break
        emit_once(self._session, TrainingEnded(self._position.step, completed))
        self._saver.save_unrecorded(self._position)

    def _train_epoch(self) -> bool:
        """Do the remaining steps of the epoch. Return False when stopped."""
        while (left := self._trainer.steps_per_epoch - self._position.batch) > 0:
            position = self._position
            # After the last step of an epoch, this line is not reached: a due checkpoint is saved
            # after the validation, so that a resumed run does not validate again.
            due = self._is_rank_zero and self._saver.request_due(position)
            wanted = min(left, self._pace.chunk, self._saver.steps_until_due(position.step))
            flags, count = self._boundary.agree(wanted, due=due)
            if not self._boundary.act(flags, position):
                return False
            self._session.alive = Alive("training", position.step)
            begin, clock = time.time(), time.perf_counter()
            step_metrics = self._trainer.run_steps(position, count)
            self._pace.trained(count, time.perf_counter() - clock)
            self._position = Position(position.epoch, position.batch + count, position.step + count)
            self._reporter.trained(self._position, step_metrics, begin, time.time())
        return True

    def _validate(self) -> bool:
        """Validate, and end the epoch. Return False when stopped: the epoch has not ended then."""
        trainer = self._trainer
        self._session.alive = Alive("validation", self._position.step)
        trainer.begin_validation()
        done = 0
        while done < trainer.validation_batches:
            wanted = min(trainer.validation_batches - done, self._pace.validation_chunk)
            flags, count = self._boundary.agree(wanted, due=False)
            if not self._boundary.act(flags, self._position):
                return False
            self._session.alive = Alive("validation", self._position.step + done)
            clock = time.perf_counter()
            trainer.validate(done, count)
            self._pace.validated(count, time.perf_counter() - clock)
            done += count
            self._reporter.progress(self._position, done)
        metrics = {VALIDATION + name: value for name, value in trainer.end_validation().items()}
        self._position = Position(self._position.epoch + 1, 0, self._position.step)
        self._reporter.validated(self._position, metrics)
        self._saver.validated(self._position.epoch, metrics)
        return True
