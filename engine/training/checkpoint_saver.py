"""Saves checkpoints: all ranks write, and rank 0 decides when, why and which ones stay."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from engine.messages.channel import Alive
from engine.messages.events import CheckpointFailed, CheckpointSaved, Notice
from engine.runs import checkpoint_files
from engine.runs.checkpoint_files import Position
from engine.system.disk_errors import disk_problem
from engine.training.checkpoint_retention import retain
from engine.training.checkpoint_schedule import CheckpointSchedule
from engine.training.protocols import Session, Trainer

_log = logging.getLogger(__name__)


class CheckpointSaver:
    """One rank's part in the checkpoints of a training.

    All ranks call `save` together. What the other methods know matters on rank 0 only.
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
        self._wanted: set[str] = set()
        self._problem = ""
        self.failed = False
        """Whether the last attempt to save met a disk that takes nothing more."""

        self.steps_left = self._schedule.steps_left

    def request(self, kinds: Iterable[str]) -> None:
        """Note why the next checkpoint is saved."""
        self._wanted.update(kinds)

    def request_due(self, position: Position) -> bool:
        """Note what is due at `position`, and whether there is anything."""
        self.request(self._schedule.due(position, time.monotonic()))
        return bool(self._wanted)  # also what could not be saved before

    def validated(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Take what the validation after `epoch` epochs found."""
        notice = self._schedule.validated(epoch, metrics)
        if notice and self._is_rank_zero:
            self._session.emit(Notice(notice, rank=0))

    def save(self, position: Position) -> bool:
        """Save at `position`, unless this very step is saved already; answered either way.

        False on every rank: the disk takes nothing more, and nothing is left of the attempt.
        """
        self._session.alive = Alive("checkpoint", position.step)
        started = time.perf_counter()
        folder, trainer = self._session.folder, self._trainer
        final = checkpoint_files.final_folder(folder, position.step)
        # Rank 0 alone looks at the disk: the others might look a moment later.
        exists = bool(trainer.agree((int(self._is_rank_zero and final.exists()), 0))[0])
        _log.info("checkpoint of step %d: begins, kinds %s", position.step, sorted(self._wanted))
        works = [self._note_kinds] if exists else [self._begin, self._write, self._publish]
        self.failed = not all(self._together(work, position) for work in works)
        outcome = "failed" if self.failed else "was saved before" if exists else "published"
        seconds = time.perf_counter() - started
        _log.info("checkpoint of step %d: %s, %.2f s", position.step, outcome, seconds)
        if self.failed:
            self._clean_up(position)
        elif self._is_rank_zero:
            self._conclude(final, 0 if exists else seconds)
        return not self.failed

    def _together(self, work: Callable[[Position], None], position: Position) -> bool:
        """Do `work` and wait for the other ranks; whether every rank's disk took it."""
        problem = ""
        try:
            work(position)
        except BaseException as error:  # as torch's CheckpointException is
            problem = disk_problem(error)
            if not problem:
                raise
            self._problem = problem
        return not any(self._trainer.agree((int(bool(problem)), 0)))

    def _begin(self, position: Position) -> None:
        if self._is_rank_zero:
            checkpoint_files.begin(self._session.folder, position.step)

    def _write(self, position: Position) -> None:
        self._trainer.save(checkpoint_files.temporary_folder(self._session.folder, position.step))

    def _publish(self, position: Position) -> None:
        if self._is_rank_zero:
            # Who goes on from here does not do the steps before again: their points must be there.
            self._session.flush()
            checkpoint_files.publish(
                self._session.folder,
                position,
                strategy=self._session.spec.strategy,
                replicas=self._trainer.replicas,
                batch_size=self._session.spec.batch_size,
                parameters=self._trainer.parameters,
                kinds=self._wanted,
                metrics=self._schedule.metrics,
            )

    def _note_kinds(self, position: Position) -> None:
        if self._is_rank_zero:
            final = checkpoint_files.final_folder(self._session.folder, position.step)
            checkpoint_files.add_kinds(final, self._wanted, self._schedule.metrics)

    def _clean_up(self, position: Position) -> None:
        """Leave nothing half-written; once every rank has stopped writing."""
        if not self._is_rank_zero:
            return
        folder = self._session.folder
        shutil.rmtree(checkpoint_files.temporary_folder(folder, position.step), ignore_errors=True)
        because = self._problem or "another rank could not write its part"
        self._session.emit(
            CheckpointFailed(
                position.step,
                f"The checkpoint of step {position.step} could not be saved: {because}. "
                f"Make room for it in {folder}, or let it be written to.",
            )
        )

    def _conclude(self, folder: Path, seconds: float) -> None:
        self._wanted.clear()
        self._schedule.saved(time.monotonic())
        manifest = checkpoint_files.read_manifest(folder)
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
