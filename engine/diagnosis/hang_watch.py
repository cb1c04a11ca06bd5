"""Notices that a training makes no progress, and finds the line that each rank executes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from engine.diagnosis import gpu_links
from engine.diagnosis.deadlines import STALL_SECONDS
from engine.diagnosis.stack_dumps import WorkerLocation, locate_worker, working_threads
from engine.messages.channel import Alive, Message
from engine.messages.events import (
    CheckpointFailed,
    CheckpointSaved,
    EpochEnded,
    Event,
    Failure,
    Progress,
    Resumed,
    TrainingStarted,
    Trouble,
)
from engine.processes.process import ask_for_stacks, descendants
from engine.runs.run_state import RunState, RunStatus
from engine.spec.recipe_file import RecipeInfo
from engine.spec.strategy import WorkerPlan
from engine.system import paths

LEAST_STEPS = 10
"""The limit is at least the time of this many steps."""

SLOW_PHASE_FACTOR = 10
"""A first step, a validation or a checkpoint may take the limit times this factor."""

STACKS_SECONDS = 1.0
"""Time for the workers to write their stacks."""

_PROGRESS = (Progress, EpochEnded, CheckpointSaved, CheckpointFailed, Resumed, TrainingStarted)


class HangWatch:
    """Follows the messages of one attempt's workers. Times are seconds of `clock`."""

    def __init__(
        self,
        folder: Path,
        minutes: float,
        plans: Sequence[WorkerPlan],
        recipe: RecipeInfo,
        clock: Callable[[], float] = time.monotonic,
        ask_elsewhere: Callable[[int], None] = lambda rank: None,
    ) -> None:
        """After `minutes` without a step, the training counts as a hang; 0: never.

        `ask_elsewhere` lets a rank on another machine write its stacks.
        """
        self._folder = folder
        self._limit = 60 * minutes or math.inf
        self._plans = plans
        self._recipe = recipe
        self._clock = clock
        self._ask_elsewhere = ask_elsewhere
        is_spread = any(plan.machine for plan in plans)
        self._stacks_seconds = STACKS_SECONDS * (4 if is_spread else 1)
        self._last_progress = self._last_check = clock()
        self._last_alive: dict[int, Alive] = {}
        self._has_stepped = False
        self._stacks_requested = math.inf
        """Time of the request for stacks; infinite: none was made."""

        self._stacks: dict[int, list[_StacksFile]] = {}
        self._locations: list[WorkerLocation] = []
        """The places where the ranks hang; empty: no hang was reported."""

    def received(self, rank: int, message: Message) -> None:
        """Note whether `message` shows progress."""
        if isinstance(message, Alive):
            if self._last_alive.get(rank) == message:
                return
            self._last_alive[rank] = message
        elif isinstance(message, _PROGRESS):
            self._has_stepped = not isinstance(message, TrainingStarted)
            self._last_alive.clear()
        else:
            return
        self._last_progress = self._clock()

    def tick(self, status: RunStatus) -> Event | None:
        """Check the time; return the event to record, if any."""
        if status.state is RunState.STOPPING:
            return None  # a hang that was reported lasts until the end
        waited, limit = self._waited(status), self._timeout(status)
        if waited <= limit:
            was_reported, self._locations, self._stacks_requested = (
                bool(self._locations),
                [],
                math.inf,
            )
            return Trouble("hang", "The training goes on.", False) if was_reported else None
        if math.isinf(self._stacks_requested):
            self._request_stacks(status)
        if self._locations or self._clock() - self._stacks_requested < self._stacks_seconds:
            return None
        self._locations = [self._locate(plan) for plan in self._plans]
        places = " ".join(location.text for location in self._locations)
        text = (
            f"No step was done for {_in_words(waited)} after step {status.step}. {places} Stop the "
            f"run if it does not go on. The stacks of all threads are in {self._folder / 'logs'}."
        )
        if not self._has_stepped and not any(location.where for location in self._locations):
            devices = [device for plan in self._plans for device in plan.devices]
            text = f"{text} {gpu_links.advice(devices)}".rstrip()
        return Trouble("hang", text, True)

    def failure(self, status: RunStatus) -> Failure | None:
        """Return the failure of a run that hangs for more than twice the limit; else None."""
        if not self._locations or self._waited(status) <= 2 * self._timeout(status):
            return None
        # Most ranks wait in the framework for the rank that hangs in the recipe.
        in_recipe = [location for location in self._locations if location.where]
        cause = (in_recipe or self._locations)[0]
        message = f"The training hangs: {cause.text}"
        devices = ", ".join(cause.plan.devices)
        return Failure(cause.plan.rank, devices, 0, "", message, cause.where, "")

    def _waited(self, status: RunStatus) -> float:
        now, last_check = self._clock(), self._last_check
        self._last_check = now
        was_suspended = now - last_check > STALL_SECONDS
        if was_suspended and self._locations:
            self._last_progress += now - last_check  # the gap does not change an existing hang
        elif was_suspended or status.state is not RunState.RUNNING:
            self._last_progress = now  # the workers may have been suspended as well
        return now - self._last_progress

    def _timeout(self, status: RunStatus) -> float:
        limit = max(self._limit, LEAST_STEPS * status.step_seconds)
        is_step_due = self._has_stepped and all(
            alive.doing in ("", "training") for alive in self._last_alive.values()
        )
        return limit if is_step_due else SLOW_PHASE_FACTOR * limit

    def _request_stacks(self, status: RunStatus) -> None:
        self._stacks_requested = self._clock()
        for plan, pid in zip(self._plans, status.worker_pids, strict=False):
            worker_file = paths.stacks_file(self._folder, plan.rank)
            files = self._stacks[plan.rank] = [_StacksFile(worker_file)]
            if plan.machine:
                self._ask_elsewhere(plan.rank)
                continue
            ask_for_stacks(pid)
            for child in descendants(pid):
                file = paths.helper_stacks_file(worker_file, child)
                if file.exists():  # only our own helpers handle the signal; it ends other processes
                    files.append(_StacksFile(file))
                    ask_for_stacks(child)

    def _locate(self, plan: WorkerPlan) -> WorkerLocation:
        threads = [working_threads(file.read()) for file in self._stacks.get(plan.rank, [])]
        # The worker's own stacks come first. Without them, its helpers' stacks do not count.
        has_answered = bool(threads and threads[0])
        return locate_worker(plan, list(chain(*threads)) if has_answered else [], self._recipe)


class _StacksFile:
    """Reads the stacks that a process appends to its file from now on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._size = file.stat().st_size if file.exists() else 0

    def read(self) -> str:
        """Return the text that was appended so far; empty if the file cannot be read."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._size)
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def _in_words(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
