"""Saves checkpoints: all ranks write; rank 0 decides when to save and which ones to keep."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from engine.files.disk_errors import disk_problem
from engine.files.save_progress import mark
from engine.messages.channel import Alive
from engine.messages.events import CheckpointFailed, CheckpointSaved, Notice
from engine.runs.checkpoints import checkpoint_files, checkpoint_place
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo, Position
from engine.training.checkpoints.retention import retain
from engine.training.checkpoints.schedule import CheckpointSchedule
from engine.training.protocols import Session, Trainer

_log = logging.getLogger(__name__)

MARK_SECONDS = 0.5
"""Time between two marks of a checkpoint that is being saved."""


class CheckpointSaver:
    """One rank's part in the checkpoints of a training.

    All ranks call `save` together. The other methods have an effect on rank 0 only.
    """

    def __init__(self, trainer: Trainer, session: Session, start: Position) -> None:
        self._trainer = trainer
        self._session = session
        self._is_rank_zero = session.rank == 0
        saved = checkpoint_files.checkpoints(session.folder) if self._is_rank_zero else []
        self._schedule = CheckpointSchedule(
            session.spec,
            session.metric_directions,
            start,
            time.monotonic(),
            [info.manifest for info in saved],
        )
        self._requested_kinds: set[str] = set()
        self._problem = ""
        self._saved: CheckpointInfo | None = None
        self._folder = session.folder
        self._mark_at = 0.0
        trainer.progress = self._count
        self._is_orphaned = False
        self.failed = False
        """Whether the last checkpoint could not be written, such as to a full disk."""

        self.steps_until_due = self._schedule.steps_until_due

    def request(self, kinds: Iterable[str]) -> None:
        """Request a checkpoint of these kinds."""
        self._requested_kinds.update(kinds)

    def request_due(self, position: Position) -> bool:
        """Request the checkpoint that is due at `position`. Return whether one is requested."""
        self.request(self._schedule.due(position, time.monotonic()))
        return bool(self._requested_kinds)  # a checkpoint that failed is still requested

    def validated(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Note the metrics of the validation after `epoch` epochs."""
        notice = self._schedule.validated(epoch, metrics)
        if notice and self._is_rank_zero:
            self._session.emit(Notice(notice, rank=0))

    def save(self, position: Position) -> bool:
        """Save a checkpoint at `position`, unless that step is saved already; report it.

        All ranks call this. Return False on every rank if any rank could not write to its disk; no
        part of the checkpoint remains then.
        """
        self._session.alive = Alive("checkpoint", position.step)
        started = time.perf_counter()
        folder, trainer = self._session.folder, self._trainer
        final = checkpoint_files.final_folder(folder, position.step)
        self._folder = checkpoint_files.temporary_folder(folder, position.step)
        # Only rank 0 asks the disk: a rank that asks later might get another answer.
        word = (
            (int(_exists(final)), int(self._session.is_orphaned)) if self._is_rank_zero else (0, 0)
        )
        exists, self._is_orphaned = map(bool, trainer.agree(word))
        _log.info(
            "checkpoint of step %d: begins, kinds %s", position.step, sorted(self._requested_kinds)
        )
        parts = [self._send] if self._session.part_sender else []
        actions = [self._add_kinds] if exists else [self._begin, self._write, *parts, self._publish]
        self.failed = not all(self._on_all_ranks(action, position) for action in actions)
        outcome = "failed" if self.failed else "was saved before" if exists else "published"
        seconds = time.perf_counter() - started
        _log.info("checkpoint of step %d: %s, %.2f s", position.step, outcome, seconds)
        if self.failed:
            self._delete_unfinished(position)
        elif self._saved is not None:
            self._report_saved(self._saved, 0 if exists else seconds)
        return not self.failed

    def save_unrecorded(self, position: Position) -> None:
        """Without a supervisor, add this rank's last events to the last checkpoint."""
        folder = checkpoint_files.final_folder(self._session.folder, position.step)
        with contextlib.suppress(OSError):  # a full disk: the steps are saved, their points not all
            self._session.save_unrecorded(folder)

    def _on_all_ranks(self, action: Callable[[Position], None], position: Position) -> bool:
        """Do `action`, wait for the other ranks, and return whether every rank could write."""
        problem = ""
        try:
            action(position)
        except BaseException as error:  # not only Exception: torch's CheckpointException
            problem = disk_problem(error)
            if not problem:
                raise
            self._problem = problem
        return not any(self._trainer.agree((int(bool(problem)), 0)))

    def _begin(self, position: Position) -> None:
        if self._is_rank_zero:
            checkpoint_files.begin(self._session.folder, position.step)
        if self._session.part_sender:
            self._session.part_sender.begin(self._session.folder, position.step)

    def _write(self, position: Position) -> None:
        # A run that resumes here does not repeat the earlier steps: the points of every rank must
        # be durable before the checkpoint is, or with it. The supervisor writes them meanwhile.
        flushed = self._session.flush()
        folder = checkpoint_files.temporary_folder(self._session.folder, position.step)
        self._trainer.save(folder)
        is_durable = flushed()
        if self._is_orphaned:
            self._session.save_unrecorded(folder, expected=True)
        elif not is_durable:
            _log.info("checkpoint of step %d: keeps the points before it", position.step)
            self._session.keep_unrecorded(folder)

    def _send(self, position: Position) -> None:
        assert self._session.part_sender
        self._session.part_sender.send(self._session.folder, position.step, self._count)

    def _publish(self, position: Position) -> None:
        if self._is_rank_zero:
            self._saved = checkpoint_files.publish(
                self._session.folder,
                position,
                strategy=self._session.spec.strategy,
                replicas=self._trainer.replicas,
                batch_size=self._session.spec.batch_size,
                parameters=self._trainer.parameters,
                kinds=self._requested_kinds,
                metrics=self._schedule.metrics,
                count=self._count,
            )

    def _count(self, size: int) -> None:
        """Show that the checkpoint goes on, by `size` bytes: its files do not always grow.

        Without a supervisor, the other ranks and the guardian see it by a mark.
        """
        self._session.alive = Alive("checkpoint", self._session.alive.place + size)
        if (now := time.monotonic()) >= self._mark_at:
            self._mark_at = now + MARK_SECONDS
            mark(self._folder)

    def _add_kinds(self, position: Position) -> None:
        if self._is_rank_zero:
            final = checkpoint_files.final_folder(self._session.folder, position.step)
            self._saved = checkpoint_files.add_kinds(
                final, self._requested_kinds, self._schedule.metrics
            )

    def _delete_unfinished(self, position: Position) -> None:
        if not self._is_rank_zero:
            return
        folder = self._session.folder
        shutil.rmtree(checkpoint_files.temporary_folder(folder, position.step), ignore_errors=True)
        reason = self._problem or "another rank could not write its part"
        with contextlib.suppress(OSError):
            folder = checkpoint_place.linked(folder) or folder
        self._session.emit(
            CheckpointFailed(
                position.step,
                f"The checkpoint of step {position.step} could not be saved: {reason}. "
                f"Make room for it in {folder}, or let it be written to.",
            )
        )

    def _report_saved(self, saved: CheckpointInfo, seconds: float) -> None:
        self._requested_kinds.clear()
        self._schedule.saved(time.monotonic())
        folder, manifest = saved
        self._session.emit(
            CheckpointSaved(
                path=str(folder),
                step=manifest.position.step,
                epoch=manifest.position.epoch,
                bytes=manifest.bytes,
                seconds=seconds,
            )
        )
        try:
            retain(self._session.folder, self._session.spec.keep_checkpoints)
        except OSError as error:
            if not (problem := disk_problem(error)):
                raise
            self._session.emit(Notice(f"Older checkpoints could not be sorted: {problem}.", 0))


def _exists(folder: Path) -> bool:
    """Whether `folder` is there; False if the disk does not tell, which is met again in writing."""
    try:
        return folder.exists()
    except OSError:
        return False
