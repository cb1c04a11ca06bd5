"""Workers that follow a script, and a clock that moves when nothing else is left to do."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from engine.diagnosis.deadlines import AwakeClock
from engine.diagnosis.hang_watch import HangWatch
from engine.messages.channel import Alive, Channel, Hello, Message
from engine.messages.commands import Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    CheckpointSaved,
    Paused,
    Points,
    Progress,
    Resumed,
    TrainingEnded,
    TrainingStarted,
    WorkerFailed,
    WorkerReady,
)
from engine.messages.events import Metrics as Batch
from engine.processes.process import ORPHANED
from engine.runs.checkpoints import checkpoint_files
from engine.supervisor.inbox import (
    Connected,
    Disconnected,
    Inbox,
    InboxItem,
    LaunchEnded,
    MessageReceived,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.worker_pool import RunPlan
from engine.system import paths
from engine.worker import environment
from tests.support.recorded_runs import BEGIN, save_checkpoint

STEP_SECONDS = 0.1
BEAT_SECONDS = 1.0
"""Time between two signs of life of a worker."""

NO_PROCESS = 10_000_000
"""The first of the pids of scripted workers: no system gives one so large."""

LONGEST_RUN = 3600.0
"""Scripted seconds after which a run has missed its end."""

Act = Callable[["Worker"], object]
"""What a worker does in a step."""

Scripts = dict[tuple[int, int, int], list[Act]]
"""By attempt, rank and step."""


class ScriptedTime:
    """Stands in for the module `time` of the supervisor's modules."""

    def __init__(self) -> None:
        self._begin = self._now = 1000.0
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return BEGIN + self._now

    def sleep(self, seconds: float) -> None:
        until = self._now + seconds
        while self.move(until):
            pass

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Call `do` once `seconds` have passed."""
        heapq.heappush(self._due, (self._now + seconds, next(self._order), do))

    def move(self, until: float) -> bool:
        """Move to what is due next and do it; else move to `until`, and return False."""
        if self._now > self._begin + LONGEST_RUN:
            pytest.fail("the run misses its end")
        if self._due and self._due[0][0] <= until:
            when, _, do = heapq.heappop(self._due)
            self._now = max(self._now, when)
            do()
            return True
        self._now = max(self._now, until)
        return False

    def stands_in(self, patch: pytest.MonkeyPatch, *modules: object) -> None:
        """Give this clock to `modules`, and to what counts the time of a run by default."""
        for module in modules:
            patch.setattr(module, "time", self)
        for function in (AwakeClock.__init__, HangWatch.__init__):
            _, *others = function.__defaults__ or ()
            patch.setattr(function, "__defaults__", (self.monotonic, *others))


class ScriptedInbox(Inbox):
    """Lets the time pass while it is empty, instead of waiting."""

    def __init__(self, clock: ScriptedTime) -> None:
        super().__init__()
        self._clock = clock

    def next(self, seconds: float) -> InboxItem | None:
        until = self._clock.monotonic() + seconds
        while (item := super().next(0.0)) is None and self._clock.move(until):
            pass
        return item


class Line:
    """Stands in for the connection to a worker, a window or a command line."""

    def __init__(self, receive: Callable[[Message], object]) -> None:
        self._receive = receive
        self.is_open = True

    def send(self, message: Message) -> None:
        if not self.is_open:
            raise OSError("the connection is closed")
        self._receive(message)

    def close(self) -> None:
        self.is_open = False


class Worker:
    """The process of one rank, which does its step unless its script says something else."""

    def __init__(self, pool: ScriptedPool, rank: int) -> None:
        self.pool = pool
        self.rank = rank
        self.is_alive = True
        self.hangs = False
        """It sends signs of life, and does nothing else."""

        self.is_silent = False
        self._line = Line(self._receive)
        self._has_connected = False

    @property
    def channel(self) -> Channel:
        return cast(Channel, self._line)

    def connect(self) -> None:
        self._has_connected = True
        self.pool.inbox.put(Connected(Hello(self.rank), self.channel))
        self.say(WorkerReady(self.rank, self.pool.plan.workers[self.rank].devices, {}))
        self._beat()

    def say(self, *messages: Message) -> None:
        """Send `messages`, if they still reach the supervisor."""
        for message in messages if self._line.is_open and not self.is_silent else ():
            self.pool.inbox.put(MessageReceived(self.rank, self.channel, message))

    def exit(self, code: int) -> None:
        if self.is_alive:
            self.is_alive = False
            self.pool.inbox.put(WorkerExited(self.rank, code))
            self.disconnect()

    def disconnect(self) -> None:
        if self._has_connected and self._line.is_open:
            self.pool.inbox.put(Disconnected(self.rank))
        self._line.close()

    @property
    def is_cut_off(self) -> bool:
        return not self._line.is_open

    def _beat(self) -> None:
        if self.is_alive:
            self.say(Alive("training", self.pool.step))
            self.pool.clock.after(BEAT_SECONDS, self._beat)

    def _receive(self, message: Message) -> None:
        if not self.is_alive:
            return
        if isinstance(message, Stop) and message.now:
            if "terminate" not in self.pool.ignores:
                self.exit(1)
        elif self.rank == 0 and not (isinstance(message, Stop) and "ask" in self.pool.ignores):
            self.pool.commands.append(message)


class ScriptedPool:
    """The workers of one attempt. They step together, as long as all of them can."""

    def __init__(
        self, plan: RunPlan, inbox: Inbox, clock: ScriptedTime, scripts: Scripts, steps: int
    ) -> None:
        self.plan, self.inbox, self.clock = plan, inbox, clock
        self._scripts, self._steps = scripts, steps
        self.environment: dict[str, str] = {}
        self.workers: list[Worker] = []
        self.commands: list[Message] = []
        """What rank 0 has got and not done."""

        self.ignores: frozenset[str] = frozenset()
        """Stages of a stop that do not reach the workers."""

        self.starts: Callable[[ScriptedPool], bool] = lambda _: True
        """Whether the launch goes on; otherwise it has reported what happened."""

        self.step = 0
        self.save_seconds = 0.0
        """How long a save takes before its files are there; meanwhile a rank says how far it is."""

        self.save_gets_on = True
        self.can_be_killed = True
        self.ends: list[str] = []
        """How the processes were ended: by `terminate`, `kill`."""

        self._is_paused = self._is_leaving = False

    def start(self, extra_environment: dict[str, str]) -> None:
        self.environment = extra_environment
        if resumed := extra_environment[environment.RESUME]:
            self.step = int(resumed.removeprefix("step-"))
        if self.starts(self):
            for plan in self.plan.workers:
                self.workers.append(Worker(self, plan.rank))
                self.inbox.put(WorkerLaunched(plan.rank, NO_PROCESS + plan.rank))
        self.inbox.put(LaunchEnded())
        self.clock.after(STEP_SECONDS, self._begin)

    def go_on(self) -> None:
        """Train again after a hang."""
        for worker in self.workers:
            worker.hangs = worker.is_silent = False
        self._do_step()

    @property
    def size(self) -> int:
        return len(self.workers)

    @property
    def attempt(self) -> int:
        return int(self.environment[environment.ATTEMPT])

    def log_file(self, rank: int) -> Path:
        return paths.log_file(self.plan.folder, rank)

    def end(self, *, kill: bool) -> None:
        self.ends.append("kill" if kill else "terminate")
        if kill and self.can_be_killed:  # workers ignore other signals
            for worker in self.workers:
                worker.exit(-9)

    def close(self) -> None: ...

    def ask_stacks(self, rank: int) -> None: ...

    def _begin(self) -> None:
        for worker in self.workers:
            if worker.is_alive:
                self._act(worker)
        for worker in self.workers:
            if worker.is_alive and not worker.hangs:
                worker.connect()
        if self._all_work and self.workers:
            spec = self.plan.spec
            self.workers[0].say(
                TrainingStarted(self.step, 10, spec.epochs, len(self.workers), 650, self._steps)
            )
            self.clock.after(STEP_SECONDS, self._do_step)

    def _act(self, worker: Worker) -> None:
        for act in self._scripts.pop((self.attempt, worker.rank, self.step), ()):
            act(worker)

    @property
    def _all_work(self) -> bool:
        return all(worker.is_alive and not worker.hangs for worker in self.workers)

    def _do_step(self) -> None:
        if not self._all_work or self._is_leaving:
            return
        self.clock.after(STEP_SECONDS, self._do_step)
        if self.workers[0].is_cut_off:  # as of a supervisor that was killed
            self._save_and_leave()
            return
        while self.commands:
            self._obey(self.commands.pop(0))
        if self._is_paused or self._is_leaving:
            return
        self.step += 1
        for worker in self.workers:
            self._act(worker)
        if not self._all_work:
            self.step -= 1
            return
        now, rank_0 = self.clock.time(), self.workers[0]
        rank_0.say(Batch(now, now, [Points("train/loss", [self.step], [1 / self.step])]))
        rank_0.say(Progress(1, self.step, 100.0, STEP_SECONDS, 1.0))
        every = self.plan.spec.checkpoint_steps
        if every and self.step % every == 0:
            self._save()
        if self.step == self._steps:
            self._leave(completed=True)

    def _obey(self, command: Message) -> None:
        rank_0 = self.workers[0]
        match command:
            case Stop():
                self._save_and_leave()
            case Pause(free_devices=free):
                self._is_paused = True
                rank_0.say(Paused(self.step, freed_devices=free))
            case Resume():
                self._is_paused = False
                rank_0.say(Resumed(self.step))
            case SaveCheckpoint():
                self._save()

    def _save(self) -> None:
        saved = save_checkpoint(self.plan.folder, self.step, 10)
        manifest = saved.manifest
        self.workers[0].say(CheckpointSaved(str(saved.folder), self.step, 0, manifest.bytes, 0.1))

    def _save_and_leave(self, waited: float = 0.0) -> None:
        self._is_leaving = True
        if not self._all_work:
            return
        if waited < self.save_seconds:
            if self.save_gets_on:
                self.workers[0].say(Alive("checkpoint", 1 + int(waited)))
            self.clock.after(1.0, lambda: self._save_and_leave(waited + 1.0))
            return
        if self.step not in checkpoint_files.folders(self.plan.folder):
            self._save()
        self._leave(completed=False)

    def _leave(self, *, completed: bool) -> None:
        self._is_leaving = True
        self.workers[0].say(TrainingEnded(self.step, completed=completed))
        for worker in self.workers:
            worker.exit(ORPHANED if worker.is_cut_off else 0)


def dies(code: int) -> Act:
    """The process ends with `code` and without a word."""
    return lambda worker: worker.exit(code)


def raises(message: str, *, code: int = 1, lost_peer: bool = False, leaves: bool = True) -> Act:
    """The worker reports an exception, and ends unless it hangs in its exit handlers."""

    def act(worker: Worker) -> None:
        worker.say(WorkerFailed(worker.rank, message, "", "", lost_peer, exit_code=code))
        worker.hangs = True
        if leaves:
            worker.exit(code)

    return act


def says(*messages: Message) -> Act:
    """The worker sends `messages`, valid or not."""
    return lambda worker: worker.say(*messages)


def hangs(worker: Worker) -> None:
    """The worker does no step any more, and sends signs of life."""
    worker.hangs = True


def falls_silent(worker: Worker) -> None:
    """The worker is halted: it does nothing at all."""
    worker.hangs = worker.is_silent = True


def loses_channel(worker: Worker) -> None:
    """The recipe closes the connection of its process."""
    worker.disconnect()
