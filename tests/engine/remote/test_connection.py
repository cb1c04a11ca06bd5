"""The connection: it comes back by itself, says why it cannot, and loses and repeats nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.client import NoSuchRun
from engine.environments import registry
from engine.interface.encoding import methods
from engine.interface.values import CreationPart, NoAnswer, NotConnected
from engine.messages.events import Notice
from engine.processes.process import PROJECT
from engine.remote import frames
from engine.remote.connection import Connection, LinkState, Timing
from engine.remote.session import Broken, Session
from engine.system.cancelled import Cancelled
from engine.system.machines import RemoteMachine
from tests.support.recorded_runs import SPEC, RecordedRun
from tests.support.remote_followed import LONGEST, Followed
from tests.support.uv_double import UvDouble

pytestmark = pytest.mark.usefixtures("processes")

SERVE = (sys.executable, str(PROJECT / "main.py"), "serve", "NONCE")
DOUBLE = (sys.executable, "-m", "tests.support.remote_double")
MACHINE = RemoteMachine(name="gpus", destination="me@gpus")
QUICK = Timing(ping=0.05, silence=60.0, connect=60.0, first_wait=0.01, longest_wait=0.1, tick=0.01)

Connect = Callable[..., tuple[Connection, Followed]]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    with ExitStack() as stack:

        def begin(*command: str, timing: Timing = QUICK) -> tuple[Connection, Followed]:
            followed = Followed()
            words = command or SERVE
            connection = Connection(MACHINE, followed.take_status, command=words, timing=timing)

            def end() -> None:
                connection.close()
                connection.join(seconds=LONGEST)

            stack.callback(end)
            connection.start()
            return connection, followed

        yield begin


@pytest.fixture
def run() -> Iterator[RecordedRun]:
    run = RecordedRun()
    with closing(run.store):
        run.begin()
        yield run


def test_what_is_cut_off_again_and_again_is_followed_without_a_gap_and_without_twice(
    connect: Connect, run: RecordedRun
) -> None:
    connection, followed = connect()
    connection.follow(run.id, ["train/loss"], followed.take)
    for cut in range(3):
        told = len(followed.statuses)
        begin = 10 * cut
        run.add_points("train/loss", range(begin, begin + 10))
        run.add(Notice(f"notice {cut}"))
        run.write_log(0, f"line {cut}\n")
        followed.wait(lambda end=begin + 10: len(followed.steps.get("train/loss", ())) >= end)
        followed.wait(lambda end=cut + 1: len(followed.lines) >= end)
        os.kill(connection.pid, signal.SIGKILL)
        followed.wait_for_state(LinkState.WAITING, after=told)
    run.add_points("train/loss", [30])
    followed.wait(lambda: len(followed.steps["train/loss"]) > 30)
    assert followed.steps["train/loss"] == list(range(31))
    assert followed.texts == [f"notice {cut}" for cut in range(3)]
    assert followed.lines == [f"line {cut}" for cut in range(3)]


def test_calls_watches_and_the_round_trip(connect: Connect, run: RecordedRun) -> None:
    connection, followed = connect()
    with pytest.raises(NotConnected):
        connection.engine.ping()
    followed.wait(lambda: any(each.round_trip is not None for each in followed.statuses))
    connection.watch_runs(followed.take_runs)
    followed.wait(lambda: [each.id for each in followed.runs] == [run.id])
    assert not followed.runs[0].folder.exists(), "it is no path of this machine"
    assert str(followed.runs[0].folder) == f"gpus:{run.folder}"
    with pytest.raises(NoSuchRun):
        connection.engine.list_checkpoints("77")
    assert connection.engine.list_checkpoints(run.id) == []
    followed_run = connection.follow(run.id, [], followed.take)
    run.add_points("train/lr", [1])
    followed_run.show(["train/lr"], 2000)
    followed.wait(lambda: "train/lr" in followed.steps)
    followed_run.close()
    connection.engine.ping()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_there_leaves_no_temporary_folder(connect: Connect, number: int) -> None:
    connection, followed = connect()
    followed.wait_for_state(LinkState.CONNECTED)
    folder = Path(connection.engine.make_folder().path)
    assert folder.is_dir()
    told = len(followed.statuses)
    os.kill(connection.pid, number)
    followed.wait_for_state(LinkState.WAITING, after=told)  # that process has ended
    assert not folder.exists()


PRINTS = f"""
import os, sys
sys.path.insert(0, {str(PROJECT)!r})
from engine import client
from engine.remote import server
def check(*_):
    print("a library prints", flush=True)
    os.system("echo so does a program")
    return []
client.check = check
server.serve(sys.argv[1])
"""


def test_what_is_printed_there_does_not_get_into_the_protocol(connect: Connect) -> None:
    connection, followed = connect(sys.executable, "-c", PRINTS, "NONCE")
    followed.wait_for_state(LinkState.CONNECTED)
    for _ in range(2):
        assert connection.engine.check(SPEC) == []


def test_the_end_leaves_no_process(connect: Connect) -> None:
    connection, followed = connect()
    followed.wait_for_state(LinkState.CONNECTED)
    process = psutil.Process(connection.pid)
    connection.close()
    connection.join(seconds=LONGEST)
    assert not process.is_running()
    assert followed.statuses[-1].state is LinkState.CLOSED


def test_calls_that_wait_when_it_breaks_end_in_a_sentence(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, followed = connect(*DOUBLE, "deaf", "NONCE")
    followed.wait_for_state(LinkState.CONNECTED)
    waits, wait = threading.Semaphore(0), Session._wait

    def counted(*arguments: Any) -> Any:
        waits.release()
        return wait(*arguments)

    monkeypatch.setattr(Session, "_wait", counted)
    ask = ThreadPoolExecutor(2).submit
    acting, reading = ask(connection.engine.delete_run, "1"), ask(connection.engine.ping)
    for _ in range(2):
        assert waits.acquire(timeout=LONGEST)
    os.kill(connection.pid, signal.SIGKILL)
    with pytest.raises(NotConnected, match="whether it was done there is not known"):
        acting.result(LONGEST)
    with pytest.raises(NotConnected, match=r"broke before the answer came\.$"):
        reading.result(LONGEST)


@pytest.mark.nightly
def test_a_call_may_be_cancelled_or_take_too_long(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, followed = connect(*DOUBLE, "deaf", "NONCE")
    followed.wait_for_state(LinkState.CONNECTED)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        connection.engine.export_runs(("1",), "csv", lambda *_: None, cancelled)
    ping = methods()["ping"]
    hasty = ping._replace(terms=ping.terms._replace(seconds=0.01))
    monkeypatch.setitem(methods(), "ping", hasty)
    with pytest.raises(NoAnswer, match=r"has not answered within 0\.01 s"):
        connection.engine.ping()


def test_a_call_that_cleans_up_ends_when_that_is_done(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = UvDouble(tmp_path / "uv")
    uv.does("print('half', flush=True); time.sleep(3600)")
    monkeypatch.setenv("PATH", uv.path)
    connection, followed = connect()
    followed.wait_for_state(LinkState.CONNECTED)
    cancelled = threading.Event()

    def tell(part: CreationPart) -> None:
        if "half" in part.output:
            cancelled.set()

    with pytest.raises(Cancelled):
        connection.engine.make_environment("mine", ["torch"], "", tell, cancelled)
    assert list(registry.folder().iterdir()) == []


def test_a_silent_side_is_given_up_and_tried_again(connect: Connect) -> None:
    timing = QUICK._replace(silence=0.3)
    _, followed = connect(*DOUBLE, "halts", "NONCE", timing=timing)
    status = followed.wait_for_state(LinkState.WAITING)
    assert "nothing came from there for 0.3 s" in status.sentence
    assert status.next_try > 0
    followed.wait_for_state(LinkState.CONNECTED, after=followed.statuses.index(status))


@pytest.mark.nightly
def test_a_side_without_a_word_is_told_before_it_is_given_up(connect: Connect) -> None:
    timing = QUICK._replace(quiet=0.2)
    connection, followed = connect(*DOUBLE, "deaf", "NONCE", timing=timing)
    followed.wait(lambda: any(each.quiet > 0.2 for each in followed.statuses))
    assert connection.status.state is LinkState.CONNECTED
    assert connection.unheard_seconds > 0.2


def test_a_long_login_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    session = Session([*DOUBLE, "deaf", "NONCE"])
    session.heard_at = -3600.0
    heard: list[float] = []

    def ready(hello: frames.Hello) -> None:
        heard.append(session.heard_at)
        session.kill("that was all")

    with pytest.raises(Broken, match="that was all"):
        session.run(ready)
    assert heard[0] > 0


def test_a_login_that_hangs_is_given_up(connect: Connect) -> None:
    _, followed = connect(*DOUBLE, "mute", "NONCE", timing=QUICK._replace(connect=0.3))
    assert "longer than 0.3 s" in followed.wait_for_state(LinkState.WAITING).sentence


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ("noise", LinkState.FAILED, "more than 1 MiB of other text"),
        ("garbled", LinkState.FAILED, "is not Traindeck's"),
        ("other", LinkState.FAILED, "speak different protocols (4 and 3)"),
        ("cut", LinkState.WAITING, "exit code 0"),
        ("full", LinkState.WAITING, "The disk of gpus is full"),
        ("chatty", LinkState.CONNECTED, ""),
        ("newer", LinkState.CONNECTED, ""),
    ],
)
def test_every_way_to_fail_has_its_sentence(
    connect: Connect, how: str, state: LinkState, words: str
) -> None:
    _, followed = connect(*DOUBLE, how, "NONCE")
    assert words in followed.wait_for_state(state).sentence


def test_news_that_cannot_be_read_are_a_sentence(connect: Connect) -> None:
    connection, followed = connect(*DOUBLE, "newer", "NONCE")
    connection.follow("1", [], followed.take)
    followed.wait(lambda: bool(followed.troubles))
    assert "cannot be read" in followed.troubles[0]


def test_only_a_person_can_try_again_what_needs_one(connect: Connect, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"test -e {ready} && exec {' '.join(SERVE)}; exit 127"
    connection, followed = connect("sh", "-c", script)
    failed = followed.wait_for_state(LinkState.FAILED)
    assert "Traindeck was not found on gpus: install it there" in failed.sentence
    ready.touch()
    connection.retry()
    followed.wait_for_state(LinkState.CONNECTED)


def test_after_the_machine_has_slept_it_tries_at_once(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = QUICK._replace(first_wait=3600.0, longest_wait=3600.0)
    _, followed = connect("sh", "-c", "exit 255", timing=timing)
    followed.wait_for_state(LinkState.WAITING)
    told = len(followed.statuses)
    now = time.time
    monkeypatch.setattr("engine.remote.connection.time.time", lambda: now() + 600.0)
    followed.wait_for_state(LinkState.CONNECTING, after=told)


def test_after_a_sleep_a_dead_connection_is_noticed_soon(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = QUICK._replace(silence=3600.0, after_sleep=0.1)
    _, followed = connect(*DOUBLE, "deaf", "NONCE", timing=timing)
    followed.wait_for_state(LinkState.CONNECTED)
    now = time.time
    monkeypatch.setattr("engine.remote.connection.time.time", lambda: now() + 600.0)
    followed.wait_for_state(LinkState.WAITING)


def test_ssh_that_is_missing_is_said(connect: Connect) -> None:
    _, followed = connect("/nowhere/ssh")
    assert "cannot be started" in followed.wait_for_state(LinkState.FAILED).sentence
