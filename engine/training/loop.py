"""The training loop, one for both frameworks: chunks of steps, with commands between them.

```
for every epoch:
    for every chunk of K steps (about 100 ms):    <- all ranks agree here on K and on the commands
        run the steps, begin to copy their metrics from the device
        report the chunk before, which the device has done meanwhile
    for every chunk of validation batches:        <- and here
        add up loss and metrics
```
"""

from __future__ import annotations

import contextlib
import os
import time

from engine.messages.channel import Alive
from engine.messages.events import TrainingEnded, TrainingStarted
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training import run_length
from engine.training.checkpoints.saver import CheckpointSaver
from engine.training.checkpoints.schedule import VALIDATION
from engine.training.early_end import EarlyEnd
from engine.training.early_stopping import EarlyStopping
from engine.training.kernel_faults import kernel_fault
from engine.training.pace import MOST_STEPS, Pace
from engine.training.probes.measuring import measure_if_asked
from engine.training.protocols import UNKNOWN, DoneSteps, Session, Trainer, emit_once
from engine.training.reporter import Reporter
from engine.training.step_boundary import StepBoundary

ONE_BATCH = "TRAINDECK_ONE_BATCH"
"""The environment variable that is set while a recipe is only tried: one batch of the validation
data is enough."""


class Loop:
    """One worker's training, from `position` to the end or to a Stop."""

    def __init__(self, trainer: Trainer, session: Session, position: Position) -> None:
        self._trainer = trainer
        is_tried = bool(os.environ.get(ONE_BATCH)) and trainer.validation_batches != 0
        # Under TensorFlow there are no means before the end of the validation data.
        if is_tried and session.spec.strategy.startswith("torch/"):
            trainer.validation_batches = 1
        self._session = session
        self._position = position
        self._is_rank_zero = session.rank == 0
        self._pace = Pace()
        self._reporter = Reporter(trainer, session, self._pace)
        self._saver = CheckpointSaver(trainer, session, position)
        self._boundary = StepBoundary(trainer, session, self._saver)
        ranks = int(os.environ.get("WORLD_SIZE", "1"))
        self._is_alone = ranks == 1
        self._early_end = EarlyEnd(
            session.rank,
            ranks,
            lambda: session.mailbox.has_commands,
        )
        trainer.goes_on = self._early_end.goes_on
        self._early_stopping = EarlyStopping.of_worker(session.spec, session.metric_directions)
        self._has_validated = False
        self._replayed_to = run_length.last_replayed_step()
        self._end_reason = ""
        self._unread: DoneSteps | None = None
        """The last steps, while the device computes them; `_position` is the one after them."""

        self._since = 0.0, 0.0
        """When the device began with them: seconds since the epoch, and by the clock."""

        self._reporter.step = self._issued = position.step

    def run(self) -> None:
        """Train, save a last checkpoint if the disk has room for it, and send `TrainingEnded`.

        All ranks call this. Raises LossNotFinite on every rank, if the spec says so, KernelFault,
        and TrainingFailed if there is no metric for early stopping.
        """
        try:
            self._run()
        except RuntimeError as error:
            if fault := kernel_fault(error, self._reporter.step, self._issued):
                raise fault  # noqa: B904 - it knows whether the line of `error` tells anything
            raise

    def _run(self) -> None:
        trainer, spec = self._trainer, self._session.spec
        self._early_stopping.check(trainer.validation_batches != 0)
        self._early_end.agree(trainer.agree)
        emit_once(
            self._session,
            TrainingStarted(
                step=self._position.step,
                steps_per_epoch=trainer.steps_per_epoch,
                epochs=run_length.epochs(spec),
                total_steps=run_length.total_steps(spec, self._position, trainer.steps_per_epoch),
                replicas=trainer.replicas,
                parameters=trainer.parameters,
                metric_directions=dict(self._session.metric_directions),
                validates=trainer.validation_batches != 0,
            ),
        )
        completed = True
        while not (self._end_reason or self._is_over()):
            if not self._train_epoch():
                completed = False
                break
            if self._is_replayed():
                if os.environ.get(run_length.KEEP_REPLAYED):
                    self._saver.request(["request"])
                    self._saver.save(self._position)
                emit_once(self._session, TrainingEnded(self._position.step, completed))
                return
            if not self._validate():
                completed = False
                break
        if not measure_if_asked(trainer, self._session):
            emit_once(self._session, TrainingEnded(self._position.step, completed))
            return
        self._saver.request_due(self._position)
        self._saver.request(["last"])
        while not self._saver.save(self._position):
            if not (completed and self._boundary.pause_for_disk(self._position)):
                break
        emit_once(self._session, TrainingEnded(self._position.step, completed, self._end_reason))
        self._saver.save_unrecorded(self._position)

    def _is_replayed(self) -> bool:
        """Whether this run repeats another one, and has done the last step of that."""
        return 0 < self._replayed_to <= self._position.step

    def _is_over(self) -> bool:
        spec, has_validated = self._session.spec, self._has_validated
        return run_length.is_over(spec, self._position, has_validated=has_validated)

    def _train_epoch(self) -> bool:
        """Do the remaining steps of the epoch, or of the run. Return False when stopped."""
        while (left := self._steps_left()) > 0:
            position = self._position
            # After the last step of an epoch, this line is not reached: a due checkpoint is saved
            # after the validation, so that a resumed run does not validate again.
            due = self._is_rank_zero and self._saver.request_due(position)
            wanted = min(left, self._pace.chunk, self._saver.steps_until_due(position.step))
            flags, count = self._boundary.agree(wanted, due=due)
            if flags:
                self._report_unread()
            if not self._boundary.act(flags, position):
                return False
            self._session.alive = Alive("training", position.step)
            self._run_steps(count)
            if self._trainer.epoch_ended:
                break
        self._report_unread()
        return True

    def _run_steps(self, count: int) -> None:
        """Do at most `count` steps, and report those before, for which the device has had time."""
        begin, position = _now(), self._position
        self._early_end.begin(count)
        self._issued = position.step + count
        try:
            done = self._trainer.run_steps(position, count)
        except Exception:
            if self._is_alone:  # no other rank has to take part
                with contextlib.suppress(Exception):
                    self._report_unread()
            raise
        if self._unread is None:
            self._since = begin
        self._report_unread()
        if not done.count:
            return
        self._position = Position(
            position.epoch, position.batch + done.count, position.step + done.count
        )
        self._unread = done
        if not done.waits:
            self._report_unread()

    def _report_unread(self) -> None:
        """Read and report the last steps, if that is not done; all ranks call it."""
        done, self._unread = self._unread, None
        if done is None:
            return
        metrics = done.read()
        (begin, clock), self._since = self._since, _now()
        end, read = self._since
        self._pace.trained(done.count, done.samples, read - clock)
        self._reporter.trained(self._position, metrics, begin, end)

    def _steps_left(self) -> int:
        """Return the steps until the end of the epoch or of the run, or many if it is not known."""
        position, steps = self._position, self._replayed_to or self._session.spec.steps
        size = self._trainer.steps_per_epoch
        left = size - position.batch if size else MOST_STEPS
        if not steps:
            return left
        to_end = max(0, steps - position.step)
        if self._replayed_to and to_end > 1:
            to_end -= 1  # the last step, which is looked into, is a chunk of its own
        return min(left, to_end)

    def _validate(self) -> bool:
        """Validate, and end the epoch. Return False when stopped: the epoch has not ended then.

        A run of a number of steps ends with a validation too, also within an epoch.
        """
        trainer = self._trainer
        self._session.alive = Alive("validation", self._position.step)
        if trainer.validation_batches:
            trainer.begin_validation()
        done = 0
        batches = trainer.validation_batches
        while batches == UNKNOWN or done < batches:
            left = MOST_STEPS if batches == UNKNOWN else batches - done
            wanted = min(left, self._pace.validation_chunk)
            flags, count = self._boundary.agree(wanted, due=False)
            if not self._boundary.act(flags, self._position):
                return False
            self._session.alive = Alive("validation", self._position.step + done)
            clock = time.perf_counter()
            validated = trainer.validate(done, count)
            if validated:
                self._pace.validated(validated, time.perf_counter() - clock)
            done += validated
            self._reporter.progress(self._position, done)
            if validated < count:
                break
        found = trainer.end_validation() if batches else {}
        metrics = {VALIDATION + name: value for name, value in found.items()}
        size = trainer.steps_per_epoch
        ends_epoch = trainer.epoch_ended or bool(size and self._position.batch >= size)
        if ends_epoch:
            self._position = Position(self._position.epoch + 1, 0, self._position.step)
            self._end_reason = trainer.end_epoch(self._position.epoch, metrics)
            reason = self._early_stopping.validated(
                self._position.step, metrics, self._session.folder
            )
            self._end_reason = self._end_reason or reason
        self._has_validated = True
        self._reporter.validated(self._position, metrics, ends_epoch=ends_epoch)
        self._saver.validated(self._position.epoch, metrics)
        return True


def _now() -> tuple[float, float]:
    """Return the seconds since the epoch, and those of a clock that is never set."""
    return time.time(), time.perf_counter()
