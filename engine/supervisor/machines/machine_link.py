"""The head's end of the connection to one other machine: its workers seem to be connected here."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.cluster.member import clock_note
from engine.cluster.relay import Lost, Stored, Transport
from engine.diagnosis.deadlines import AwakeClock
from engine.files.atomic_file import open_to_append
from engine.messages.channel import (
    Channel,
    CheckpointPart,
    CheckpointSent,
    Hello,
    Message,
    decode_frame,
    encode_frame,
)
from engine.processes.process import UNKNOWN_EXIT
from engine.spec.device_names import on_machine
from engine.supervisor.attempt import SILENCE_SECONDS
from engine.supervisor.inbox import (
    Inbox,
    Launch,
    LaunchedCold,
    LaunchEnded,
    LaunchFailed,
    MachineLost,
    MemoryMeasured,
    SnapshotReceived,
    Told,
    WorkerExited,
    WorkerLaunched,
)
from engine.supervisor.machines.messages import (
    Beat,
    Begun,
    Cold,
    Devices,
    End,
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
    decode_for_head,
    encode,
)
from engine.supervisor.machines.part_keeper import PartKeeper
from engine.system import paths
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)

SLOW_SECONDS = 5.0
"""A machine that says nothing for so long is slow; after `SILENCE_SECONDS` it is lost."""

TELL_SECONDS = 600.0
"""Time between two events about a slow machine."""

_MOST_FRAMES = 256
_MOST_PIECES = 2
"""On their way to a machine: so few pieces of a large file lie in the object store."""


class RelayedChannel(Channel):
    """The channel of a worker on another machine."""

    def __init__(
        self, rank: int, folder: Path, say: Callable[[HeadMessage], None], parts: Path | None = None
    ) -> None:
        """`folder` is that of the run, `say` sends a message to the machine; `parts` is where that
        writes its parts of checkpoints, if it sends none."""
        self._rank = rank
        self._say = say
        self._keeper = PartKeeper(folder, parts)
        self._frames: queue.Queue[bytes | None] = queue.Queue(_MOST_FRAMES)

    def put(self, frame: bytes | None) -> None:
        """Add a message that has come, or None for the end; waits while too many are unread."""
        self._frames.put(frame)

    def send_frame(self, frame: bytes) -> None:
        self._say(ToRank(self._rank, frame))

    def receive(self, timeout: float | None = None) -> Message:
        while True:
            try:
                frame = self._frames.get(timeout=timeout)
            except queue.Empty:
                raise TimeoutError from None
            if frame is None:
                raise EOFError
            message = decode_frame(frame)
            if isinstance(message, CheckpointPart):
                self._keeper.add(message)
            elif isinstance(message, CheckpointSent):
                self.send_frame(encode_frame(self._keeper.end(message)))
            else:
                return message

    def end_sending(self) -> None:
        pass

    def close(self) -> None:
        pass


class MachineLink:
    """One other machine of an attempt. `say` may be called from any thread."""

    def __init__(
        self,
        machine: str,
        ranks: list[int],
        folder: Path,
        transport: Transport,
        inbox: Inbox,
        report: Callable[[Launch | WorkerExited], None],
        parts: Path | None = None,
    ) -> None:
        """`folder` is that of the run; `report` gets what a `WorkerPool` reports; `parts` is that
        of a `RelayedChannel`."""
        self.machine = machine
        self.begun: queue.SimpleQueue[Begun] = queue.SimpleQueue()
        """The answer to `Begin`."""

        self._ranks = ranks
        self._folder = folder
        self._transport = transport
        self._inbox = inbox
        self._report = report
        self._parts = parts
        self._channels: dict[int, RelayedChannel] = {}
        self._running: set[int] = set()
        self._is_launching = self._is_lost = False
        self._outgoing: queue.SimpleQueue[HeadMessage | Stored | None] = queue.SimpleQueue()
        self._pieces = threading.Semaphore(_MOST_PIECES)
        self._closing = threading.Event()
        self._clock = AwakeClock()
        self._heard = self._clock()
        self._tell_again = 0.0
        for target in (self._follow, self._pass_on):
            threading.Thread(target=target, daemon=True, name=f"machine {machine}").start()

    def say(self, message: HeadMessage) -> None:
        """Send a message to the machine; never blocks."""
        self._outgoing.put(message)

    def send_piece(self, piece: Stored) -> None:
        """Send a part of a large file; waits while others are on their way. Raises Lost."""
        while not self._pieces.acquire(timeout=1.0):
            if self._closing.is_set() or self._is_lost:
                raise Lost(f"Machine {self.machine} was lost.")
        self._outgoing.put(piece)

    def launches(self) -> None:
        """Note that its workers are being started."""
        self._is_launching = True

    def end(self, *, kill: bool) -> None:
        """Terminate or kill its workers."""
        self.say(End(kill))

    def close(self) -> None:
        """End the program there; waits for it some seconds."""
        self._closing.set()
        self._outgoing.put(None)
        self._transport.close()

    def _follow(self) -> None:
        why = ""
        while not self._closing.is_set() and not why:
            try:
                frames = self._transport.take()
            except Lost as lost:
                why = str(lost)
                break
            now = self._clock()
            if frames:
                self._note_pause(now - self._heard)
                self._heard = now
            elif now - self._heard > SILENCE_SECONDS:
                why = f"it has not answered for {SILENCE_SECONDS:.0f} s"
            for frame in frames:
                try:
                    self._handle(decode_for_head.decode(frame))
                except msgspec.DecodeError as error:
                    why = f"it sends what is not understood ({error})"
        if why and not self._closing.is_set():
            self._lose(why)

    def _note_pause(self, seconds: float) -> None:
        """Tell of a machine that says something after a pause; its signs of life come each second.

        Not each time: a slow machine does it again and again.
        """
        if seconds > SLOW_SECONDS and self._clock() >= self._tell_again:
            self._tell_again = self._clock() + TELL_SECONDS
            text = (
                f"Machine {self.machine} has not answered for {seconds:.0f} s: it, or the network"
            )
            self._inbox.put(Told(f"{text} to it, is slow."))

    def _lose(self, why: str) -> None:
        _log.info("machine %s is lost: %s", self.machine, why)
        self._is_lost = True
        self.begun.put(Begun("", (), f"Machine {self.machine} was lost: {why}."))
        self._inbox.put(MachineLost(self.machine, why))
        for rank in sorted(self._running):
            if channel := self._channels.get(rank):
                channel.put(None)
            self._report(WorkerExited(rank, UNKNOWN_EXIT))
        self._running.clear()
        if self._is_launching:
            self._is_launching = False
            self._report(LaunchEnded())

    def _pass_on(self) -> None:
        """Send what waits, as few calls as possible."""
        while (message := self._outgoing.get()) is not None:
            batch = [message]
            while not (self._outgoing.empty() or isinstance(batch[-1], Stored)):
                following = self._outgoing.get()
                if following is None:
                    self._outgoing.put(None)
                    break
                batch.append(following)
            try:
                self._transport.give(
                    [each if isinstance(each, Stored) else encode(each) for each in batch]
                )
            except Lost as lost:
                _log.info("machine %s takes no messages: %s", self.machine, lost)
                return  # the thread that follows notices it too
            if isinstance(batch[-1], Stored):
                self._pieces.release()

    def _handle(self, message: NodeMessage) -> None:
        match message:
            case Begun(clock=clock):
                offset = clock - time.time() if clock else 0.0
                if told := clock_note(self.machine, offset):
                    self._inbox.put(Told(told))
                self.begun.put(message)
            case Launched(rank):
                self._running.add(rank)
                self._report(WorkerLaunched(rank, 0))
            case Cold(reason):
                self._report(LaunchedCold(f"on {self.machine}: {reason}"))
            case NotLaunched(reason):
                self._report(LaunchFailed(f"On {self.machine}: {reason}"))
            case LaunchDone():
                self._is_launching = False
                self._report(LaunchEnded())
            case RankConnected(rank) if rank in self._ranks:
                channel = RelayedChannel(rank, self._folder, self.say, self._parts)
                self._channels[rank] = channel
                self._inbox.connected(Hello(rank), channel)
            case FromRank(rank, frame) if rank in self._channels:
                self._channels[rank].put(frame)
            case RankClosed(rank) if rank in self._channels:
                self._channels[rank].put(None)
            case RankExited(rank, code):
                self._running.discard(rank)
                self._report(WorkerExited(rank, code))
            case LogText(rank, data) if rank in self._ranks:
                self._append(paths.log_file(self._folder, rank), data)
            case Stacks(rank, text) if rank in self._ranks:
                self._append(paths.stacks_file(self._folder, rank), text.encode())
            case Devices(snapshot):
                self._inbox.put(SnapshotReceived(named(snapshot, self.machine), self.machine))
            case Memory(measurement):
                measured = measurement._replace(time=time.time())  # the clock there may differ
                self._inbox.put(MemoryMeasured(measured, self.machine))
            case Beat():
                pass
            case _:
                _log.info("machine %s: %s is left out", self.machine, type(message).__name__)

    def _append(self, file: Path, data: bytes) -> None:
        try:
            with open_to_append(file) as opened:
                opened.write(data)
        except OSError as error:  # a full disk must not end the training
            _log.info("%s cannot be written: %s", file.name, error)


def named(snapshot: Snapshot, machine: str) -> Snapshot:
    """Return the snapshot of another machine with its devices named as the spec names them."""
    devices = tuple(
        msgspec.structs.replace(
            device, id=on_machine(machine, device.id), label=on_machine(machine, device.label)
        )
        for device in snapshot.devices
    )
    return msgspec.structs.replace(snapshot, devices=devices)
