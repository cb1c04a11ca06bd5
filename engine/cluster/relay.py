"""The Ray actor on another machine: it starts the program there, and carries its messages.

It knows nothing of a run. Without the actor, the program's input ends, and with it the workers. The
actor does not start them itself, because Ray ends an actor without notice, and all below it: nobody
would be left who ends the workers in order, and removes the folder of the run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from engine.cluster import membership
from engine.cluster.frames import read_frame, write_frame
from engine.cluster.member import HAS_LEFT, living_nodes, newest_nodes, placed_on
from engine.processes.process import module_environment
from engine.system.program import call

_log = logging.getLogger(__name__)

GATHER_SECONDS = 0.05
"""Messages that come within this time travel together: a call of Ray costs about 1 ms."""

MOST_WAITING = 64 * 2**20
"""Bytes of messages in the actor; with more, the program there waits."""

BATCH = 8 * 2**20
"""Bytes after which no more is gathered."""

TAKE_SECONDS = 1.0
END_SECONDS = 2.0
"""Time to end an actor: if the cluster does not answer, Ray does it with this process."""

_OF_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")
"""Variables that Ray sets for its own processes."""


class Lost(Exception):
    """The other machine does not answer any more; the text is a clause."""


class Stored(NamedTuple):
    """A message in Ray's object store, where it lies once for all machines."""

    ref: Any


class Transport(Protocol):
    """The way to the program on another machine. Each method is called by one thread."""

    def take(self) -> Sequence[bytes]:
        """Return what has come within a second or so; empty: nothing. Raises Lost."""

    def give(self, frames: Sequence[bytes | Stored]) -> None:
        """Send messages in their order; waits while the other side does not read. Raises Lost."""

    def close(self) -> None:
        """End the program there. Raises nothing."""


class Relay:
    """The actor. Its methods run in threads of their own."""

    def __init__(self, module: str) -> None:
        """`module` is the program."""
        self._changed = threading.Condition()
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._is_over = False
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("RAY_")
        }
        for name in _OF_RAY:
            inherited.pop(name, None)
        program = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=module_environment(inherited),
        )
        self._input = cast("BinaryIO", program.stdin)
        self._output = cast("BinaryIO", program.stdout)
        program.wait()  # it goes on as a process of its own
        threading.Thread(target=self._read, daemon=True).start()

    def take(self, seconds: float = TAKE_SECONDS) -> list[bytes] | None:
        """Return the messages since the last call, or an empty list after so many seconds.

        None: the program has ended, and said no more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._frames or self._is_over, seconds)
            if not self._is_over:
                self._changed.wait_for(
                    lambda: self._size > BATCH or self._is_over,
                    GATHER_SECONDS if self._frames else 0,
                )
            taken: list[bytes] = []
            size = 0
            while self._frames and size <= BATCH:
                taken.append(self._frames.popleft())
                size += len(taken[-1])
            self._size -= size
            self._changed.notify_all()
            return None if self._is_over and not taken else taken

    def give(self, *frames: bytes) -> None:
        """Pass messages to the program. Raises OSError if it has ended."""
        for frame in frames:
            write_frame(self._input, frame)

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                frame = read_frame(self._output)
                with self._changed:
                    self._changed.wait_for(lambda: self._size < MOST_WAITING)
                    self._frames.append(frame)
                    self._size += len(frame)
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


class RayTransport:
    """The way to a machine by its actor. This process is a Ray driver."""

    def __init__(self, machine: str, module: str, node: Mapping[str, Any]) -> None:
        """Start the actor with its program on a Ray node; do not wait for it."""
        self._ray = membership.ray_module()
        self._machine = machine
        # Never again by itself: a new attempt starts another one.
        actor = self._ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=4)(Relay)
        self._actor = actor.options(**placed_on(node)).remote(module)
        self._taking: Any = None

    def take(self) -> Sequence[bytes]:
        """See `Transport`."""
        if self._taking is None:
            self._taking = self._actor.take.remote()
        done, _ = self._ray.wait([self._taking], timeout=TAKE_SECONDS)
        if not done:
            return ()
        taken, self._taking = self._taking, None
        frames: list[bytes] | None = self._get(taken)
        if frames is None:
            raise Lost("its part of the run ended by itself")
        return frames

    def give(self, frames: Sequence[bytes | Stored]) -> None:
        """See `Transport`."""
        # Ray replaces an argument that is a reference by what it refers to.
        given = self._actor.give.remote(
            *(frame.ref if isinstance(frame, Stored) else frame for frame in frames)
        )
        while True:
            done, _ = self._ray.wait([given], timeout=TAKE_SECONDS)
            if done:
                self._get(given)
                return

    def close(self) -> None:
        """See `Transport`."""

        def end() -> None:
            with contextlib.suppress(Exception):  # the machine, or all of Ray, may be gone
                self._ray.kill(self._actor)

        ending = threading.Thread(target=end, daemon=True)
        ending.start()
        ending.join(END_SECONDS)

    def _get(self, ref: Any) -> Any:
        try:
            return self._ray.get(ref, timeout=TAKE_SECONDS)
        except self._ray.exceptions.GetTimeoutError as error:
            raise Lost("Ray does not bring its messages") from error
        except self._ray.exceptions.RayError as error:
            _log.info("machine %s: %s", self._machine, error)
            raise Lost(self._why()) from error

    def _why(self) -> str:
        node = newest_nodes().get(self._machine)
        if node and node["Alive"]:  # Ray may not have noticed more yet
            return "its Ray node, or its part of the run, was ended"
        if node and node["DeathReason"] == HAS_LEFT:
            return "it has left the cluster"
        return "its Ray node has ended, or the network to it is gone"


def store(body: bytes) -> Stored:
    """Put a message into the object store; it goes when the last machine has it.

    This process is a Ray driver.
    """
    return Stored(membership.ray_module().put(body))


def start_programs(machines: Iterable[str], module: str) -> dict[str, Transport]:
    """Start the program `module` on each of `machines`; this process is a Ray driver then.

    Raises ClusterError, or Lost with a sentence.
    """
    membership.connect()
    living = living_nodes()
    if missing := [machine for machine in machines if machine not in living]:
        raise Lost(
            f"{', '.join(missing)} is not in the cluster now: `{call('cluster status')}` says more."
        )
    return {machine: RayTransport(machine, module, living[machine]) for machine in machines}
