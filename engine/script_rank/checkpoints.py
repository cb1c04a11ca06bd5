"""The checkpoints of a script: every rank's script writes its part, rank 0 publishes the whole."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from functools import partial
from typing import Any

from engine.files.disk_errors import disk_problem
from engine.files.save_progress import mark
from engine.messages.channel import Alive
from engine.messages.events import CheckpointFailed, CheckpointSaved
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import Position
from engine.script_rank.exchange import Exchange
from engine.script_rank.frames import NotSaved, Saved
from engine.spec.metric_direction import lower_is_better, split_direction
from engine.training.checkpoints.retention import retain
from engine.worker.session import WorkerSession

_log = logging.getLogger(__name__)

PARTS_SECONDS = 120.0
"""Time for the other ranks to write their parts, after rank 0 has written its own."""


class Checkpoints:
    """One rank's part in the checkpoints. Only the main thread of its process uses it."""

    def __init__(self, session: WorkerSession, exchange: Exchange) -> None:
        self._session = session
        self._exchange = exchange
        self._kinds: dict[int, tuple[str, ...]] = {}
        self._waiting: tuple[Saved, float, bool] | None = None
        """Rank 0's part, when it was written, and whether its events were durable then."""

        self._last_save = time.monotonic()
        self.saved_step = -1
        """The step of the newest checkpoint of this attempt."""

    def schedule(self) -> dict[str, Any]:
        """Return the frame that tells a script with our calls when it saves by itself."""
        session, spec = self._session, self._session.spec
        metric, _ = split_direction(spec.best_metric)
        lower = lower_is_better(metric, session.metric_directions)
        saved = [
            info.manifest.metrics[f"validation/{metric}"]
            for info in checkpoint_files.checkpoints(session.folder)
            if "best" in info.manifest.kinds and f"validation/{metric}" in info.manifest.metrics
        ]
        return {
            "kind": "save_every",
            "steps": spec.checkpoint_steps,
            "epochs": spec.checkpoint_epochs,
            "best": metric,
            "lower_is_better": lower,
            "best_so_far": (min if lower else max)(saved) if saved else None,
        }

    @property
    def is_waiting(self) -> bool:
        """Whether rank 0 waits for the parts of other ranks."""
        return self._waiting is not None

    def requested(self, number: int, kinds: tuple[str, ...]) -> None:
        """Note why the checkpoint of the act `number` is saved."""
        self._kinds[number] = kinds

    def is_due(self) -> bool:
        """Whether the minutes between two checkpoints are over; counts them anew then."""
        minutes = self._session.spec.checkpoint_minutes
        if not minutes or self._waiting or time.monotonic() - self._last_save < 60 * minutes:
            return False
        self._last_save = time.monotonic()
        return True

    def saved(self, frame: Saved) -> None:
        """Note that this rank's part is written."""
        what = _marker(frame.step)
        if self._session.rank:
            flushed = self._session.flush()
            with contextlib.suppress(OSError):
                if not flushed():
                    self._keep_events(frame.step)
                self._exchange.note(what, "saved")
            return
        flushed = self._session.flush()
        with contextlib.suppress(OSError):
            self._exchange.note(what, "saved")
        self._waiting = (frame, time.monotonic(), flushed())
        self.look()

    def not_saved(self, frame: NotSaved) -> None:
        """Note that this rank's part could not be written."""
        text = frame.text.strip() or "The script could not save its weights."
        if self._session.rank:
            with contextlib.suppress(OSError):
                self._exchange.note(_marker(frame.step), text)
            return
        self._fail(frame.step, text)

    def look(self) -> None:
        """Publish the checkpoint if all parts are there; give it up if they take too long."""
        if self._waiting is None:
            return
        frame, since, is_durable = self._waiting
        parts = self._exchange.of_all(_marker(frame.step))
        if parts is None:
            if time.monotonic() - since > PARTS_SECONDS:
                self._fail(
                    frame.step,
                    f"The checkpoint of step {frame.step} could not be saved: a rank did not write "
                    f"its part within {PARTS_SECONDS:.0f} s.",
                )
            return
        problems = [text for text in parts if text != "saved"]
        if problems:
            self._fail(frame.step, problems[0])
            return
        self._waiting = None
        try:
            self._publish(frame, is_durable=is_durable)
        except OSError as error:
            reason = disk_problem(error) or error
            text = f"The checkpoint of step {frame.step} could not be saved: {reason}."
            self._fail(frame.step, text)
        self._exchange.forget(_marker(frame.step))

    def leave(self) -> None:
        """Without a supervisor, add this rank's last events to the last checkpoint."""
        if self.saved_step >= 0:
            folder = checkpoint_files.final_folder(self._session.folder, self.saved_step)
            with contextlib.suppress(OSError):
                self._session.save_unrecorded(folder)

    def _publish(self, frame: Saved, *, is_durable: bool) -> None:
        session = self._session
        final = checkpoint_files.final_folder(session.folder, frame.step)
        kinds = frame.kinds or self._kinds.pop(frame.number, ("request",))
        if final.exists():  # it was saved before, at the same step
            part = checkpoint_files.temporary_folder(session.folder, frame.step)
            shutil.rmtree(part, ignore_errors=True)
            saved = checkpoint_files.add_kinds(final, kinds, frame.metrics)
        else:
            if not is_durable or session.is_orphaned:
                self._keep_events(frame.step)
            saved = checkpoint_files.publish(
                session.folder,
                Position(max(0, frame.epoch), max(0, frame.batch), frame.step),
                strategy=session.spec.strategy,
                replicas=session.world_size,
                batch_size=session.spec.batch_size,
                parameters=max(0, frame.parameters),
                kinds=kinds,
                metrics=frame.metrics,
                count=partial(self._count, frame.step),
            )
        self.saved_step = frame.step
        self._last_save = time.monotonic()
        _log.info("checkpoint of step %d: published", frame.step)
        session.emit(
            CheckpointSaved(
                path=str(saved.folder),
                step=frame.step,
                epoch=saved.manifest.position.epoch,
                bytes=saved.manifest.bytes,
                seconds=max(0.0, frame.seconds),
            )
        )
        with contextlib.suppress(OSError):  # the next one tries it again
            retain(session.folder, session.spec.keep_checkpoints)

    def _keep_events(self, step: int) -> None:
        """Write the events that may not be durable beside the checkpoint."""
        folder = checkpoint_files.temporary_folder(self._session.folder, step)
        if folder.is_dir():
            self._session.keep_unrecorded(folder)

    def _count(self, step: int, size: int) -> None:
        """Show that the checkpoint goes on, also to the other ranks: its files do not grow now."""
        alive = self._session.alive
        place = alive.place + size if alive.doing == "checkpoint" else size
        self._session.alive = Alive("checkpoint", place)
        mark(checkpoint_files.temporary_folder(self._session.folder, step))

    def _fail(self, step: int, text: str) -> None:
        self._waiting = None
        folder = checkpoint_files.temporary_folder(self._session.folder, step)
        shutil.rmtree(folder, ignore_errors=True)
        self._exchange.forget(_marker(step))
        self._session.emit(CheckpointFailed(step, " ".join(text.split())[:2000]))


def _marker(step: int) -> str:
    return f"saved-{step}"
