"""What is measured for another machine: its answers arrive, are kept there, and it never outlives
who asked."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from engine import client
from engine.facts.run_facts import Planning
from engine.interface import local_engine
from engine.interface.encoding import decode_answer, decode_told, methods
from engine.interface.value_encoding import without_defaults
from engine.interface.values import Code, NoAnswer, NotConnected
from engine.planning import kept, measuring_process
from engine.planning.kept import Earlier
from engine.planning.measuring_process import MeasuringEnd, MeasuringProcess
from engine.planning.requests import Answer, AskMemory, AskPreflight, AskRace
from engine.planning.results import Doing, MemoryEstimate, Preflight, Race, Raced
from engine.processes.process import PROJECT
from engine.remote.connection import Connection, LinkState
from engine.remote.frames import Answered, Cancel, Told
from engine.spec.run_spec import RunSpec
from engine.system import paths
from engine.system.machines import RemoteMachine
from tests.support.planning_program import SPEC, program, serving
from tests.support.remote_followed import LONGEST, Followed
from tests.support.remote_peer import Peer
from tests.support.runs import processes_below

pytestmark = pytest.mark.usefixtures("processes")

RACE = AskRace(entrants=(SPEC,), steps=7)
ENDLESS = replace(RACE, steps=1000)
"""Until it is stopped."""

CODE = Code("mine.py", b"def model():\n    ...\n\ndef datasets():\n    ...\n")


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The remote side starts a program that measures nothing; returns the process ids of each."""
    found: list[int] = []

    def start(request: Any) -> MeasuringProcess:
        process = MeasuringProcess(request)
        found.append(process.pid)
        return process

    monkeypatch.setattr(measuring_process, "ARGUMENTS", program(tmp_path))
    monkeypatch.setattr(local_engine, "MeasuringProcess", start)
    return found


@pytest.fixture
def peer(pids: list[int]) -> Iterator[Peer]:
    with closing(Peer()) as peer:
        yield peer


def begin(peer: Peer, request: Any) -> int:
    """Begin to measure; return the number of the call."""
    return peer.begin("measure", request=request)


def until_told(peer: Peer) -> Answer:
    """Return the next answer."""
    message = peer.read()
    assert isinstance(message, Told)
    [answer] = decode_told(methods()["measure"], message.name, message.values)
    assert isinstance(answer, Answer)
    return answer


def until_the_end(peer: Peer) -> tuple[list[Answer], MeasuringEnd]:
    """Return the rest of the answers, and the end."""
    answers: list[Answer] = []
    while isinstance(message := peer.read(), Told):
        answers += decode_told(methods()["measure"], message.name, message.values)
    assert isinstance(message, Answered)
    assert message.refusal is None, message.refusal
    end: MeasuringEnd = decode_answer(methods()["measure"], message.answer)
    return answers, end


def is_gone(pid: int) -> bool:
    """Wait until a process has ended."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(LONGEST)
    return not psutil.pid_exists(pid)


def test_answers_come_as_they_are_found_and_a_race_is_kept_there(peer: Peer) -> None:
    begin(peer, RACE)
    answers, end = until_the_end(peer)
    assert [type(each) for each in answers] == [Doing, Raced, Race]
    assert (end.exit_code, end.last_words, end.not_kept) == (0, "", "")
    assert kept.read(1) == answers[-1]
    begin(peer, AskMemory(SPEC))
    [estimate], _ = until_the_end(peer)
    assert isinstance(estimate, MemoryEstimate)
    assert kept.numbers() == [1], "it says nothing about a run"


def test_the_recipe_is_kept_there_and_what_was_measured_is_found_by_it(peer: Peer) -> None:
    spec = replace(SPEC, recipe="/elsewhere/mine.py")
    spec = replace(spec, recipe=peer.engine.keep_code(CODE))
    begin(peer, AskPreflight(spec))
    answers, _ = until_the_end(peer)
    preflight = answers[-1]
    assert isinstance(preflight, Preflight)
    received = Path(preflight.spec.recipe)
    assert received.is_relative_to(paths.home())
    assert received.read_bytes() == CODE.content
    assert peer.engine.find_results(spec) == Earlier(preflight=preflight)
    other = replace(spec, devices=("cpu:0", "cpu:1"))
    assert peer.engine.find_results(other) == Earlier()


def test_a_run_that_is_started_there_gets_what_was_measured_for_it(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Planning | None] = []

    def start(spec: RunSpec, tags: object, planning: Planning | None) -> str:
        planned.append(planning)
        return "1"

    monkeypatch.setattr(client, "start", start)
    begin(peer, RACE)
    until_the_end(peer)
    for spec in (SPEC, replace(SPEC, batch_size=7)):
        assert peer.engine.start(spec) == "1"
    assert [each and each.number for each in planned] == [1, None]


def test_a_real_process_measures() -> None:
    with closing(Peer()) as peer:
        begin(peer, replace(RACE, steps=5))
        answers, end = until_the_end(peer)
    race = answers[-1]
    assert isinstance(race, Race), end
    assert race.entries[0].samples_per_second


def test_a_stop_brings_what_was_found(peer: Peer, pids: list[int]) -> None:
    number = begin(peer, ENDLESS)
    until_told(peer)
    peer.send(Cancel(number))
    answers, end = until_the_end(peer)
    assert isinstance(answers[-1], Race)
    assert end.exit_code == 0
    assert is_gone(pids[0])


def test_a_stop_that_comes_at_once_ends_it_too(peer: Peer) -> None:
    peer.send(Cancel(begin(peer, ENDLESS)))
    assert isinstance(until_the_end(peer)[0][-1], Race)


def test_it_ends_with_the_connection(peer: Peer, pids: list[int]) -> None:
    begin(peer, ENDLESS)
    until_told(peer)
    peer.close_input()
    assert peer.wait()
    assert is_gone(pids[0])


def test_a_crash_is_told_with_the_end_of_its_log(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes = ("-c", "import sys; sys.exit('The disk is on fire.')")
    monkeypatch.setattr(measuring_process, "ARGUMENTS", crashes)
    begin(peer, RACE)
    answers, end = until_the_end(peer)
    assert answers == []
    assert (end.exit_code, end.last_words) == (1, "The disk is on fire.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"entrants": [without_defaults(SPEC) | {"warp_factor": 9}]}, "setting warp_factor"),
        ({"entrants": 7}, "entrants does not fit"),
        ({"warp_factor": 9}, "setting warp_factor"),
        ({"type": "dream"}, "does not fit: Invalid value 'dream'"),
    ],
)
def test_what_is_not_known_there_is_refused_by_name(
    peer: Peer, change: dict[str, Any], said: str, pids: list[int]
) -> None:
    refusal = peer.answer(peer.begin("measure", request=without_defaults(RACE) | change)).refusal
    assert refusal is not None
    assert said in refusal.text
    assert pids == []


def test_what_cannot_be_kept_is_said(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(result: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "keep", full)
    begin(peer, RACE)
    _, end = until_the_end(peer)
    assert end.not_kept == "What was measured could not be kept: No space left on device."


class Measured:
    """A measurement of another machine, in a thread of its own."""

    def __init__(self, connection: Connection, request: Any) -> None:
        self.answers: list[Answer] = []
        self.has_begun, self.cancelled = threading.Event(), threading.Event()
        self.end = ThreadPoolExecutor(1).submit(
            connection.engine.measure, request, self._take, self.cancelled
        )

    def _take(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.has_begun.set()


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., tuple[Connection, Followed]]]:
    with ExitStack() as stack:

        def begin(*command: str) -> tuple[Connection, Followed]:
            followed = Followed()
            machine = RemoteMachine(name="gpus", destination="me@gpus")
            connection = Connection(
                machine, followed.take_status, command=command or serving(tmp_path)
            )

            def end() -> None:
                connection.close()
                connection.join(seconds=LONGEST)

            stack.callback(end)
            connection.start()
            followed.wait_for_state(LinkState.CONNECTED)
            return connection, followed

        yield begin


def test_a_connection_that_breaks_ends_it_and_it_is_not_begun_again(
    connect: Callable[..., tuple[Connection, Followed]],
) -> None:
    connection, followed = connect()
    measured = Measured(connection, ENDLESS)
    assert measured.has_begun.wait(LONGEST)
    below = processes_below(connection.pid)
    assert below
    told = len(followed.statuses)
    os.kill(connection.pid, signal.SIGKILL)
    with pytest.raises(NotConnected, match="broke before the answer came"):
        measured.end.result(LONGEST)
    assert all(is_gone(each.pid) for each in below)
    followed.wait_for_state(LinkState.CONNECTED, after=told)
    assert Measured(connection, RACE).end.result(LONGEST) == MeasuringEnd(number=1)
    assert processes_below(connection.pid) == []


OLDER = f"""
import sys
sys.path.insert(0, {str(PROJECT)!r})
from engine.interface import encoding
from engine.remote import server
del encoding.methods()["measure"]
server.serve(sys.argv[1])
"""


def test_an_older_traindeck_there_refuses_in_a_sentence(
    connect: Callable[..., tuple[Connection, Followed]],
) -> None:
    connection, _ = connect(sys.executable, "-c", OLDER, "NONCE")
    with pytest.raises(NoAnswer, match=r"gpus: The .* cannot do this \(measure\): update it on"):
        Measured(connection, RACE).end.result(LONGEST)


def test_a_stop_and_a_closed_connection(
    connect: Callable[..., tuple[Connection, Followed]],
) -> None:
    connection, _ = connect()
    measured = Measured(connection, ENDLESS)
    measured.cancelled.set()
    measured.end.result(LONGEST)
    assert isinstance(measured.answers[-1], Race)
    other = Measured(connection, ENDLESS)
    assert other.has_begun.wait(LONGEST)
    connection.close()
    with suppress(NotConnected):  # what it has found may still arrive
        other.end.result(LONGEST)
    connection.join(seconds=LONGEST)
    with pytest.raises(NotConnected):
        Measured(connection, RACE).end.result(LONGEST)


def test_what_is_raised_by_who_is_told_comes_out_of_the_call(
    connect: Callable[..., tuple[Connection, Followed]],
) -> None:
    connection, _ = connect()

    def tell(answer: Answer) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        connection.engine.measure(RACE, tell, threading.Event())
