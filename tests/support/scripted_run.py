"""A run in the test's process: the real supervisor and store, with scripted workers and time."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from engine.diagnosis import hang_watch
from engine.messages import heartbeat
from engine.messages.channel import Channel, Message
from engine.messages.commands import Command
from engine.messages.events import Event, Restarting, RunEnded
from engine.processes import children
from engine.repair.kept_files import keep_files
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunStatus
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.supervisor import attempt, buffered_store, inbox, queue_admission, supervisor
from engine.supervisor.buffered_store import BufferedStore
from engine.supervisor.inbox import Inbox, MessageReceived
from engine.supervisor.queue_admission import QueueAdmission
from engine.supervisor.restart_policy import CheckpointSearch
from engine.supervisor.supervisor import Supervisor
from engine.supervisor.worker_pool import RunPlan
from engine.system import paths
from tests.support.recorded_runs import new_run_folder, this_process_supervises
from tests.support.runs import spec
from tests.support.scripted_pool import (
    NO_PROCESS,
    Act,
    Line,
    ScriptedInbox,
    ScriptedPool,
    ScriptedTime,
    Scripts,
)

FULL = ("database or disk is full", sqlite3.SQLITE_FULL)
READ_ONLY = ("attempt to write a readonly database", sqlite3.SQLITE_READONLY)
LOCKED = ("database is locked", sqlite3.SQLITE_BUSY)
"""How SQLite refuses a commit."""


class RefusingStore(RunStore):
    """A store whose disk refuses what it commits, as long as `refusal` is given."""

    refusal: tuple[str, int] | None = None

    def commit(self) -> None:
        if self.refusal and self._connection.in_transaction:
            error = sqlite3.OperationalError(self.refusal[0])
            error.sqlite_errorcode = self.refusal[1]
            raise error
        super().commit()


class Nothing:
    """Stands in for the helper processes and threads of a supervisor."""

    def __init__(self, *_: object, **__: object) -> None:
        self.calls: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **_: self.calls.append((name, arguments))


class ScriptedRun:
    """Train with `train`; what the workers do besides their steps was given to `script` before."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        strategy: str = "torch/single",
        devices: int | tuple[str, ...] = 1,
        *,
        recipe: str = "probe_torch",
        folder: Path | None = None,
        **changes: Any,
    ) -> None:
        """`folder`: of a run that is over, whose next attempt this is."""
        self._patch = patch
        self.clock = ScriptedTime()
        self.clock.stands_in(
            patch, attempt, buffered_store, heartbeat, inbox, queue_admission, supervisor
        )
        for helper in ("TelemetryStream", "GuardianProcess", "SleepInhibitor", "FactsRecorder"):
            patch.setattr(supervisor, helper, Nothing)
        patch.setattr(children, "end_adopted", lambda: None)
        patch.setattr(Supervisor, "_measure_memory", lambda _: None)
        patch.setattr(attempt, "_pool", self._new_pool)
        patch.setattr(supervisor, "CheckpointSearch", self._search)
        patch.setattr(hang_watch, "ask_for_stacks", self._write_stacks)
        self.spec = spec(recipe, strategy, devices, **({"steps": 30} | changes))
        self.folder = folder or new_run_folder(self.spec)
        self.pools: list[ScriptedPool] = []
        """Of the attempts that were started or prepared."""

        self.stacks: dict[int, str] = {}
        """What each rank writes when it is asked."""

        self.answers: list[Message] = []
        """To the commands."""

        self.store = RefusingStore(self.folder)
        number = self.store.status.attempt + 1
        self.store.append(this_process_supervises(number), self.clock.time())
        self.inbox = ScriptedInbox(self.clock)
        self.buffer = BufferedStore(self.folder, self.store)
        self.admission = QueueAdmission(self.folder, self.spec)
        self.supervisor: Supervisor | None = None
        self.machines: Any = None
        self.search_seconds = 0.0
        """How long a restart looks for its checkpoint."""

        self._scripts: Scripts = {}
        self._pool_changes: dict[str, Any] = {}

    def script(self, step: int, act: Act, *, rank: int = 0, attempt: int = 1) -> None:
        """Let `rank` do `act` in the place of its step, or before its first word with step 0."""
        self._scripts.setdefault((attempt, rank, step), []).append(act)

    def pools_have(self, **attributes: Any) -> None:
        """Set attributes of each pool."""
        self._pool_changes |= attributes

    def command(self, command: Command) -> None:
        """Send a command, as a window does."""
        window = cast(Channel, Line(self.answers.append))
        self.inbox.put(MessageReceived(-1, window, command))

    def commands(self, step: int, *commands: Command, attempt: int = 1) -> None:
        """Send `commands` in a step."""
        for each in commands:
            self.script(step, lambda _, each=each: self.command(each), attempt=attempt)  # type: ignore[misc]

    def hear(self, rank: int, message: Message) -> None:
        """Let `rank`, which need not exist, say something."""
        self.inbox.put(MessageReceived(rank, cast(Channel, Line(print)), message))

    def refuse(self, refusal: tuple[str, int] | None) -> None:
        """Let the disk refuse, or accept again, what the store commits."""
        self.store.refusal = refusal

    def disk(self, step: int, refusal: tuple[str, int], seconds: float = math.inf) -> None:
        """Let the disk refuse from a step on, for `seconds`."""
        self.script(step, lambda _: self.refuse(refusal))
        self.script(step, lambda _: self.clock.after(seconds, lambda: self.refuse(None)))

    def keep_files(self) -> None:
        """Keep the copies of spec and recipe in the store, as the program of a supervisor does."""
        keep_files(self.store, self.folder)

    def train(self, resume_from: str = "") -> RunEnded:
        """Queue and train, until the run ends."""
        self.admission.enter_queue()
        ended = self.admission.wait_for_turn(self.buffer, self.inbox)
        if ended is None:
            self.supervisor = Supervisor(
                self.folder, self.spec, self.buffer, self.inbox, self.admission
            )
            ended = self.supervisor.run(resume_from)
        self.admission.leave()
        return ended

    def again(self) -> ScriptedRun:
        """The run once it is over, as a resume begins it."""
        self.close()
        spec = msgspec.structs.asdict(self.spec)
        return ScriptedRun(self._patch, folder=self.folder, **spec)

    def close(self) -> None:
        self.store.refusal = None
        self.store.close()

    @property
    def status(self) -> RunStatus:
        return self.buffer.status

    def events(self, *kinds: type[Event]) -> list[Any]:
        """The stored events of these kinds."""
        with RunReader(self.folder) as reader:
            return [each.event for each in reader.events_after(0) if isinstance(each.event, kinds)]

    def happened(self) -> list[tuple[float, Event]]:
        """All stored events, each with its time."""
        with RunReader(self.folder) as reader:
            return [(each.time, each.event) for each in reader.events_after(0)]

    def restarts(self) -> list[Restarting]:
        """The automatic restarts."""
        return self.events(Restarting)

    def saved_steps(self) -> list[int]:
        """The steps of the checkpoints, ascending."""
        return list(checkpoint_files.folders(self.folder))

    def steps(self) -> list[int]:
        """The steps of the stored curve of the loss."""
        with RunReader(self.folder) as reader:
            return list(map(int, reader.points_after("train/loss", 0).step))

    def _new_pool(self, plan: RunPlan, inbox: Inbox) -> ScriptedPool:
        pool = ScriptedPool(plan, inbox, self.clock, self._scripts, self.spec.steps)
        for name, value in self._pool_changes.items():
            setattr(pool, name, value)
        self.pools.append(pool)
        return pool

    def _search(self, folder: Path) -> SimpleNamespace:
        """Let the thread end; a wait for it is no time of the run."""
        search = CheckpointSearch(folder)
        search.join()
        until = self.clock.monotonic() + self.search_seconds
        return SimpleNamespace(
            found=search.found,
            problem=search.problem,
            join=lambda _: None,
            is_alive=lambda: self.clock.monotonic() < until,
        )

    def _write_stacks(self, pid: int) -> None:
        rank = pid - NO_PROCESS
        if text := self.stacks.get(rank):
            with paths.stacks_file(self.folder, rank).open("a") as file:
                file.write(text)
