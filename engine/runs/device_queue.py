"""The queue: which run uses which devices of this machine, and who waits for them in what order.

One file in the data folder holds a ticket for every active run, in the order of their coming. It
is changed under a lock and replaced in one go, so that whoever reads it needs no lock. A file that
was deleted or damaged is made anew from the runs themselves.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec
from filelock import FileLock

from engine.messages.channel import supervisor_pid
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store_reader import RunReader
from engine.spec.device_names import is_logical_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import UnreadableSpec, read_spec
from engine.system import paths
from engine.system.atomic_file import write_atomically
from engine.system.process import is_alive

FILE_NAME = "queue.json"
LOCK_SECONDS = 2.0
"""Nobody holds the lock for longer than a few milliseconds, unless the system is in trouble."""

Place = Literal["waiting", "inside", "aside"]
Where = Literal["up", "down", "first"]
WAYS = get_args(Where)


class Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One active run. It counts only while its supervisor's process lives."""

    run: str
    pid: int
    created: float
    """Start time of the supervisor's process, as `engine.system.process.created` tells it."""

    devices: tuple[str, ...]
    """All that it uses, now or when its turn comes."""

    wants_alone: tuple[str, ...]
    """Those of them for which it waits until nobody else uses them."""

    place: Place = "waiting"
    """`aside`: it is paused and has freed its devices, so nobody waits for it."""

    @property
    def lives(self) -> bool:
        """Whether its supervisor is there."""
        return is_alive(self.pid, self.created)

    def is_of(self, other: Ticket) -> bool:
        """Whether both were drawn by the same supervisor."""
        return (self.run, self.pid) == (other.run, other.pid)


class CannotMove(Exception):
    """A place in the queue that cannot be changed like that; the text is a sentence."""


def wanted_alone(spec: RunSpec) -> tuple[str, ...]:
    """The devices of `spec` for which its run waits until nobody else uses them."""
    match spec.queue:
        case "always":
            return spec.devices
        case "gpus":
            return tuple(device for device in spec.devices if not is_logical_cpu(device))
        case "never":
            return ()


def ahead_of(ticket: Ticket, line: Sequence[Ticket]) -> list[Ticket]:
    """Those whom `ticket` waits for: first who is inside, then who waits in front of it.

    Whoever waits only waits for those in front, so nobody waits in a circle or for ever.
    """
    inside = [each for each in line if each.place == "inside"]
    if any(each.is_of(ticket) for each in inside):
        return []
    waiting = [each for each in line if each.place == "waiting"]
    mine = next((k for k, each in enumerate(waiting) if each.is_of(ticket)), len(waiting))
    wanted = set(ticket.wants_alone)
    return [each for each in [*inside, *waiting[:mine]] if wanted.intersection(each.devices)]


def describe(ticket: Ticket, ahead: Sequence[Ticket], names: Mapping[str, str]) -> str:
    """Such as `Queued behind run 12 on GPU 0 (2nd in line).`

    `names` holds what people call a device; others are called as the spec does.
    """
    groups: dict[tuple[str, int], list[str]] = {}
    for device in ticket.wants_alone:
        here = [each for each in ahead if device in each.devices]
        if here:
            place = 1 + sum(each.place == "waiting" for each in here)
            groups.setdefault((here[0].run, place), []).append(names.get(device, device))
    parts = [
        f"behind run {run} on {' and '.join(devices)} ({_ordinal(place)} in line)"
        for (run, place), devices in groups.items()
    ]
    return f"Queued {', '.join(parts)}."


def read() -> list[Ticket]:
    """The tickets of all supervisors that live, in their order. Raises OSError."""
    return [ticket for ticket in _read(_file()) if ticket.lives]


def enter(ticket: Ticket) -> list[Ticket]:
    """Let the run inside, if nobody is ahead of it; else those who are. The first call queues it.

    Raises OSError where the queue cannot be read or written now.
    """
    line = _read(_file())
    if any(each.is_of(ticket) for each in line):
        ahead = ahead_of(ticket, line)
        # Whoever died is noticed by the next one behind: asking for all of them costs too much.
        if ahead and ahead[0].lives and ahead[-1].lives:
            return ahead
    with _changing() as line:
        if not any(each.is_of(ticket) for each in line):
            line.append(ticket)
        ahead = ahead_of(ticket, line)
        if not ahead:
            _put(line, ticket, "inside")
    return ahead


def release(ticket: Ticket) -> None:
    """Let others use the run's devices while it is paused without them. Raises OSError."""
    with _changing() as line:
        _put(line, ticket, "aside")


def reacquire(ticket: Ticket) -> list[Ticket]:
    """Take the devices again after `release`, if nobody else is inside; else those who are.

    Raises OSError.
    """
    with _changing() as line:
        inside = [each for each in line if each.place == "inside"]
        others = ahead_of(ticket, inside)
        if not others:
            _put(line, ticket, "inside")
    return others


def leave(ticket: Ticket) -> None:
    """Give the ticket back. Raises OSError."""
    with _changing() as line:
        line[:] = [each for each in line if not each.is_of(ticket)]


def move(run: str, where: Where) -> None:
    """Change the place of a waiting run among those that wait for the same devices.

    Raises CannotMove, or OSError.
    """
    with _changing() as line:
        ticket = next((each for each in line if each.run == run), None)
        if ticket is None or ticket.place != "waiting":
            raise CannotMove(f"Run {run} does not wait in the queue.")
        line[:] = moved(line, ticket, where)


def moved(line: Sequence[Ticket], ticket: Ticket, where: Where) -> list[Ticket]:
    """`line` with `ticket` earlier or later by one on its devices, or first. Raises CannotMove."""
    here = line.index(ticket)
    rivals = [
        k
        for k, each in enumerate(line)
        if each.place == "waiting" and k != here and set(each.devices) & set(ticket.devices)
    ]
    earlier, later = [k for k in rivals if k < here], [k for k in rivals if k > here]
    if not (later if where == "down" else earlier):
        place = "last" if where == "down" else "first"
        raise CannotMove(f"Run {ticket.run} is {place} in line already.")
    target = later[0] if where == "down" else earlier[-1 if where == "up" else 0]
    rest = [each for each in line if each is not ticket]
    rest.insert(target, ticket)
    return rest


def _put(line: list[Ticket], ticket: Ticket, place: Place) -> None:
    line[:] = [
        msgspec.structs.replace(each, place=place) if each.is_of(ticket) else each for each in line
    ]


def _file() -> Path:
    return paths.home() / FILE_NAME


def _read(file: Path) -> list[Ticket]:
    """All tickets, of dead supervisors too."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Ticket])
    except (FileNotFoundError, ValueError):
        return list(_drawn_again())


def _drawn_again() -> Iterator[Ticket]:
    """A ticket for every run that has a supervisor, in the order in which they were made.

    Who was moved in the queue loses that; what is on a device stays there.
    """
    for run in reversed(paths.run_ids()):
        folder = paths.run_folder(run)
        if not supervisor_pid(folder):
            continue
        try:
            spec = read_spec(folder)
            with RunReader(folder) as reader:
                status = reader.status()
        except (UnreadableSpec, sqlite3.Error, msgspec.DecodeError):
            continue  # nobody knows what it uses
        if status.state.is_over:
            continue
        pid, created = status.supervisor_pid, status.supervisor_created
        yield Ticket(run, pid, created, spec.devices, wanted_alone(spec), _place(status))


def _place(status: RunStatus) -> Place:
    if status.freed_devices:
        return "aside"
    return "waiting" if status.state is RunState.QUEUED else "inside"


@contextlib.contextmanager
def _changing() -> Iterator[list[Ticket]]:
    """The tickets of those who live, to be changed in place; written unless the body raises.

    Raises OSError; TimeoutError, which is one, when somebody else does not let go of the lock.
    """
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(file.with_suffix(".lock"), mode=0o600).acquire(timeout=LOCK_SECONDS):
        line = [ticket for ticket in _read(file) if ticket.lives]
        yield line
        write_atomically(file, msgspec.json.format(msgspec.json.encode(line)))


def _ordinal(number: int) -> str:
    if number == 1:
        return "next"
    tens, ones = divmod(number % 100, 10)
    ending = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number}{ending}"
