"""Commands, and the step at which all ranks carry one out, without a collective.

Rank 0 writes a wish into a small file. Each rank that sees it at a step boundary answers with a
step a little ahead, and promises to look again before it passes that. The last answer decides: the
largest of all. So no rank waits, and none can have passed the step when it is decided.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

AHEAD_SECONDS = 0.3
LEAST_AHEAD = 2
_LOOK_SECONDS = 0.05
_KEPT_WISHES = 64


class Stopped(KeyboardInterrupt):
    """Ends the script as Ctrl-C would, so that one that saves on Ctrl-C does so."""


class Act(NamedTuple):
    """What is to be done, and the number of the command."""

    what: str
    number: int
    details: dict[str, Any]


Command = Callable[[int, Act], None]
"""Carries out a command after a step."""


class Agreement:
    """One rank's side of it. `rank` and `world` are asked when they are needed."""

    def __init__(self, path: str, rank: Callable[[], int], world: Callable[[], int]) -> None:
        self._path = path
        self._rank = rank
        self._world = world
        self._asked: list[Act] = []
        self._asked_lock = threading.Lock()
        self._asked_now = threading.Event()
        self._signature: tuple[int, int] | None = None
        self._done = 0
        self._look_again_at: int | None = None
        self._decided: list[tuple[int, Act]] = []
        self.is_alone = True
        """Whether there is no other rank to agree with."""

        self.seconds_per_step = 0.0

    def ask(self, act: Act) -> None:
        """Take a command, from any thread; only in rank 0's script."""
        with self._asked_lock:
            self._asked.append(act)
        self._asked_now.set()

    def wait(self) -> None:
        """Wait a moment for a command."""
        self._asked_now.wait(_LOOK_SECONDS)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to look at: no other rank, and no command."""
        return self.is_alone and not self._asked and not self._decided

    def begin(self) -> None:
        """Take over nothing that an earlier program of the command has been told."""
        with contextlib.suppress(OSError, ValueError), self._locked() as wishes:
            self._done = max((wish["id"] for wish in wishes if wish["step"] is not None), default=0)

    def due(self, step: int, *, is_paused: bool = False) -> list[Act]:
        """Return what all ranks do now, after `step`. Costs a microsecond if there is nothing.

        Nothing moves during a pause, so every rank is at this step or comes to it: then also what
        was decided for a later step is returned.
        """
        if self._asked:
            self._take_asked(step)
        if not self.is_alone:
            self._look(step)
        if not self._decided:
            return []
        now: list[Act] = []
        while self._decided and (is_paused or self._decided[0][0] <= step):
            now.append(self._decided.pop(0)[1])
            if now[-1].what == "pause":
                break  # what follows is due within the pause
        return now

    def _take_asked(self, step: int) -> None:
        with self._asked_lock:
            asked, self._asked = self._asked, []
            self._asked_now.clear()
        self.is_alone = self._world() < 2
        if self.is_alone:
            self._decided += [(step, act) for act in asked]
            return
        with self._locked() as wishes:
            last = wishes[-1]["id"] if wishes else self._done
            for number, act in enumerate(asked, start=last + 1):
                wishes.append(
                    {"id": number, "act": list(act), "answers": {}, "step": None, "world": 0}
                )
                wishes[-1]["world"] = self._world()

    def _look(self, step: int) -> None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 a microsecond less, in every step
        except OSError:
            return
        signature = (status.st_mtime_ns, status.st_ino)
        must = self._look_again_at is not None and step >= self._look_again_at
        if signature == self._signature and not must:
            return
        self._signature = signature
        rank = str(self._rank())
        ahead = LEAST_AHEAD
        if self.seconds_per_step > 0:
            ahead = max(LEAST_AHEAD, int(AHEAD_SECONDS / self.seconds_per_step))
        with self._locked() as wishes:
            self._look_again_at = None
            earliest = 0
            for wish in wishes:
                earliest = max(earliest, wish["step"] or 0)
                if wish["id"] <= self._done:
                    continue
                if wish["step"] is None:
                    mine = wish["answers"].get(rank)
                    if mine is None or mine <= step:
                        wish["answers"][rank] = mine = step + ahead
                    if len(wish["answers"]) >= wish["world"]:
                        wish["step"] = max(earliest, *wish["answers"].values())
                if wish["step"] is None:
                    self._look_again_at = mine
                    break  # later wishes are decided after this one
                self._done = wish["id"]
                what, number, details = wish["act"]
                self._decided.append((wish["step"], Act(what, number, details)))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[list[dict[str, Any]]]:
        """The wishes of the file; changes are written back."""
        descriptor = os.open(self._path + ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                with open(self._path, encoding="utf-8") as file:  # noqa: PTH123
                    before = file.read()
            except OSError:
                before = "[]"
            wishes: list[dict[str, Any]] = json.loads(before)
            yield wishes
            after = json.dumps(wishes[-_KEPT_WISHES:])
            if after != before:
                new = f"{self._path}.{os.getpid()}"
                with open(new, "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write(after)
                os.replace(new, self._path)  # noqa: PTH105
        finally:
            os.close(descriptor)


class Control:
    """Carries out what is due. Level 0 and level 1 give it different ways to save and to stop."""

    def __init__(self, agreement: Agreement, send: Callable[[dict[str, Any]], None]) -> None:
        self.agreement = agreement
        self._send = send
        self.save: Command = lambda step, act: None
        self.stop: Command = lambda step, act: None
        self.empty_cache: Callable[[], None] = lambda: None
        self.paused_seconds = 0.0

    def boundary(self, step: int) -> None:
        """Do what is due after `step`. Raises Stopped if that is a Stop."""
        for act in self.agreement.due(step):
            self._carry_out(act, step)

    def _carry_out(self, act: Act, step: int) -> None:
        if act.what == "pause":
            self._pause(step)
        elif act.what == "checkpoint":
            self.save(step, act)
        elif act.what == "stop":
            self.stop(step, act)
        elif act.what == "empty_cache":
            self.empty_cache()

    def _pause(self, step: int) -> None:
        self._send({"kind": "paused", "step": step})
        begin = time.monotonic()
        while True:
            self.agreement.wait()
            for act in self.agreement.due(step, is_paused=True):
                if act.what == "resume":
                    seconds = time.monotonic() - begin
                    self.paused_seconds += seconds
                    self._send({"kind": "resumed", "step": step, "seconds": seconds})
                    return
                if act.what != "pause":
                    self._carry_out(act, step)
