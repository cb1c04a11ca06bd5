"""The point between two chunks of steps: all ranks agree on the commands and act on them."""

from __future__ import annotations

import logging

from engine.messages.events import CacheEmptied, Notice, Paused, Resumed
from engine.runs.checkpoints.checkpoint_files import Position
from engine.training.checkpoints.saver import CheckpointSaver
from engine.training.command_mailbox import CommandFlags
from engine.training.errors import DevicesFull
from engine.training.protocols import Session, Trainer, emit_once

_log = logging.getLogger(__name__)

PAUSED_WAIT_SECONDS = 0.2
"""Longest wait for commands between two agreements during a pause. It is short, so that no
collective operation reaches its timeout."""

_NEEDS_MODEL = CommandFlags.CHECKPOINT | CommandFlags.STOP | CommandFlags.RESUME


class StepBoundary:
    """One rank's part in the agreement. All ranks call each public method, in the same order."""

    def __init__(self, trainer: Trainer, session: Session, saver: CheckpointSaver) -> None:
        self._trainer = trainer
        self._session = session
        self._saver = saver
        self._is_rank_zero = session.rank == 0
        self._freed = False

    def agree(self, wanted: int, *, due: bool) -> tuple[CommandFlags, int]:
        """Return the command flags and the number of batches to do next, the same on every rank.

        Only the arguments of rank 0 count: `wanted` is the number of batches that it proposes, and
        `due` says whether a checkpoint is due by the schedule.
        """
        control_word = (0, 0)
        if self._is_rank_zero:
            flags = self._note_request(self._session.mailbox.collect())
            control_word = (int(flags | CommandFlags.CHECKPOINT if due else flags), wanted)
        agreed, count = self._trainer.agree(control_word)
        return CommandFlags(agreed), count

    def act(self, flags: CommandFlags, position: Position) -> bool:
        """Carry out `flags` at `position`. Return False for a stop; no checkpoint is saved then."""
        if not self._run_commands(flags, position):
            return False
        while CommandFlags.CHECKPOINT in flags and self._saver.failed:
            if not self.pause_for_disk(position):
                return False
            self._saver.save(position)
        return self._pause(flags, position) if CommandFlags.PAUSE in flags else True

    def pause_for_disk(self, position: Position) -> bool:
        """Pause until resumed, because a checkpoint could not be written.

        Return False for a stop, by a command or by the spec.
        """
        if self._session.spec.on_disk_full == "stop":
            return False
        return self._pause(CommandFlags.NOTHING, position)

    def _pause(self, flags: CommandFlags, position: Position) -> bool:
        """Pause until resumed. Return False when stopped instead."""
        self._free_if_requested(flags, position)
        emit_once(self._session, Paused(position.step, self._freed))
        continues = True
        while continues and CommandFlags.RESUME not in flags:
            flags = self._agree_while_paused()
            was_freed = self._freed
            if flags & _NEEDS_MODEL and not self._restore_devices():
                if CommandFlags.RESUME in flags:
                    emit_once(self._session, Paused(position.step, freed_devices=True))
                flags &= ~CommandFlags.RESUME
            continues = self._run_commands(flags, position)
            if continues and CommandFlags.RESUME not in flags:
                again = CommandFlags.FREE_DEVICES if was_freed else flags
                self._free_if_requested(again, position)
                if self._freed and not was_freed:
                    emit_once(self._session, Paused(position.step, freed_devices=True))
        if continues and not self._restore_devices():  # the command came with the one to pause
            return self._pause(CommandFlags.NOTHING, position)
        if continues:
            emit_once(self._session, Resumed(position.step))
        return continues

    def _agree_while_paused(self) -> CommandFlags:
        control_word = (0, 0)
        if self._is_rank_zero:
            flags = self._note_request(self._session.mailbox.wait(PAUSED_WAIT_SECONDS))
            control_word = (int(flags), 0)
        return CommandFlags(self._trainer.agree(control_word)[0])

    def _note_request(self, flags: CommandFlags) -> CommandFlags:
        """Return `flags`; if they ask for a checkpoint, request one of the kind `request`."""
        if CommandFlags.CHECKPOINT in flags:
            self._saver.request(["request"])
        return flags

    def _run_commands(self, flags: CommandFlags, position: Position) -> bool:
        if flags:
            _log.info("step boundary %d: %s%s", position.step, flags.name, self._log_numbers())
        if CommandFlags.EMPTY_CACHE in flags:
            for device, freed in self._trainer.empty_cache().items():
                self._session.emit(CacheEmptied(self._session.rank, device, freed))
        if CommandFlags.STOP in flags:
            return False  # the last checkpoint also answers a `SaveCheckpoint`
        if CommandFlags.CHECKPOINT in flags:
            self._saver.save(position)
        if flags:
            _log.info("step boundary %d: done%s", position.step, self._log_numbers())
        return True

    def _log_numbers(self) -> str:
        """Return the commands as a part of a log line. Only rank 0 knows them."""
        return "".join(f", command {number}" for number in self._session.mailbox.collected_numbers)

    def _free_if_requested(self, flags: CommandFlags, position: Position) -> None:
        """Free the devices, once a checkpoint is saved: there may be no room for the model later.

        If it cannot be saved, the devices stay as they are.
        """
        if CommandFlags.FREE_DEVICES not in flags or self._freed:
            return
        self._saver.request(["request"])
        if not self._saver.save(position):
            text = "The devices are not freed: what is on them could not be saved before."
            emit_once(self._session, Notice(text, self._session.rank))
            return
        self._trainer.free_devices()
        _log.info("freed the devices")
        self._freed = True

    def _restore_devices(self) -> bool:
        """Return whether model and optimizer are on the devices, the same on every rank."""
        if not self._freed:
            return True
        try:
            self._trainer.restore_devices()
        except DevicesFull as error:
            _log.info("the devices are full: %s", error)
            if str(error):
                self._session.emit(Notice(str(error), self._session.rank))
            return False
        _log.info("restored the devices")
        self._freed = False
        return True
