"""The queue: which run waits for which, the sentences about it, and its file."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import msgspec
import pytest

from engine.messages.channel import Server
from engine.messages.events import AttemptStarted, Event, Paused, Queued, RunEnded
from engine.processes import process
from engine.runs import device_queue
from engine.runs.device_queue import CannotMoveRun, Ticket
from engine.runs.store.run_store import RunStore
from engine.spec.run_spec import RunSpec
from engine.system import paths
from tests.support.recorded_runs import new_run_folder
from tests.support.sentences import sentence

NAMES = {"g0": "GPU 0", "g1": "GPU 1"}
BORN = process.start_time(os.getpid())


def ticket(
    run: str, *devices: str, place: device_queue.Place = "waiting", **changes: Any
) -> Ticket:
    """A ticket of this very process, which lives, for a run that wants all its devices alone."""
    settings: dict[str, Any] = {"pid": os.getpid(), "created": BORN, "exclusive_devices": devices}
    return Ticket(run, devices=devices, place=place, **(settings | changes))


def dead(run: str, *devices: str, place: device_queue.Place = "waiting") -> Ticket:
    return ticket(run, *devices, place=place, created=BORN - 100.0)


def runs(line: list[Ticket]) -> list[str]:
    return [each.run for each in line]


@pytest.mark.parametrize(
    ("wish", "devices", "alone"),
    [
        ("gpus", ("GPU-1", "MIG-2"), ("GPU-1", "MIG-2")),
        ("gpus", ("cpu:0",), ()),
        ("always", ("cpu:0", "cpu:1"), ("cpu:0", "cpu:1")),
        ("never", ("GPU-1",), ()),
    ],
)
def test_what_a_run_waits_for(wish: Any, devices: tuple[str, ...], alone: tuple[str, ...]) -> None:
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=devices, queue=wish)
    assert device_queue.exclusive_devices(spec) == alone


def test_parts_of_a_set_wait_in_strict_order() -> None:
    a = ticket("a", "g0", "g1", place="inside")
    b, c, d = ticket("b", "g1"), ticket("c", "g0"), ticket("d", "g0", "g1")
    line = [a, b, c, d]
    assert [runs(device_queue.ahead_of(each, line)) for each in line] == [
        [],
        ["a"],
        ["a"],
        ["a", "b", "c"],
    ]
    late = ticket("e", "g1")
    assert runs(device_queue.ahead_of(late, [b, d, late])) == ["b", "d"]  # d does not starve


def test_no_run_waits_for_other_devices_or_for_a_run_that_released_its_own() -> None:
    inside = ticket("a", "g0", place="inside")
    assert device_queue.ahead_of(ticket("b", "g1"), [inside]) == []
    assert device_queue.ahead_of(ticket("b", "g0", exclusive_devices=()), [inside]) == []
    assert device_queue.ahead_of(ticket("b", "g0"), [ticket("a", "g0", place="aside")]) == []
    assert runs(
        device_queue.ahead_of(ticket("b", "g0"), [ticket("a", "g0", exclusive_devices=())])
    ) == ["a"]


def test_no_two_runs_share_a_device_none_starves_and_each_device_keeps_its_order() -> None:
    dice = random.Random(6)
    line: list[Ticket] = []
    arrived: list[Ticket] = []
    entered: list[str] = []
    while len(entered) < 300 or line:
        if len(arrived) < 300 and dice.random() < 0.6:
            devices = dice.sample(["g0", "g1", "g2", "g3"], dice.randint(1, 3))
            arrived.append(ticket(str(len(arrived)), *devices))
            line.append(arrived[-1])
        for k, each in enumerate(line):
            if each.place == "waiting" and not device_queue.ahead_of(each, line):
                line[k] = msgspec.structs.replace(each, place="inside")
                entered.append(each.run)
        inside = [each for each in line if each.place == "inside"]
        used = [device for each in inside for device in each.devices]
        assert len(used) == len(set(used))
        assert inside or not line, "everybody waits"
        if inside:
            line.remove(dice.choice(inside))
    for device in NAMES:
        users = [each.run for each in arrived if device in each.devices]
        assert [run for run in entered if run in users] == users


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        (("g0",), sentence("queued-behind-run-on-in-line", run="a", device="GPU 0", place="3rd")),
        (("g1",), sentence("queued-behind-run-on-in-line", run="b", device="GPU 1", place="next")),
        (
            ("g0", "g1"),
            sentence("queued-behind-run-on-gpu"),
        ),
        (("g2",), sentence("queued-behind-run-on-in-line", run="c", device="g2", place="2nd")),
    ],
)
def test_it_says_behind_whom_where_and_at_which_place(devices: tuple[str, ...], text: str) -> None:
    line = [
        ticket("a", "g0", place="inside"),
        ticket("b", "g1", place="inside"),
        ticket("c", "g0", "g2"),
        ticket("d", "g0"),
    ]
    mine = ticket("e", *devices)
    assert device_queue.describe(mine, device_queue.ahead_of(mine, line), NAMES) == text


@pytest.mark.parametrize(
    ("run", "where", "order"),
    [
        ("d", "up", "abdce"),
        ("d", "first", "adbce"),
        ("b", "down", "acbde"),
        ("e", "up", "abcde"),
        ("a", "up", "abcde"),
        ("d", "down", "abcde"),
    ],
)
def test_a_move_is_among_the_runs_that_wait_for_the_same_devices(
    run: str, where: device_queue.Where, order: str
) -> None:
    line = [ticket("a", "g0", place="inside"), *(ticket(each, "g0") for each in "bcd")]
    line.append(ticket("e", "g1"))
    for each in line:
        device_queue.enter(each)
    if order == "abcde":
        with pytest.raises(CannotMoveRun, match=r"line already|not wait"):
            device_queue.move(run, where)
    else:
        device_queue.move(run, where)
    assert "".join(runs(device_queue.read())) == order


def test_a_run_comes_in_when_those_ahead_are_gone() -> None:
    a, b, c = ticket("a", "g0"), ticket("b", "g0"), ticket("c", "g0")
    assert [runs(device_queue.enter(each)) for each in (a, b, c)] == [[], ["a"], ["a", "b"]]
    device_queue.leave(a)
    assert runs(device_queue.enter(c)) == ["b"]
    assert device_queue.enter(b) == []
    assert [each.place for each in device_queue.read()] == ["inside", "waiting"]


def test_the_tickets_of_the_dead_do_not_count() -> None:
    file = paths.home() / device_queue.FILE_NAME
    file.parent.mkdir(parents=True)
    gone, also = dead("a", "g0", place="inside"), dead("b", "g0")
    file.write_bytes(msgspec.json.encode([gone, also, ticket("c", "g0")]))
    assert runs(device_queue.read()) == ["c"]
    assert device_queue.enter(ticket("c", "g0")) == []
    assert runs(msgspec.json.decode(file.read_bytes(), type=list[Ticket])) == ["c"]


def test_a_run_that_released_its_devices_lets_others_run_and_reacquires_them_later() -> None:
    a, b = ticket("a", "g0"), ticket("b", "g0")
    device_queue.enter(a)
    assert device_queue.enter(b)
    device_queue.release(a)
    assert device_queue.enter(b) == []
    assert runs(device_queue.reacquire(a)) == ["b"]
    device_queue.leave(b)
    assert device_queue.reacquire(a) == []
    assert runs(device_queue.enter(b)) == ["a"]


@pytest.fixture
def active() -> Iterator[Callable[..., Ticket]]:
    """Makes a run that this very process supervises, and its ticket."""
    with ExitStack() as stack:

        def make(devices: tuple[str, ...], *said: Event, wish: str = "gpus") -> Ticket:
            spec = RunSpec(recipe="digits", strategy="torch/single", devices=devices, queue=wish)  # type: ignore[arg-type]
            folder = new_run_folder(spec)
            store = stack.enter_context(closing(RunStore(folder)))
            for event in (AttemptStarted(1, os.getpid(), BORN), *said):
                store.append(event, 1.0)
            store.commit()
            stack.enter_context(closing(Server(folder, lambda hello, channel: None)))
            return ticket(folder.name, *devices)

        yield make


@pytest.mark.parametrize("content", [b"", b"{", b'[{"run": 1}]', b"\xff", None])
def test_a_damaged_file_is_rebuilt_from_the_runs(
    content: bytes | None, active: Callable[..., Ticket]
) -> None:
    """Who trains stays inside, who waits stays in line, and who comes then waits for both."""
    inside = active(("g0",))
    aside = active(("g0",), Paused(3, freed_devices=True))
    waiting = active(("g0",), Queued((inside.run,), "Queued."))
    other = active(("g1",), wish="never")
    active(("g0",), RunEnded("finished", "All 2 epochs are done."))
    file = paths.home() / device_queue.FILE_NAME
    if content is not None:
        file.write_bytes(content)
    line = device_queue.read()
    assert runs(line) == [inside.run, aside.run, waiting.run, other.run]
    assert [each.place for each in line] == ["inside", "aside", "waiting", "inside"]
    assert (line[0].exclusive_devices, line[3].exclusive_devices) == (("g0",), ())
    assert runs(device_queue.enter(ticket("99", "g0"))) == [inside.run, waiting.run]
    assert runs(msgspec.json.decode(file.read_bytes(), type=list[Ticket])) == [*runs(line), "99"]
    device_queue.leave(inside)
    assert device_queue.enter(waiting) == []


def test_a_run_that_cannot_be_read_is_not_in_the_way_of_a_damaged_queue(
    active: Callable[..., Ticket],
) -> None:
    for damaged in ("run.sqlite-wal", "spec.toml"):
        (paths.run_folder(active(("g0",)).run) / damaged).write_bytes(b"\xff" * 99_999)
    assert runs(device_queue.read()) == []
    assert device_queue.enter(ticket("99", "g0")) == []


def test_a_queue_that_cannot_be_written_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_queue, "LOCK_SECONDS", 0.0)
    device_queue.enter(ticket("a", "g0"))
    with device_queue._locked_tickets(), pytest.raises(OSError, match="lock"):
        device_queue.leave(ticket("a", "g0"))
