"""The queue of this machine: the devices that each active run uses or waits for, in order.

One file in the data folder has a ticket for every active run, in the order of their starts. Writers
hold a lock and replace the file atomically, so that readers need no lock. A missing or damaged file
is rebuilt from the stores of the runs.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec
from filelock import FileLock

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import LARGEST_JSON, UnfitFile, read_regular
from engine.messages.channel import CONTROL_FILE, supervisor_pid
from engine.processes import presence
from engine.processes.machine import Machine, is_here
from engine.processes.process import is_alive
from engine.runs.run_state import RunState, RunStatus
from engine.spec.device_names import is_logical_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import UnreadableSpec, read_spec
from engine.system import paths
from engine.system.paths import workers_lock

FILE_NAME = "queue.json"
LOCK_SECONDS = 10.0
"""The longest wait for the lock, which other processes hold for a few milliseconds, and longer on a
busy disk: a run whose supervisor gets no ticket does not start."""

MEASUREMENT = "a measurement"
"""How what stands in the place of the number of a run begins, for what is measured before one."""

Place = Literal["waiting", "inside", "aside"]
Move = Literal["up", "down", "first"]
MOVES = get_args(Move)


class Ticket(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"exclusive_devices": "wants_alone"},
):
    """One active run. It counts only while its supervisor or one of its workers is alive."""

    run: str
    """Its number, or a text that begins with MEASUREMENT."""

    pid: int
    created: float
    """Start time of the supervisor's process, from `engine.processes.process.start_time`."""

    devices: tuple[str, ...]
    """All devices that the run uses, now or later."""

    exclusive_devices: tuple[str, ...]
    """The devices that the run does not share: it waits until no other run uses them."""

    place: Place = "waiting"
    """`inside`: the run uses its devices. `aside`: it is paused and has released them."""

    machine: Machine = Machine()
    """Where its supervisor runs; empty in an old file."""

    @property
    def is_alive(self) -> bool:
        """Whether its supervisor is alive, or workers that a killed one left use the devices."""
        folder = paths.run_folder(self.run)
        if is_here(self.machine) and is_alive(self.pid, self.created):
            return True
        return self.place == "inside" and presence.is_held(workers_lock(folder))

    def is_same(self, other: Ticket) -> bool:
        """Whether both are tickets of the same supervisor."""
        return (self.run, self.pid, self.created) == (other.run, other.pid, other.created)


class CannotMoveRun(Exception):
    """The requested move of a run in the queue is impossible; the text is a sentence."""


def exclusive_devices(spec: RunSpec) -> tuple[str, ...]:
    """Return the devices of `spec` for which its run waits until no other run uses them."""
    match spec.queue:
        case "always":
            return spec.devices
        case "gpus":
            return tuple(device for device in spec.devices if not is_logical_cpu(device))
        case "never":
            return ()


def ahead_of(ticket: Ticket, tickets: Sequence[Ticket]) -> list[Ticket]:
    """Return the tickets that `ticket` waits for: first those inside, then earlier waiting ones.

    A run waits only for runs before it in the queue, so no deadlock is possible.
    """
    inside = [each for each in tickets if each.place == "inside"]
    if any(each.is_same(ticket) for each in inside):
        return []
    waiting = [each for each in tickets if each.place == "waiting"]
    position = next((k for k, each in enumerate(waiting) if each.is_same(ticket)), len(waiting))
    wanted = set(ticket.exclusive_devices)
    return [each for each in [*inside, *waiting[:position]] if wanted.intersection(each.devices)]


def describe(ticket: Ticket, ahead: Sequence[Ticket], names: Mapping[str, str]) -> str:
    """Return a sentence such as `Queued behind run 12 on GPU 0 (2nd in line).`

    `names` has display names of devices; a device without one is named as in the spec.
    """
    groups: dict[tuple[str, int], list[str]] = {}
    for device in ticket.exclusive_devices:
        here = [each for each in ahead if device in each.devices]
        if here:
            place = 1 + sum(each.place == "waiting" for each in here)
            groups.setdefault((here[0].run, place), []).append(names.get(device, device))
    parts = [
        f"behind {named(run)} on {' and '.join(devices)} ({_ordinal(place)} in line)"
        for (run, place), devices in groups.items()
    ]
    return f"Queued {', '.join(parts)}."


def named(run: str) -> str:
    """Return how a sentence names who holds a ticket, such as `run 12`."""
    return run if run.startswith(MEASUREMENT) else f"run {run}"


def read() -> list[Ticket]:
    """Return the tickets of live supervisors, in the order of the queue. Raises OSError."""
    return [ticket for ticket in _read(_file()) if ticket.is_alive]


def enter(ticket: Ticket) -> list[Ticket]:
    """Give the run its devices if no ticket is ahead of it; return the tickets ahead.

    The first call adds the ticket to the queue. Raises OSError when the queue cannot be read or
    written now.
    """
    tickets = _read(_file())
    if any(each.is_same(ticket) for each in tickets):
        ahead = ahead_of(ticket, tickets)
        # Only the first and the last are checked, because checking all takes too long. The ticket
        # behind a dead supervisor notices it.
        if ahead and ahead[0].is_alive and ahead[-1].is_alive:
            return ahead
    with _locked_tickets() as tickets:
        if not any(each.is_same(ticket) for each in tickets):
            # A run has one supervisor: it was taken over if there is another ticket of it.
            tickets[:] = [*(each for each in tickets if each.run != ticket.run), ticket]
        ahead = ahead_of(ticket, tickets)
        if not ahead:
            _set_place(tickets, ticket, "inside")
    return ahead


def release(ticket: Ticket) -> None:
    """Release the devices of a paused run. Raises OSError."""
    with _locked_tickets() as tickets:
        _set_place(tickets, ticket, "aside")


def reacquire(ticket: Ticket) -> list[Ticket]:
    """Take the devices again after `release` if no other run uses them; return the runs that do.

    Raises OSError.
    """
    with _locked_tickets() as tickets:
        inside = [each for each in tickets if each.place == "inside"]
        others = ahead_of(ticket, inside)
        if not others:
            _set_place(tickets, ticket, "inside")
    return others


def leave(ticket: Ticket) -> None:
    """Remove the ticket from the queue. Raises OSError."""
    with _locked_tickets() as tickets:
        tickets[:] = [each for each in tickets if not each.is_same(ticket)]


def move(run: str, where: Move) -> None:
    """Move a waiting run relative to the runs that wait for the same devices.

    Raises CannotMoveRun, or OSError.
    """
    with _locked_tickets() as tickets:
        ticket = next((each for each in tickets if each.run == run), None)
        if ticket is None or ticket.place != "waiting":
            raise CannotMoveRun(f"Run {run} does not wait in the queue.")
        tickets[:] = moved(tickets, ticket, where)


def rebuild() -> None:
    """Write the queue again, without the tickets of ended runs; a damaged one from the runs.

    Raises OSError.
    """
    with _locked_tickets():
        pass


def moved(tickets: Sequence[Ticket], ticket: Ticket, where: Move) -> list[Ticket]:
    """Return `tickets` with `ticket` moved relative to those with the same devices.

    Raises CannotMoveRun.
    """
    place = tickets.index(ticket)
    competitors = [
        k
        for k, each in enumerate(tickets)
        if each.place == "waiting" and k != place and set(each.devices) & set(ticket.devices)
    ]
    earlier = [k for k in competitors if k < place]
    later = [k for k in competitors if k > place]
    if not (later if where == "down" else earlier):
        end = "last" if where == "down" else "first"
        raise CannotMoveRun(f"Run {ticket.run} is {end} in line already.")
    target = later[0] if where == "down" else earlier[-1 if where == "up" else 0]
    rest = [each for each in tickets if each is not ticket]
    rest.insert(target, ticket)
    return rest


def _set_place(tickets: list[Ticket], ticket: Ticket, place: Place) -> None:
    tickets[:] = [
        msgspec.structs.replace(each, place=place) if each.is_same(ticket) else each
        for each in tickets
    ]


def _file() -> Path:
    return paths.home() / FILE_NAME


def _read(file: Path) -> list[Ticket]:
    try:
        content = read_regular(file, LARGEST_JSON)
        return msgspec.json.decode(content, type=list[Ticket])
    except (FileNotFoundError, UnfitFile, ValueError, RecursionError):
        return list(_rebuilt_tickets())


def _rebuilt_tickets() -> Iterator[Ticket]:
    """Yield a ticket for every run with a supervisor, in the order of creation.

    Runs keep their devices; the moves of waiting runs are lost.
    """
    from engine.runs.store.store_reader import RunReader  # it imports numpy, which takes a while

    runs = paths.runs_folder()
    for run in reversed(paths.run_ids()):
        if not os.path.exists(f"{runs}/{run}/{CONTROL_FILE}"):  # noqa: PTH110  # there may be many
            continue
        folder = runs / run
        if not supervisor_pid(folder):
            continue
        try:
            spec = read_spec(folder)
            with RunReader(folder) as reader:
                status = reader.status()
        except (UnreadableSpec, sqlite3.Error, msgspec.DecodeError):
            continue  # its devices are unknown
        if status.state.is_over:
            continue
        pid, created = status.supervisor_pid, status.supervisor_created
        wanted, place = exclusive_devices(spec), _place(status)
        yield Ticket(run, pid, created, spec.devices, wanted, place, status.machine)


def _place(status: RunStatus) -> Place:
    if status.freed_devices:
        return "aside"
    return "waiting" if status.state is RunState.QUEUED else "inside"


@contextlib.contextmanager
def _locked_tickets() -> Iterator[list[Ticket]]:
    """Lock the queue and yield the tickets of live supervisors; the body changes them in place.

    They are written unless the body raises. Raises OSError, also when another process holds the
    lock for too long.
    """
    file = _file()
    paths.prepare_home()
    with FileLock(file.with_suffix(".lock"), mode=0o600).acquire(timeout=LOCK_SECONDS):
        tickets = [ticket for ticket in _read(file) if ticket.is_alive]
        yield tickets
        write_atomically(file, msgspec.json.format(msgspec.json.encode(tickets)), mode=0o600)


def _ordinal(number: int) -> str:
    if number == 1:
        return "next"
    tens, ones = divmod(number % 100, 10)
    ending = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number}{ending}"
