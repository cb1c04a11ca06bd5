"""Notices a training that does not get on, and finds out where every rank stands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from engine.diagnosis.deadlines import STALL_SECONDS
from engine.diagnosis.stack_dumps import Standstill, standstill, working_threads
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
from engine.runs.run_state import RunState, RunStatus
from engine.spec.recipe_file import RecipeInfo
from engine.spec.strategy import WorkerPlan
from engine.system import paths
from engine.system.process import ask_for_stacks, descendants

LEAST_STEPS = 10
"""A step may take this many times as long as those before it."""

PATIENCE = 10
"""How many times the limit a first step, a validation or a checkpoint may take."""

STACKS_SECONDS = 1.0
"""Time for the workers to write their stacks."""

_GETS_ON = (Progress, EpochEnded, CheckpointSaved, CheckpointFailed, Resumed, TrainingStarted)


class HangWatch:
    """Hears what the workers of one attempt say. Times are seconds of `clock`."""

    def __init__(
        self,
        folder: Path,
        minutes: float,
        plans: Sequence[WorkerPlan],
        recipe: RecipeInfo,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`minutes` without a step are too many; 0: nothing is."""
        self._folder = folder
        self._limit = 60 * minutes or math.inf
        self._plans = plans
        self._recipe = recipe
        self._clock = clock
        self._since = self._looked = clock()
        self._signs: dict[int, Alive] = {}
        self._steps_come = False
        self._asked = math.inf
        self._stacks: dict[int, list[_Stacks]] = {}
        self._found: list[Standstill] = []

    def heard(self, rank: int, message: Message) -> None:
        """Whatever a worker says may show that the training gets on."""
        if isinstance(message, Alive):
            if self._signs.get(rank) == message:
                return
            self._signs[rank] = message
        elif isinstance(message, _GETS_ON):
            self._steps_come = not isinstance(message, TrainingStarted)
            self._signs.clear()
        else:
            return
        self._since = self._clock()

    def tick(self, status: RunStatus) -> Event | None:
        """Look at the clock; what is to be recorded, if anything."""
        if status.state is RunState.STOPPING:
            return None  # what was said stays true to the end
        waited, limit = self._waited(status), self._patience(status)
        if waited <= limit:
            was_told, self._found, self._asked = bool(self._found), [], math.inf
            return Trouble("hang", "The training goes on.", False) if was_told else None
        if math.isinf(self._asked):
            self._ask(status)
        if self._found or self._clock() - self._asked < STACKS_SECONDS:
            return None
        self._found = [self._find(plan) for plan in self._plans]
        places = " ".join(each.text for each in self._found)
        text = (
            f"No step was done for {_spoken(waited)} after step {status.step}. {places} Stop the "
            f"run if it does not go on. The stacks of all threads are in {self._folder / 'logs'}."
        )
        return Trouble("hang", text, True)

    def failure(self, status: RunStatus) -> Failure | None:
        """The failure of a run that has hung for twice as long as it may."""
        if not self._found or self._waited(status) <= 2 * self._patience(status):
            return None
        # Most ranks wait for others in the framework; one in the recipe is what they wait for.
        guilty = [each for each in self._found if each.where]
        first = (guilty or self._found)[0]
        message = f"The training hangs: {first.text}"
        devices = ", ".join(first.plan.devices)
        return Failure(first.plan.rank, devices, 0, "", message, first.where, "")

    def _waited(self, status: RunStatus) -> float:
        now, looked = self._clock(), self._looked
        self._looked = now
        was_held_up = now - looked > STALL_SECONDS
        if was_held_up and self._found:
            self._since += now - looked  # a sleep neither heals nor harms what hung before it
        elif was_held_up or status.state is not RunState.RUNNING:
            self._since = now  # who was held up itself, together with everybody, blames nobody
        return now - self._since

    def _patience(self, status: RunStatus) -> float:
        limit = max(self._limit, LEAST_STEPS * status.step_seconds)
        is_other = any(sign.doing not in ("", "training") for sign in self._signs.values())
        return limit if self._steps_come and not is_other else PATIENCE * limit

    def _ask(self, status: RunStatus) -> None:
        self._asked = self._clock()
        for plan, pid in zip(self._plans, status.worker_pids, strict=False):
            own = paths.stacks_file(self._folder, plan.rank)
            asked = self._stacks[plan.rank] = [_Stacks(own)]
            ask_for_stacks(pid)
            for helper in descendants(pid):
                file = paths.helper_stacks_file(own, helper)
                if file.exists():  # else it is somebody's who does not know what we would ask
                    asked.append(_Stacks(file))
                    ask_for_stacks(helper)

    def _find(self, plan: WorkerPlan) -> Standstill:
        found = [working_threads(stacks.read()) for stacks in self._stacks.get(plan.rank, [])]
        answers = found and found[0]  # the worker's own come first; its helpers do not hang alone
        return standstill(plan, list(chain(*found)) if answers else [], self._recipe)


class _Stacks:
    """What a process writes into its file from now on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._size = file.stat().st_size if file.exists() else 0

    def read(self) -> str:
        """What it has written by now; empty where it could not."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._size)
                return file.read().decode(errors="replace")
        except OSError:
            return ""


def _spoken(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
