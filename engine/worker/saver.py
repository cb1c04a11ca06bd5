"""Saves checkpoints: all ranks write, and rank 0 decides when, why and which ones stay."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from engine import checkpoint
from engine.checkpoint import CheckpointInfo, Position
from engine.events import CheckpointSaved, Notice
from engine.worker.checkpoint_plan import CheckpointPlan
from engine.worker.protocols import Session, Trainer
from engine.worker.retention import retain


class Saver:
    """One rank's part in the checkpoints of a training.

    All ranks call `save` together. What the other methods know matters on rank 0 only.
    """

    def __init__(self, trainer: Trainer, session: Session, start: Position) -> None:
        self._trainer = trainer
        self._session = session
        self._leads = session.rank == 0
        saved = checkpoint.checkpoints(session.folder) if self._leads else []
        self._plan = CheckpointPlan(
            session.spec, start, time.monotonic(), [info.manifest for info in saved]
        )
        self._wanted: set[str] = set()
        self.steps_left = self._plan.steps_left

    def want(self, kinds: Iterable[str]) -> None:
        """Note why the next checkpoint is saved."""
        self._wanted.update(kinds)

    def want_what_is_due(self, position: Position) -> bool:
        """Note what is due at `position`, and whether there is anything."""
        due = self._plan.due(position, time.monotonic())
        self.want(due)
        return bool(due)

    def validated(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Take what the validation after `epoch` epochs found."""
        notice = self._plan.validated(epoch, metrics)
        if notice and self._leads:
            self._session.emit(Notice(notice, rank=0))

    def save(self, position: Position) -> None:
        """Save at `position`, unless this very step is saved already; answered either way."""
        started = time.perf_counter()
        folder, trainer = self._session.folder, self._trainer
        final = checkpoint.final_folder(folder, position.step)
        # Rank 0 alone looks at the disk: the others might look a moment later.
        exists = bool(trainer.agree((int(self._leads and final.exists()), 0))[0])
        if exists:
            if self._leads:
                info = checkpoint.add_kinds(final, self._wanted, self._plan.metrics)
                self._conclude(info, 0)
            return
        if self._leads:
            checkpoint.begin(folder, position.step)
        trainer.barrier()
        trainer.save(checkpoint.temporary_folder(folder, position.step))
        trainer.barrier()
        if self._leads:
            info = checkpoint.publish(
                folder,
                position,
                strategy=self._session.spec.strategy,
                replicas=trainer.replicas,
                kinds=self._wanted,
                metrics=self._plan.metrics,
            )
            self._conclude(info, time.perf_counter() - started)
        trainer.barrier()

    def _conclude(self, info: CheckpointInfo, seconds: float) -> None:
        self._wanted.clear()
        self._plan.saved(time.monotonic())
        self._session.emit(
            CheckpointSaved(
                path=str(info.folder),
                step=info.manifest.position.step,
                epoch=info.manifest.position.epoch,
                bytes=info.manifest.bytes,
                seconds=seconds,
            )
        )
        retain(self._session.folder, self._session.spec.keep_checkpoints)
