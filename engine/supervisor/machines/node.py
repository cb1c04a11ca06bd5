"""`python -m engine.supervisor.machines.node`: the part of a run on another machine.

It starts the ordinary workers there, and speaks with the head over its standard streams. When they
end, the head is lost, and with it the run: the workers are killed.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import queue
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, assert_never

import msgspec

from engine.cluster import membership
from engine.cluster.address import interface_of
from engine.cluster.frames import read_frame, write_frame
from engine.diagnosis.process_memory import ProcessMemory
from engine.files import scratch_folder
from engine.files.atomic_file import write_atomically
from engine.files.disk_errors import short_reason
from engine.interface.sent_code import is_plain
from engine.messages.channel import CLOSED, Channel, Hello, Server
from engine.processes import children, control_group, presence
from engine.processes.machine import rank_links
from engine.processes.process import ask_for_stacks, can_enter, start_time
from engine.processes.process_tree import Identity
from engine.runs.checkpoints import checkpoint_files
from engine.spec import catalog, recipe_copy
from engine.spec.device_names import all_on_cpu, devices_on
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import FILE_NAME, encode_spec, read_spec, stored_environment
from engine.supervisor.guardian_process import GuardianProcess
from engine.supervisor.inbox import (
    Launch,
    LaunchedCold,
    LaunchEnded,
    LaunchFailed,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.machines import recipe_folder, shared_folder
from engine.supervisor.machines.messages import (
    AskStacks,
    Beat,
    Begin,
    Begun,
    CheckpointPiece,
    Cold,
    Devices,
    End,
    FolderPiece,
    FromRank,
    HeadMessage,
    LaunchDone,
    Launched,
    LogText,
    Memory,
    NodeMessage,
    NotLaunched,
    RankClosed,
    RankConnected,
    RankExited,
    Stacks,
    ToRank,
    decode_for_node,
    encode,
)
from engine.supervisor.machines.messages import Launch as LaunchOrder
from engine.supervisor.worker_pool import RunPlan, WorkerPool
from engine.system import logs, paths
from engine.telemetry.helper_client import TelemetryStream
from engine.training.early_end import SCRATCH
from engine.worker import environment

_log = logging.getLogger(__name__)

FOLDER = "cluster-runs"
"""The folder, in the data folder, with the parts of runs whose head is another machine."""

BEAT_SECONDS = 1.0
ORPHAN_SECONDS = 2.0
"""Time of the workers after this program was killed: without the head they can save nothing."""

WAIT_SECONDS = 10.0
"""Time for the workers of an earlier attempt to end."""

_RECIPE_FOLDER = "folder"
"""In the folder of the run: the copy of the recipe's folder, where that itself does not exist."""

_STACKS_SECONDS = 1.0
_MOST_LOG = 2**18
"""Bytes of a log in one message."""


def main() -> int:
    """Serve the head until its stream ends; return the exit code."""
    if os.fork():
        return 0  # Ray kills the children of an actor that ends: this program has to clean up then
    os.setsid()
    head = sys.stdin.buffer
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else prints must not get between the messages
    children.adopt_orphans()
    node = Node(output)
    try:
        while True:
            node.handle(decode_for_node.decode(read_frame(head)))
    except (*CLOSED, msgspec.DecodeError) as error:
        _log.info("the head is gone: %r", error)
    finally:
        node.close()
    return 0


class Node:
    """The workers of this machine, and what they say."""

    def __init__(self, output: BinaryIO) -> None:
        """Messages for the head are written to `output`."""
        self._output = output
        self._writing = threading.Lock()
        self._reading_log = threading.Lock()
        self._to_ranks: dict[int, queue.SimpleQueue[bytes | None]] = {}
        self._workers: dict[int, Identity] = {}
        self._log_sizes: dict[int, int] = {}
        self._ports: list[socket.socket] = []
        self._plan: RunPlan | None = None
        self._folder: Path | None = None
        self._parts: Path | None = None
        self._packed: list[bytes] | None = None
        self._original = ""
        """The folder of the recipe on the head, of which there is a copy here."""

        self._scratch: Path | None = None
        self._pool: WorkerPool | None = None
        self._server: Server | None = None
        self._guardian: GuardianProcess | None = None
        self._telemetry: TelemetryStream | None = None
        self._memory: ProcessMemory | None = None
        self._closing = threading.Event()
        threading.Thread(target=self._beat, daemon=True, name="beat").start()

    def handle(self, message: HeadMessage) -> None:
        """Do what the head asks."""
        match message:
            case Begin():
                try:
                    self._send(self._begin(message))
                except Exception as error:  # whatever it is, the head names this machine
                    _log.exception("the run cannot begin here")
                    self._send(Begun("", (), f"{str(error) or type(error).__name__}."))
            case CheckpointPiece(name, data):
                self._keep_piece(name, data)
            case FolderPiece(data):
                if self._packed is not None:
                    self._packed.append(data)
            case LaunchOrder(variables):
                self._launch(variables)
            case ToRank(rank, frame):
                if frames := self._to_ranks.get(rank):
                    frames.put(frame)
            case AskStacks(rank):
                threading.Thread(target=self._send_stacks, args=(rank,), daemon=True).start()
            case End(kill):
                if self._pool:
                    self._pool.end(kill=kill)
            case _:
                assert_never(message)

    def close(self) -> None:
        """End everything that the run has here, and remove its folder."""
        self._closing.set()
        if self._pool:
            self._pool.end(kill=True)
        if self._telemetry:
            self._telemetry.close()
        if self._memory:
            self._memory.close()
        if self._plan and self._plan.control_group:
            self._plan.control_group.end(children.END_SECONDS)
        children.end_adopted()
        if self._server:
            self._server.close()
        if self._guardian:
            self._guardian.end()
        if self._plan and self._plan.control_group:
            self._plan.control_group.remove()
        if self._scratch:
            scratch_folder.remove(self._scratch)
        for folder in filter(None, (self._parts, self._folder)):
            shutil.rmtree(folder, ignore_errors=True)

    def _begin(self, message: Begin) -> Begun:
        found = membership.cluster()
        if found is None or found.name != message.machine:
            return Begun("", (), f"{message.machine} is not what this machine is called there.")
        name = f"{message.run}.{message.attempt}"
        if not is_plain(name) or "/" in name:
            return Begun("", (), f"{name!r} is no name of a run.")
        folder = paths.private_folder(FOLDER) / name
        for earlier in folder.parent.glob(f"{glob.escape(message.run)}.*"):
            if not _is_left(earlier):
                return Begun("", (), "The workers of an earlier attempt have not ended there.")
            shutil.rmtree(earlier, ignore_errors=True)
        folder.mkdir(mode=0o700)
        (folder / "logs").mkdir()
        self._folder = folder
        logs.start("node", folder / "logs")
        for name, content in message.files.items():
            if not is_plain(name):
                return Begun("", (), f"{name!r} is no name of a file of a run.")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        mark = self._share(message) if message.mark else None
        spec = msgspec.structs.replace(read_spec(folder), devices=message.devices)
        recipe = recipe_copy.recipe_of_run(folder, spec)
        lacks = not (recipe.builtin or can_enter(Path(recipe.path).parent))
        if lacks and message.sends_folder:
            self._packed = []
            self._original = str(Path(recipe.path).parent)
            spec = _moved(folder, spec)
            recipe = recipe_copy.recipe_of_run(folder, spec)
        strategy = catalog.strategy(spec.strategy, recipe)
        if message.threads:
            os.environ["OMP_NUM_THREADS"] = message.threads
        group = control_group.create(message.run)
        workers = strategy.pool(spec.slots)
        self._plan = plan = RunPlan(folder, spec, recipe, strategy, workers, group, message.machine)
        self._pool = WorkerPool(plan, self._report)
        self._server = Server(folder, self._connected)
        self._guardian = GuardianProcess(ORPHAN_SECONDS, folder / checkpoint_files.FOLDER, group)
        self._scratch = scratch_folder.make()
        self._ports = [reserved_port(found.ip) for _ in plan.local_workers]
        ports = tuple(int(each.getsockname()[1]) for each in self._ports)
        self._telemetry = TelemetryStream(lambda snapshot: self._send(Devices(snapshot)))
        if all_on_cpu(devices_on(message.machine, spec.devices)):
            self._memory = ProcessMemory(
                lambda: list(self._workers.values()), lambda measured: self._send(Memory(measured))
            )
        return Begun(found.ip, ports, "", lacks, mark, time.time())

    def _share(self, message: Begin) -> shared_folder.Mark:
        """Let the checkpoints lie in the shared folder. Raises NotShared, OSError."""
        assert message.mark
        assert self._folder
        place = Path(message.shared)
        shared_folder.read_mark(place, message.mark, "the head")
        mark = shared_folder.leave_mark(place, message.machine)
        self._parts = shared_folder.parts_folder(place, message.machine, message.attempt)
        self._parts.mkdir(mode=0o700)
        (self._folder / checkpoint_files.FOLDER).symlink_to(self._parts)
        return mark

    def _unpack(self) -> None:
        """Make the copy of the recipe's folder if there is to be one. Raises OSError, ValueError"""
        if self._packed is None or self._folder is None:
            return
        packed, self._packed = b"".join(self._packed), None
        recipe_folder.unpack(packed, self._folder / _RECIPE_FOLDER)

    def _keep_piece(self, name: str, data: bytes) -> None:
        if self._folder and is_plain(name):
            file = self._folder / checkpoint_files.FOLDER / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("ab") as opened:
                opened.write(data)

    def _launch(self, variables: dict[str, str]) -> None:
        plan, pool, found = self._plan, self._pool, membership.cluster()
        assert plan
        assert pool
        assert found
        try:
            self._unpack()
            if self._parts and (name := variables.get(environment.RESUME)):
                (self._parts / name).symlink_to(self._parts.parent / name)
        except (OSError, ValueError) as error:
            why = short_reason(error) if isinstance(error, OSError) else str(error)
            self._send(NotLaunched(f"the files of the run cannot be written: {why}."))
            self._send(LaunchDone())
            return
        for worker in plan.local_workers:
            self._log_sizes[worker.rank] = 0
        group = plan.control_group
        pool.start(
            variables
            | rank_links(interface_of(found.ip))
            | {
                environment.SUPERVISOR: str(os.getpid()),
                environment.CONTROL_GROUP: str(group.folder) if group else "",
                environment.SHARED: str(self._parts or ""),
                SCRATCH: str(self._scratch or ""),
            }
        )

    def _report(self, item: Launch | WorkerExited) -> None:
        match item:
            case WorkerLaunched(rank, pid):
                self._workers[rank] = pid, start_time(pid)
                if self._guardian:
                    if self._scratch:
                        self._guardian.remove_at_end(self._scratch)
                    self._guardian.watch(*self._workers[rank])
                self._send(Launched(rank))
            case LaunchedCold(reason):
                self._send(Cold(reason))
            case LaunchFailed(reason):
                self._send(NotLaunched(reason))
            case LaunchEnded():
                self._send(LaunchDone())
            case WorkerExited(rank, code):
                while self._send_log(rank):
                    pass
                self._send(RankExited(rank, code))
            case _:
                assert_never(item)

    def _connected(self, hello: Hello, channel: Channel) -> None:
        """Pass on what a worker says, from a thread. Raises RuntimeError at a limit for threads."""
        if hello.rank not in self._log_sizes:
            channel.close()
            return
        frames = self._to_ranks[hello.rank] = queue.SimpleQueue()
        if self._memory:
            self._memory.note_first_step()
        self._send(RankConnected(hello.rank))
        _start(lambda: self._read(hello.rank, channel))
        _start(lambda: _pass_on(frames, channel))

    def _read(self, rank: int, channel: Channel) -> None:
        try:
            while True:
                self._send(FromRank(rank, channel.receive_frame()))
        except CLOSED:
            self._to_ranks[rank].put(None)
            self._send(RankClosed(rank))

    def _send(self, message: NodeMessage) -> None:
        """Send a message to the head; waits while it does not read."""
        try:
            with self._writing:
                write_frame(self._output, encode(message))
        except OSError:  # the stream of the head's messages ends too
            self._closing.set()

    def _beat(self) -> None:
        while not self._closing.wait(BEAT_SECONDS):
            for rank in list(self._log_sizes):  # another thread adds to it
                self._send_log(rank)
            self._send(Beat())

    def _send_log(self, rank: int) -> bool:
        """Send the next part of what a worker has printed; return whether there was one."""
        if self._pool is None:
            return False
        with (
            self._reading_log,  # the parts go in their order
            contextlib.suppress(OSError),
            self._pool.log_file(rank).open("rb") as file,
        ):
            file.seek(self._log_sizes[rank])
            if data := file.read(_MOST_LOG):
                self._log_sizes[rank] += len(data)
                self._send(LogText(rank, data))
                return True
        return False

    def _send_stacks(self, rank: int) -> None:
        assert self._folder
        file = paths.stacks_file(self._folder, rank)
        size = file.stat().st_size if file.exists() else 0
        if rank in self._workers:
            ask_for_stacks(self._workers[rank][0])
        time.sleep(_STACKS_SECONDS)
        with contextlib.suppress(OSError), file.open("rb") as opened:
            opened.seek(size)
            text = opened.read().decode(errors="replace")
            if self._original:  # the head looks for places in the recipe as it knows it
                text = text.replace(str(self._folder / _RECIPE_FOLDER), self._original)
            self._send(Stacks(rank, text))


def reserved_port(address: str) -> socket.socket:
    """Return a socket that keeps a free port of `address`; only this user can listen there.

    Raises OSError.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Two sockets with this option may share a port if only one of them listens.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((address, 0))
    return holder


def _moved(folder: Path, spec: RunSpec) -> RunSpec:
    """Let the recipe of the run lie in the copy of its folder; return the settings with that."""
    place = folder / _RECIPE_FOLDER / Path(spec.recipe).name
    moved = msgspec.structs.replace(spec, recipe=str(place))
    write_atomically(folder / FILE_NAME, encode_spec(moved, stored_environment(folder)))
    return moved


def _is_left(folder: Path) -> bool:
    """Wait until no worker of an earlier attempt is in `folder`; return whether that is so."""
    deadline = time.monotonic() + WAIT_SECONDS
    while presence.is_held(paths.workers_lock(folder)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _pass_on(frames: queue.SimpleQueue[bytes | None], channel: Channel) -> None:
    """Send the head's messages to a worker, whose slowness delays no other one."""
    with contextlib.suppress(*CLOSED):
        while (frame := frames.get()) is not None:
            channel.send_frame(frame)
    channel.close()


def _start(target: Callable[[], None]) -> None:
    threading.Thread(target=target, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
