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

import msgspec

from engine.cluster import membership, relay
from engine.cluster.address import interface_of
from engine.cluster.membership import ClusterError
from engine.cluster.relay import Lost, Transport
from engine.processes.machine import rank_links, this_machine
from engine.runs.checkpoints import checkpoint_files
from engine.spec import recipe_copy, spec_file
from engine.spec.recipe_file import MODULES, RecipeInfo
from engine.supervisor.inbox import (
    Inbox,
    Launch,
    LaunchEnded,
    LaunchFailed,
    Told,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.machines import node, recipe_folder, shared_folder
from engine.supervisor.machines.machine_link import MachineLink
from engine.supervisor.machines.messages import (
    AskStacks,
    Begin,
    Begun,
    CheckpointPiece,
    FolderPiece,
    encode,
)
from engine.supervisor.machines.messages import Launch as LaunchOrder
from engine.supervisor.machines.recipe_folder import UnfitFolder
from engine.supervisor.machines.shared_folder import NotShared, SharedPlace
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
        start_programs: Callable[[Sequence[str], str], dict[str, Transport]] = relay.start_programs,
    ) -> None:
        """`start_programs` starts a program on other machines."""
        self._plan = plan
        self._inbox = inbox
        self._start_programs = start_programs
        self._links: list[MachineLink] = []
        self._local = WorkerPool(plan, self._report)
        self._reporting = threading.Lock()
        self._launched: dict[int, WorkerLaunched] = {}
        self._pools_to_launch = 0
        self._ports: list[socket.socket] = []
        self._is_ended = self._is_closed = False
        self._address = ""
        self._shared: SharedPlace | None = None
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
            links = list(self._links)
        for link in links:
            link.close()
        for port in self._ports:
            port.close()
        if self._shared:
            self._shared.close()

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
        except NotShared as error:
            self._fail(f"On this machine, {error}.")
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

        Raises CouldNotBegin, ClusterError, Lost, NotShared, OSError.
        """
        plan = self._plan
        attempt = extra_environment[environment.ATTEMPT]
        shared = self._share()
        elsewhere = dict.fromkeys(worker.machine for worker in plan.workers if worker.machine)
        transports = self._start_programs(list(elsewhere), node.__name__)
        links = [
            MachineLink(
                machine,
                [worker.rank for worker in plan.workers if worker.machine == machine],
                plan.folder,
                transport,
                self._inbox,
                self._report,
                shared.parts_of(machine, attempt) if shared else None,
            )
            for machine, transport in transports.items()
        ]
        with self._changing:
            self._links = links
            is_closed = self._is_closed
        if is_closed:
            self.close()
        packed, why_not = _packed_folder(plan.recipe)
        begin = Begin(
            f"{this_machine().host}-{plan.folder.name}",
            attempt,
            "",
            _files(plan),
            plan.spec.devices,
            membership.own_environment().get("OMP_NUM_THREADS", ""),
            bool(packed),
            str(shared.folder) if shared else "",
            shared.mark() if shared else None,
        )
        for link in links:
            link.say(msgspec.structs.replace(begin, machine=link.machine))
        here = membership.this_cluster().ip
        self._ports = [node.reserved_port(here) for _ in plan.local_workers]
        self._address, addresses = here, {"": here}
        ports = {"": [int(port.getsockname()[1]) for port in self._ports]}
        without_folder: list[MachineLink] = []
        deadline = time.monotonic() + BEGIN_SECONDS
        for link in links:
            begun = _answer(link, deadline)
            addresses[link.machine] = begun.address
            ports[link.machine] = list(begun.ports)
            if begun.lacks_folder:
                self._inbox.put(Told(_about_folder(plan.recipe, link.machine, why_not)))
                without_folder.append(link)
            if shared and begun.mark:
                shared.read(link.machine, begun.mark)
        for start in range(0, len(packed) if without_folder else 0, _PIECE):
            _send(FolderPiece(packed[start : start + _PIECE]), without_folder)
        checkpoint = extra_environment.get(environment.RESUME)
        if shared:
            shared.use()
        elif checkpoint:
            self._send_checkpoint(plan.folder / checkpoint_files.FOLDER / checkpoint)
        by_rank = [
            f"{addresses[worker.machine]}:{ports[worker.machine].pop(0)}" for worker in plan.workers
        ]
        return {
            environment.ADDRESSES: ",".join(by_rank),
            environment.KEY: secrets.token_hex(32),
        }

    def _share(self) -> SharedPlace | None:
        """Return the place of the run in the folder that the machines share, if it has one.

        Raises OSError, NotShared.
        """
        plan = self._plan
        if not plan.spec.shared_folder:
            return None
        place = shared_folder.place_for(plan.folder, plan.spec.shared_folder)
        if place is None:
            self._inbox.put(Told(_KEEPS_ITS_FOLDER))
            return None
        self._shared = SharedPlace(plan.folder, place)
        return self._shared

    def _send_checkpoint(self, folder: Path) -> None:
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            name = f"{folder.name}/{file.relative_to(folder).as_posix()}"
            with file.open("rb") as opened:
                is_first = True
                while (data := opened.read(_PIECE)) or is_first:
                    is_first = False
                    _send(CheckpointPiece(name, data), self._links)

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


_KEEPS_ITS_FOLDER = (
    "The run has checkpoints in another place already, and keeps them there: the shared folder is "
    "for a run that begins with it."
)

_SHARED = (
    environment.ADDRESSES,
    environment.KEY,
    environment.RENDEZVOUS,
    environment.DEVICES,
    environment.ACCUMULATION,
    environment.RESUME,
    environment.ATTEMPT,
    EARLY_STOPPING,
)
"""What is the same on all machines."""


def _send(piece: CheckpointPiece | FolderPiece, links: Sequence[MachineLink]) -> None:
    """Send a part of a large file to machines; waits while others are on their way. Raises Lost."""
    stored = relay.store(encode(piece))
    for link in links:
        link.send_piece(stored)


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


def _packed_folder(recipe: RecipeInfo) -> tuple[bytes, str]:
    """Return the packed folder of the recipe, and why it does not travel; one of both is empty."""
    if recipe.builtin:
        return b"", ""
    try:
        return recipe_folder.pack(Path(recipe.path).parent), ""
    except UnfitFolder as error:
        return b"", str(error)


def _about_folder(recipe: RecipeInfo, machine: str, why_not: str) -> str:
    folder = Path(recipe.path).parent
    if why_not:
        return (
            f"{folder} is not on {machine}, and is not sent: {why_not}. Put data at the same path "
            "on each machine."
        )
    return f"{folder} is not on {machine}: its ranks work in a copy, which is removed at the end."
