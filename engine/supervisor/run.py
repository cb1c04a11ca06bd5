"""One run's supervisor: it owns the workers and the store, and outlives every window.

It appends what the workers say to the store before anything else, passes commands to rank 0, and
sees to it that the run ends with exactly one terminal event and no process left.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import assert_never

from engine import catalog, checkpoint
from engine.channel import CLOSED, Channel, CommandAccepted, Message, Server
from engine.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.events import (
    CommandReceived,
    CommandRefused,
    Event,
    Failure,
    Notice,
    Rewound,
    RunEnded,
    StopStage,
    TrainingEnded,
    WorkerFailed,
    WorkerReady,
    WorkerStarted,
)
from engine.heartbeat import Heartbeat
from engine.run_state import RunState
from engine.spec import RunSpec
from engine.store import RunStore
from engine.supervisor.deadlines import START_SECONDS, Deadlines
from engine.supervisor.device_watch import DeviceWatch, loss_failure
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
from engine.supervisor.ladder import StopLadder
from engine.supervisor.launcher import Pool
from engine.supervisor.postmortem import find_failure
from engine.supervisor.refusal import refusal
from engine.telemetry.stream import TelemetryStream
from engine.worker import environment

COMMIT_SECONDS = 0.1


class Supervisor:
    """The main loop of one attempt. All state is touched by the main thread only."""

    def __init__(
        self,
        folder: Path,
        spec: RunSpec,
        store: RunStore,
        inbox: Inbox,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._store = store
        self._inbox = inbox
        self._recipe = catalog.recipe(spec.recipe)
        self._strategy = catalog.strategy(spec.strategy, self._recipe)
        self._plans = self._strategy.pool(spec.slots)
        self._pool = Pool(folder, lambda rank, code: inbox.put(WorkerExited(rank, code)))
        self._ladder = StopLadder(self._climb)
        self._workers: dict[int, Channel] = {}
        ranks = [plan.rank for plan in self._plans]
        self._deadlines = Deadlines(ranks, start_seconds, self._strategy.longest_silence)
        self._accounts: dict[int, WorkerFailed] = {}
        self._exits: dict[int, int] = {}
        self._bad_exits: dict[int, int] = {}
        self._ended: TrainingEnded | None = None
        self._watch = DeviceWatch(spec.devices)
        self._heartbeat = Heartbeat(folder)
        self._start_problem = ""

    def run(self, resume_from: str = "") -> RunEnded:
        """Train to the end, whatever that is; the terminal event, already recorded.

        `resume_from` names a checkpoint of this run to go on from.
        """
        server = Server(self._folder, self._inbox.connected)
        telemetry = TelemetryStream(lambda snapshot: self._inbox.put(DeviceNews(snapshot)))
        try:
            self._start_pool(resume_from)
            while not self._is_over():
                self._turn()
        finally:
            self._pool.end(kill=True)
            for used in self._folder.glob("attempt-*.rendezvous*"):
                used.unlink(missing_ok=True)
            telemetry.close()
            server.close()
            self._heartbeat.end()
        ended = self._verdict()
        self._record(ended)
        self._store.commit()
        return ended

    def _start_pool(self, resume_from: str) -> None:
        rendezvous = self._folder / f"attempt-{self._store.status.attempt}.rendezvous"
        rendezvous.unlink(missing_ok=True)  # a file that was used once leads to dead addresses
        extra = {environment.RENDEZVOUS: str(rendezvous), environment.RESUME: resume_from}
        try:
            checkpoint.remove_unfinished(self._folder)
            if resume_from:
                self._rewind(self._folder / checkpoint.FOLDER / resume_from)
            self._pool.start(self._spec, self._recipe, self._plans, extra)
        except (OSError, checkpoint.CheckpointDamaged) as error:
            self._start_problem = str(error)
            return
        for plan, process in zip(self._plans, self._pool.processes, strict=True):
            self._record(WorkerStarted(plan.rank, process.pid, plan.devices))

    def _rewind(self, folder: Path) -> None:
        # Whoever asked for it has compared its checksums: see `engine.client.resume`.
        position = checkpoint.read_manifest(folder).position
        step = position.step
        checkpoint.set_aside_after(self._folder, step, self._store.status.attempt)
        self._store.rewind(step, validates_again=position.batch > 0)
        self._record(Rewound(step, folder.name))

    def _turn(self) -> None:
        """Take everything that happened until the next commit is due."""
        self._heartbeat.beat()
        due = time.monotonic() + COMMIT_SECONDS
        while (left := due - time.monotonic()) > 0:
            news = self._inbox.next(left)
            if news is not None:
                self._take(news)
        self._store.commit()
        self._ladder.tick()
        self._check_deadlines()

    def _take(self, news: News) -> None:
        match news:
            case Connected(hello, channel):
                if 0 <= hello.rank < len(self._plans):
                    self._workers[hello.rank] = channel
            case Received(rank, channel, message):
                if rank >= 0:
                    self._deadlines.heard(rank)
                    self._take_event(message)
                else:
                    self._take_request(channel, message)
            case Left(rank):
                self._workers.pop(rank, None)
                self._deadlines.gone(rank)
            case WorkerExited(rank, code):
                self._take_exit(rank, code)
            case DeviceNews(snapshot):
                for event in self._watch.take(snapshot, self._store.status, time.monotonic()):
                    self._record(event)
            case Interrupted(signal):
                self._record(Notice(f"The supervisor got {signal}: the run is stopped."))
                self._stop(Stop())
            case _:
                assert_never(news)

    def _take_event(self, message: Message) -> None:
        if isinstance(message, WorkerFailed):
            self._accounts[message.rank] = message
            self._deadlines.mourn()
        elif isinstance(message, WorkerReady):
            self._deadlines.ready(message.rank)
        elif isinstance(message, TrainingEnded):
            self._ended = message
            self._deadlines.leave()
        if isinstance(message, Event):
            self._record(message)

    def _take_exit(self, rank: int, code: int) -> None:
        self._exits[rank] = code
        if code != 0 and not self._ladder.used_force:
            self._bad_exits[rank] = code
            self._deadlines.mourn()
        if len(self._exits) == len(self._plans):
            self._deadlines.drain()

    def _take_request(self, channel: Channel, message: Message) -> None:
        if not isinstance(message, Command):
            return
        name = type(message).__name__
        reason = refusal(
            message,
            self._store.status,
            self._spec,
            self._strategy,
            listens=0 in self._workers,
            ended=self._ended is not None,
        )
        answer: Message
        if reason:
            answer = CommandRefused(name, reason)
            self._record(answer)
        else:
            self._record(CommandReceived(name))
            answer = CommandAccepted(self._store.last_seq())
            self._carry_out(message)
        self._store.commit()
        try:
            channel.send(answer)
        except CLOSED:
            return  # it asked and left; the command stands all the same

    def _carry_out(self, command: Command) -> None:
        match command:
            case Stop():
                self._stop(command)
            case SaveCheckpoint() | EmptyCache() | Pause() | Resume():
                self._send_to_rank_0(command)
            case _:
                assert_never(command)

    def _stop(self, command: Stop) -> None:
        trains = self._store.status.state in (RunState.RUNNING, RunState.PAUSED)
        if command.now or (not trains and not self._ladder.is_climbing):
            self._ladder.climb_to("terminate")
        else:
            self._ladder.climb_to("ask", self._store.status.step_seconds)

    def _climb(self, rung: str) -> None:
        self._record(StopStage(rung))
        if rung == "ask":
            self._send_to_rank_0(Stop())
        else:
            self._pool.end(kill=rung == "kill")

    def _send_to_rank_0(self, command: Command) -> None:
        try:
            self._workers[0].send(command)
        except (*CLOSED, KeyError):
            return  # its end is on the way to the inbox

    def _check_deadlines(self) -> None:
        # A framework may wait for a peer for ever, deaf to every signal but SIGKILL.
        if late := ", ".join(self._plans[rank].who for rank in self._deadlines.late()):
            self._start_problem = (
                f"{late} did not start within {self._deadlines.start_seconds:.0f} s: "
                f"the logs in {self._folder / 'logs'} say more."
            )
        silent = self._deadlines.silent()
        if silent is not None and silent not in self._accounts:
            seconds = self._deadlines.longest_silence
            text = f"it has not answered for {seconds:.0f} s; it hangs, or was halted."
            self._take_event(WorkerFailed(silent, text, where="", traceback="", lost_peer=False))

    def _is_over(self) -> bool:
        if self._start_problem or self._watch.fatal_loss(self._store.status, time.monotonic()):
            return True
        if len(self._exits) == len(self._plans) and not self._workers:
            return True
        return self._deadlines.over

    def _verdict(self) -> RunEnded:
        """The terminal event. What a person asked for comes before what broke on the way."""
        if self._start_problem:
            failure = Failure(-1, "", 0, "", self._start_problem, "", "")
            return RunEnded("failed", self._start_problem, failure)
        if self._ended and not self._bad_exits:
            step = self._ended.step
            if self._ended.completed:
                return RunEnded("finished", f"All {self._spec.epochs} epochs are done.")
            return RunEnded("stopped", f"Stopped after step {step}, with a checkpoint saved.")
        if self._ladder.is_climbing and not self._accounts and not self._bad_exits:
            if self._store.status.total_steps == 0:
                return RunEnded("stopped", "Stopped before the training began.")
            return RunEnded("stopped", "Stopped at once, without saving.")
        logs = {plan.rank: self._pool.log(plan.rank) for plan in self._plans}
        if lost := self._watch.suspect():
            failure = loss_failure(lost, self._store.status, self._plans, logs)
        else:
            failure = find_failure(self._bad_exits, self._accounts, self._plans, logs)
        return RunEnded("failed", failure.message, failure)

    def _record(self, event: Event) -> None:
        self._watch.follow(event, time.monotonic())
        self._store.append(event, time.time())
