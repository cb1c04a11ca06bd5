"""The workers of an attempt on several machines: those here, and those on the other ones."""

from __future__ import annotations

import logging
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.cluster import membership
from engine.cluster.address import interface_of
from engine.cluster.membership import ClusterError
from engine.cluster.relay import Lost, Placement
from engine.processes.machine import rank_links, this_machine
from engine.runs import checkpoint_files
from engine.spec import recipe_copy, spec_file
from engine.spec.recipe_file import MODULES
from engine.supervisor.inbox import (
    Inbox,
    Launch,
    LaunchEnded,
    LaunchFailed,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.machines import node
from engine.supervisor.machines.machine_link import MachineLink
from engine.supervisor.machines.messages import (
    AskStacks,
    Begin,
    Begun,
    CheckpointPiece,
)
from engine.supervisor.machines.messages import (
    Launch as LaunchOrder,
)
from engine.supervisor.worker_pool import RunPlan, WorkerPool
from engine.training.early_stopping import EARLY_STOPPING
from engine.worker import environment

_log = logging.getLogger(__name__)

BEGIN_SECONDS = 60.0
"""Time for the machines to take the files of the run."""

_PIECE = 8 * 2**20


class CouldNotBegin(Exception):
    """The other machines cannot take part; the text is a sentence."""


class ClusterPool:
    """A `WorkerPool` over several machines; it reports the launches by rank."""

    def __init__(
        self,
        plan: RunPlan,
        inbox: Inbox,
        place: Callable[[Sequence[str], str], Placement] = Placement,
    ) -> None:
        """`place` starts a program on the machines of other ranks: one entry for each rank."""
        self._plan = plan
        self._inbox = inbox
        self._place = place
        self._placement: Placement | None = None
        self._links: list[MachineLink] = []
        self._local = WorkerPool(plan, self._report)
        self._reporting = threading.Lock()
        self._launched: dict[int, WorkerLaunched] = {}
        self._pools_to_launch = 0
        self._ports: list[socket.socket] = []
        self._is_ended = self._is_closed = False
        self._address = ""
        self._changing = threading.Lock()
        self.size = 0
        """The number of workers that were started."""

    def start(self, extra_environment: dict[str, str]) -> None:
        """See `WorkerPool.start`. Raises OSError."""
        try:
            threading.Thread(
                target=self._launch, args=(extra_environment,), daemon=True, name="launch"
            ).start()
        except RuntimeError as error:
            raise OSError(f"No worker could be started: {error}.") from error

    def log_file(self, rank: int) -> Path:
        """See `WorkerPool.log_file`."""
        return self._local.log_file(rank)

    def end(self, *, kill: bool) -> None:
        """See `WorkerPool.end`."""
        with self._changing:
            self._is_ended = True
            links = list(self._links)
        self._local.end(kill=kill)
        for link in links:
            link.end(kill=kill)

    def close(self) -> None:
        """See `WorkerPool.close`: the programs on the other machines end, too."""
        with self._changing:
            self._is_closed = True
            links, placement = list(self._links), self._placement
        for link in links:
            link.close()
        if placement:
            placement.remove()
        for port in self._ports:
            port.close()

    def ask_stacks(self, rank: int) -> None:
        """Let the worker of `rank`, on another machine, write its stacks into its file here."""
        machine = self._plan.workers[rank].machine
        for link in self._links:
            if link.machine == machine:
                link.say(AskStacks(rank))

    def _launch(self, extra_environment: dict[str, str]) -> None:
        try:
            variables = extra_environment | self._begin(extra_environment)
        except (CouldNotBegin, ClusterError, Lost, OSError) as error:
            self._fail(str(error))
            return
        except Exception as error:  # Ray raises many
            _log.exception("the machines cannot begin")
            self._fail(f"The other machines cannot begin: {error}.")
            return
        with self._changing:
            if self._is_ended:
                self._inbox.put(LaunchEnded())
                return
            self._pools_to_launch = 1 + len(self._links)
        own = {name: variables[name] for name in _SHARED if name in variables}
        for link in self._links:
            link.launches()
            link.say(LaunchOrder(own))
        try:
            self._local.start(variables | rank_links(interface_of(self._address)))
        except OSError as error:
            self._report(LaunchFailed(str(error)))
            self._report(LaunchEnded())

    def _fail(self, text: str) -> None:
        self._inbox.put(LaunchFailed(text))
        self._inbox.put(LaunchEnded())

    def _begin(self, extra_environment: dict[str, str]) -> dict[str, str]:
        """Let each machine make its folder; return what the workers' environment tells of it.

        Raises CouldNotBegin, ClusterError, Lost, OSError.
        """
        plan = self._plan
        elsewhere = [worker.machine for worker in plan.workers if worker.machine]
        placement = self._place(elsewhere, node.__name__)
        links = [
            MachineLink(
                machine,
                [worker.rank for worker in plan.workers if worker.machine == machine],
                plan.folder,
                transport,
                self._inbox,
                self._report,
            )
            for machine, transport in placement.transports.items()
        ]
        with self._changing:
            self._placement, self._links = placement, links
            is_closed = self._is_closed
        if is_closed:
            self.close()
        files = _files(plan)
        attempt = extra_environment[environment.ATTEMPT]
        name = f"{this_machine().host}-{plan.folder.name}"
        for link in links:
            threads = membership.own_environment().get("OMP_NUM_THREADS", "")
            link.say(Begin(name, attempt, link.machine, files, plan.spec.devices, threads))
        here = membership.this_cluster().ip
        self._ports = [node.reserved_port(here) for _ in plan.local_workers]
        self._address, addresses = here, {"": here}
        ports = {"": [int(port.getsockname()[1]) for port in self._ports]}
        deadline = time.monotonic() + BEGIN_SECONDS
        for link in links:
            begun = _answer(link, deadline)
            addresses[link.machine] = begun.address
            ports[link.machine] = list(begun.ports)
        if checkpoint := extra_environment.get(environment.RESUME):
            self._send_checkpoint(plan.folder / checkpoint_files.FOLDER / checkpoint)
        by_rank = [
            f"{addresses[worker.machine]}:{ports[worker.machine].pop(0)}" for worker in plan.workers
        ]
        return {
            environment.ADDRESSES: ",".join(by_rank),
            environment.KEY: secrets.token_hex(32),
        }

    def _send_checkpoint(self, folder: Path) -> None:
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            name = f"{folder.name}/{file.relative_to(folder).as_posix()}"
            with file.open("rb") as opened:
                is_first = True
                while (data := opened.read(_PIECE)) or is_first:
                    is_first = False
                    for link in self._links:
                        link.send_piece(CheckpointPiece(name, data))

    def _report(self, item: Launch | WorkerExited) -> None:
        """Pass on a report; launches in the order of the ranks, and their end once for all."""
        with self._reporting:
            match item:
                case WorkerLaunched(rank):
                    self._launched[rank] = item
                    while following := self._launched.pop(self.size, None):
                        self.size += 1
                        self._inbox.put(following)
                case LaunchEnded():
                    self._pools_to_launch -= 1
                    if not self._pools_to_launch:
                        self._inbox.put(item)
                case _:
                    self._inbox.put(item)


_SHARED = (
    environment.ADDRESSES,
    environment.KEY,
    environment.RENDEZVOUS,
    environment.DEVICES,
    environment.RESUME,
    environment.ATTEMPT,
    EARLY_STOPPING,
)
"""What is the same on all machines."""


def _answer(link: MachineLink, deadline: float) -> Begun:
    try:
        begun = link.begun.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise CouldNotBegin(f"Machine {link.machine} did not answer in time.") from None
    if begun.problem:
        raise CouldNotBegin(f"Machine {link.machine} cannot take part: {begun.problem}")
    return begun


def _files(plan: RunPlan) -> dict[str, bytes]:
    """Return the files that the workers read, by their path in the folder. Raises OSError."""
    folder = plan.folder
    modules = recipe_copy.copied_modules(folder)
    found: dict[str, Any] = {
        spec_file.FILE_NAME: folder / spec_file.FILE_NAME,
        **{f"{MODULES}/{name}": file for name, file in modules.items()},
    }
    if recipe_copy.has_copy(folder):
        found[recipe_copy.RECIPE] = folder / recipe_copy.RECIPE
    return {name: file.read_bytes() for name, file in found.items()}
