"""What happens between two chunks: all ranks agree on what is asked for, and do it together."""

from __future__ import annotations

from engine.messages.events import CacheEmptied, Paused, Resumed, WorkerEvent
from engine.runs.checkpoint_files import Position
from engine.training.checkpoint_saver import Saver
from engine.training.command_mailbox import CommandFlags
from engine.training.protocols import Session, Trainer

HOLD_BEAT = 0.2
"""Seconds between two looks for commands while paused; also keeps collectives from timing out."""

_NEEDS_MODEL = CommandFlags.CHECKPOINT | CommandFlags.STOP | CommandFlags.RESUME


class StepBoundary:
    """One rank's side of the agreement."""

    def __init__(self, trainer: Trainer, session: Session, saver: Saver) -> None:
        self._trainer = trainer
        self._session = session
        self._saver = saver
        self._is_rank_zero = session.rank == 0
        self._freed = False

    def agree(self, wanted: int, *, due: bool) -> tuple[CommandFlags, int]:
        """What is asked for and how many batches come next, the same on every rank.

        `wanted` batches are rank 0's proposal; `due`: a checkpoint is, whether asked for or not.
        """
        word = (0, 0)
        if self._is_rank_zero:
            ask = self._told(self._session.mailbox.take())
            word = (int(ask | CommandFlags.CHECKPOINT if due else ask), wanted)
        agreed, count = self._trainer.agree(word)
        return CommandFlags(agreed), count

    def act(self, ask: CommandFlags, position: Position) -> bool:
        """Do what is asked at `position`; False: stop, and then nothing was saved yet."""
        if not self._act_in_place(ask, position):
            return False
        while CommandFlags.CHECKPOINT in ask and self._saver.failed:
            if not self.hold_for_disk(position):
                return False
            self._saver.save(position)
        return self._hold(ask, position) if CommandFlags.PAUSE in ask else True

    def hold_for_disk(self, position: Position) -> bool:
        """A checkpoint could not be written: pause until resumed. False: stop, as the spec wants or
        as somebody says meanwhile."""
        if self._session.spec.on_disk_full == "stop":
            return False
        return self._hold(CommandFlags.NOTHING, position)

    def _hold(self, ask: CommandFlags, position: Position) -> bool:
        """Pause until resumed; False when stopped instead."""
        self._free_if_asked(ask)
        self._lead(Paused(position.step, self._freed))
        goes_on = True
        while goes_on and CommandFlags.RESUME not in ask:
            ask = self._next_while_holding()
            was_freed = self._freed
            if ask & _NEEDS_MODEL:
                self._take_back()
            goes_on = self._act_in_place(ask, position)
            if goes_on and CommandFlags.RESUME not in ask:
                self._free_if_asked(CommandFlags.FREE_DEVICES if was_freed else ask)
                if self._freed and not was_freed:
                    self._lead(Paused(position.step, freed_devices=True))
        self._take_back()
        if goes_on:
            self._lead(Resumed(position.step))
        return goes_on

    def _next_while_holding(self) -> CommandFlags:
        word = (0, 0)
        if self._is_rank_zero:
            word = (int(self._told(self._session.mailbox.wait(HOLD_BEAT))), 0)
        return CommandFlags(self._trainer.agree(word)[0])

    def _told(self, ask: CommandFlags) -> CommandFlags:
        """Remember why a checkpoint is saved."""
        if CommandFlags.CHECKPOINT in ask:
            self._saver.want(["request"])
        return ask

    def _act_in_place(self, ask: CommandFlags, position: Position) -> bool:
        if CommandFlags.EMPTY_CACHE in ask:
            for device, freed in self._trainer.empty_cache().items():
                self._session.emit(CacheEmptied(self._session.rank, device, freed))
        if CommandFlags.STOP in ask:
            return False  # a checkpoint that was asked for is the last one, too
        if CommandFlags.CHECKPOINT in ask:
            self._saver.save(position)
        return True

    def _free_if_asked(self, ask: CommandFlags) -> None:
        if CommandFlags.FREE_DEVICES in ask and not self._freed:
            self._trainer.free_devices()
            self._freed = True

    def _take_back(self) -> None:
        if self._freed:
            self._trainer.restore_devices()
            self._freed = False

    def _lead(self, event: WorkerEvent) -> None:
        """Say something that all ranks know, once."""
        if self._is_rank_zero:
            self._session.emit(event)
