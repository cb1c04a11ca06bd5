"""One run's supervisor: it owns the workers and the store, and outlives every window.

It appends what the workers say to the store before anything else, passes commands to rank 0, and
sees to it that the run ends with exactly one terminal event and no process left.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import assert_never

import msgspec

from engine.diagnosis.deadlines import START_SECONDS, AwakeClock
from engine.diagnosis.device_watch import DeviceWatch
from engine.messages.channel import CLOSED, Channel, CommandAccepted, Flush, Flushed, Message
from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    AttemptStarted,
    CommandReceived,
    CommandRefused,
    Event,
    Notice,
    Restarting,
    RunEnded,
    Trouble,
)
from engine.messages.heartbeat import Heartbeat
from engine.runs.run_state import RunState
from engine.spec import catalog, spec_file
from engine.spec.run_spec import RunSpec
from engine.supervisor.attempt import Attempt, Work
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.command_policy import refusal
from engine.supervisor.inbox import (
    Connected,
    DeviceNews,
    Inbox,
    Interrupted,
    Left,
    News,
    Received,
    WorkerExited,
)
from engine.supervisor.message_validation import is_valid
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.restart_policy import Restarts, Search
from engine.system import process
from engine.system.keep_awake import Wakefulness
from engine.telemetry.stream import TelemetryStream

_log = logging.getLogger(__name__)

COMMIT_SECONDS = 0.1

GONE_SECONDS = 5.0
"""Time for the processes of a pool that was killed to be gone."""


class Supervisor:
    """The main loop. All state is touched by the main thread only."""

    def __init__(
        self,
        folder: Path,
        spec: RunSpec,
        buffer: BufferedStore,
        inbox: Inbox,
        admission: QueueAdmission,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._buffer = buffer
        self._inbox = inbox
        self._admission = admission
        self._wakefulness = Wakefulness(f"run {folder.name} trains")
        recipe = catalog.recipe(spec.recipe)
        self._strategy = catalog.strategy(spec.strategy, recipe)
        plans = self._strategy.pool(spec.slots)
        self._work = Work(folder, spec, recipe, self._strategy, plans, start_seconds)
        self._watch = DeviceWatch(spec.devices)
        self._restarts = Restarts(spec.max_restarts)
        self._disk_is_told = self._disk_is_heeded = False
        self._heartbeat = Heartbeat(folder)
        self._attempt = self._new_attempt()

    def run(self, resume_from: str = "") -> RunEnded:
        """Train to the end, whatever that is; the terminal event, already recorded.

        `resume_from` names a checkpoint of this run to go on from.
        """
        telemetry = TelemetryStream(lambda snapshot: self._inbox.put(DeviceNews(snapshot)))
        try:
            self._attempt.start(resume_from)
            ended = self._see_through()
            while ended.failure and self._may_restart(ended):
                self._record(Restarting(ended.failure, self._restarts.done, self._restarts.most))
                self._begin_again()
                ended = self._see_through()
        finally:
            self._attempt.kill()
            telemetry.close()
            self._wakefulness.keep(False)
            self._heartbeat.end()
        if more := self._restarts.refusal or self._take_settings_back(ended):
            ended = RunEnded(ended.state, f"{ended.reason} {more}", ended.failure)
        self._record(ended)
        self._buffer.close()
        return ended

    def _take_settings_back(self, ended: RunEnded) -> str:
        """Where settings were changed with which not one step was done, undo that; else whoever
        resumes the run would fail again. What is to be said of it, or empty."""
        if ended.failure is None or self._attempt.has_stepped or self._restarts.done:
            return ""
        with contextlib.suppress(OSError):  # what cannot be written now can be changed later
            if spec_file.take_back(self._folder, self._buffer.status.attempt):
                return "Its settings are those of before again."
        return ""

    def _see_through(self) -> RunEnded:
        """Follow the attempt to its end, and end what is left of it; how it ended."""
        while not self._attempt.is_over:
            self._turn()
        ended = self._attempt.verdict()
        self._attempt.kill()
        clock = AwakeClock()
        while not self._attempt.is_gone and clock() < GONE_SECONDS:
            self._listen()
        return ended

    def _may_restart(self, ended: RunEnded) -> bool:
        attempt = self._attempt
        if attempt.is_stopped or self._watch.suspect() or self._buffer.is_gone():
            return False
        if not attempt.has_stepped and not self._restarts.done:
            return False  # it would not start the next time either
        # A process that cannot be killed may still hold its device.
        if ended.failure is None or not attempt.is_gone:
            return False
        return self._restarts.grant(attempt.setback(ended.failure))

    def _begin_again(self) -> None:
        """Start the next attempt from the newest intact checkpoint, unless stopped before."""
        pid = os.getpid()
        number = self._buffer.status.attempt + 1
        self._record(AttemptStarted(number, pid, process.created(pid)))
        self._attempt = self._new_attempt()
        search = Search(self._folder)
        while search.is_alive() and not self._attempt.is_stopped:
            self._listen()
        if not self._attempt.is_stopped:
            self._attempt = self._new_attempt()  # its time to start begins now
            self._attempt.start(search.found, anew=True)

    def _new_attempt(self) -> Attempt:
        return Attempt(self._work, self._buffer, self._watch, self._inbox, self._record)

    def _turn(self) -> None:
        """Take what happened, and look after everything that takes its time."""
        self._listen()
        self._attempt.tick()
        self._check_disk()
        status = self._buffer.status
        self._admission.follow(status)
        paused = status.state is RunState.PAUSED
        self._wakefulness.keep(self._spec.keep_awake and not paused)

    def _listen(self) -> None:
        """Take everything that happens until the next commit is due."""
        self._heartbeat.beat()
        due = time.monotonic() + COMMIT_SECONDS
        while (left := due - time.monotonic()) > 0:
            news = self._inbox.next(left)
            if news is not None:
                self._take(news)
        self._buffer.commit()

    def _take(self, news: News) -> None:
        attempt = self._attempt
        match news:
            case Connected(hello, channel):
                attempt.connected(hello.rank, channel)
            case Received(rank, channel, message):
                if rank < 0:
                    self._take_request(channel, message)
                elif is_valid(message, rank, len(self._work.plans)):
                    attempt.heard(rank, message)
                    self._take_word(channel, message)
            case Left(rank):
                attempt.left(rank)
            case WorkerExited(rank, code):
                attempt.exited(rank, code)
            case DeviceNews(snapshot):
                for event in self._watch.take(snapshot, self._buffer.status):
                    self._record(event)
            case Interrupted(signal):
                self._record(Notice(f"The supervisor got {signal}: the run is stopped."))
                attempt.stop(Stop())
            case _:
                assert_never(news)

    def _take_word(self, channel: Channel, message: Message) -> None:
        """Take what a worker says."""
        if not isinstance(message, Flush):
            self._attempt.take(message)
            return
        self._buffer.commit()
        if not self._buffer.why_short:
            with contextlib.suppress(*CLOSED):  # its end is on the way to the inbox
                channel.send(Flushed(message.number))

    def _take_request(self, channel: Channel, message: Message) -> None:
        if not isinstance(message, Command):
            return
        name = type(message).__name__
        answer: Message
        if reason := self._refusal(message):
            answer = CommandRefused(name, reason)
            _log.info("refuses %s: %s", message, reason)
            self._record(answer)
        else:
            self._record(CommandReceived(name))
            answer = CommandAccepted(self._buffer.last_seq())
            _log.info("command %d: accepts %s", answer.seq, message)
            self._carry_out(msgspec.structs.replace(message, number=answer.seq))
        self._buffer.commit()
        try:
            channel.send(answer)
        except CLOSED:
            return  # it asked and left; the command stands all the same

    def _refusal(self, command: Command) -> str:
        reason = refusal(
            command,
            self._buffer.status,
            self._spec,
            self._strategy,
            listens=self._attempt.listens,
            ended=self._attempt.ended is not None,
        )
        if reason or not isinstance(command, Resume):
            return reason
        if self._buffer.why_short:
            return (
                f"The run folder {self._folder} cannot be written yet "
                f"({self._buffer.why_short}): make room, then resume."
            )
        return self._admission.reacquire()

    def _carry_out(self, command: Command) -> None:
        match command:
            case Stop():
                self._attempt.stop(command)
            case SaveCheckpoint() | EmptyCache() | Pause() | Resume():
                self._attempt.send(0, command)
            case _:
                assert_never(command)

    def _check_disk(self) -> None:
        if self._buffer.is_gone():
            self._attempt.fail(
                f"The run folder {self._folder} was deleted or moved: nothing more can be kept of "
                "the run, so it was ended."
            )
        why = self._buffer.why_short
        if bool(why) != self._disk_is_told:
            self._disk_is_told = bool(why)
            self._record(Trouble("disk", self._disk_text(why), raised=bool(why)))
        if not why:
            self._disk_is_heeded = False
        elif not self._disk_is_heeded and self._buffer.status.state is RunState.RUNNING:
            self._disk_is_heeded = True
            if self._spec.on_disk_full == "pause":
                self._attempt.send(0, Pause())
            else:
                self._attempt.why_stopped = f"The run folder could not be written: {why}. "
                self._attempt.stop(Stop())

    def _disk_text(self, why: str) -> str:
        if why:
            then = "is paused: make room, then resume it"
            if self._spec.on_disk_full == "stop":
                then = "is stopped"
            return (
                f"The run folder {self._folder} cannot be written: {why}. The training {then}. "
                "What is new meanwhile is kept in memory."
            )
        dropped = self._buffer.take_dropped()
        lost = f"{dropped} points did not fit into memory" if dropped else "nothing was lost"
        return f"The run folder {self._folder} can be written again: {lost}."

    def _record(self, event: Event) -> None:
        self._watch.follow(event)
        self._buffer.append(event, time.time())
