"""A forked worker, as its supervisor sees it: how it begins and how its end is known."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from engine.processes.process import ON_LINUX, UNKNOWN_EXIT, start_time
from engine.templates import forked_process
from engine.templates.forked_process import ForkedProcess
from engine.templates.protocol import Exited, Forked, Run, receive, send
from tests.support.kernel import KERNEL_TELLS

pytestmark = [
    pytest.mark.skipif(not ON_LINUX, reason="of Linux"),
    pytest.mark.usefixtures("processes"),
]


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    """The connection's end in a supervisor, and that in the worker and its template."""
    ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
    with closing(ours), closing(theirs):
        yield ours, theirs


@pytest.fixture
def silent_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that tells the exit code of a process to its parent only."""
    monkeypatch.setattr(forked_process, "exit_code_of", lambda *_: None)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    with subprocess.Popen(command) as process:
        yield process
        process.kill()


def follow(sleeper: subprocess.Popen[bytes], connection: Connection) -> ForkedProcess:
    return ForkedProcess(Forked(sleeper.pid, start_time(sleeper.pid)), connection)


def test_the_worker_is_told_to_run_once_it_is_followed(
    ends: tuple[Connection, Connection], sleeper: subprocess.Popen[bytes]
) -> None:
    assert follow(sleeper, ends[0]).pid == sleeper.pid
    assert receive(ends[1]) == Run()


@pytest.mark.usefixtures("silent_kernel")
@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([Exited(-9, by_template=True)], -9),
        ([Exited(3, by_template=False)], 3),
        ([Exited(3, by_template=False), Exited(-11, by_template=True)], -11),
        ([], UNKNOWN_EXIT),
    ],
)
def test_the_exit_code_is_that_of_the_template_or_else_of_the_worker(
    reports: list[Exited], expected: int, ends: tuple[Connection, Connection],
    sleeper: subprocess.Popen[bytes],
) -> None:  # fmt: skip
    process = follow(sleeper, ends[0])
    for report in reports:
        send(ends[1], report)
    ends[1].close()
    sleeper.kill()
    assert process.wait() == expected
    assert ends[0].closed


@pytest.mark.usefixtures("silent_kernel")
def test_a_template_that_says_nothing_is_not_waited_for_long(
    ends: tuple[Connection, Connection],
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was stopped."""
    monkeypatch.setattr(forked_process, "REPORT_SECONDS", 0.01)
    process = follow(sleeper, ends[0])
    sleeper.kill()
    assert process.wait() == UNKNOWN_EXIT


@pytest.mark.usefixtures("silent_kernel")
def test_reports_before_the_end_do_not_end_the_wait(
    ends: tuple[Connection, Connection], sleeper: subprocess.Popen[bytes]
) -> None:
    """A worker reports its code before it leaves; until then it holds its devices."""
    process = follow(sleeper, ends[0])
    send(ends[1], Exited(3, by_template=False))
    ends[1].close()
    os.kill(sleeper.pid, signal.SIGKILL)
    assert process.wait() == 3
    assert sleeper.wait() == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_code_of_a_worker_is_known_before_its_parent_has_waited_for_it(
    number: signal.Signals,
    ends: tuple[Connection, Connection],
    sleeper: subprocess.Popen[bytes],
) -> None:
    """The template was stopped."""
    process = follow(sleeper, ends[0])
    sleeper.send_signal(number)
    assert process.wait() == -number


@pytest.mark.skipif(not KERNEL_TELLS, reason="of Linux 6.15")
def test_the_code_of_a_worker_is_known_after_its_parent_has_waited_for_it(
    ends: tuple[Connection, Connection], sleeper: subprocess.Popen[bytes]
) -> None:
    """The template has ended, and the worker's new parent reports nothing."""
    process = follow(sleeper, ends[0])
    ends[1].close()
    sleeper.kill()
    sleeper.wait()
    assert process.wait() == -signal.SIGKILL


def _is_dead(sleeper: subprocess.Popen[bytes]) -> Forked:
    sleeper.kill()
    sleeper.wait()
    return Forked(sleeper.pid, 1.0)


def _has_another_pid(sleeper: subprocess.Popen[bytes]) -> Forked:
    return Forked(sleeper.pid, start_time(sleeper.pid) - 1.0)


def _followed() -> int:
    """How many descriptors of processes this one has; threads may open others meanwhile."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(entry.readlink()))
    return sum("pidfd" in link for link in links)


@pytest.mark.parametrize("state", [_is_dead, _has_another_pid])
def test_a_worker_that_is_gone_cannot_be_followed(
    state: Callable[[subprocess.Popen[bytes]], Forked],
    ends: tuple[Connection, Connection],
    sleeper: subprocess.Popen[bytes],
) -> None:
    before = _followed()
    with pytest.raises(OSError, match=r"pid|process"):
        ForkedProcess(state(sleeper), ends[0])
    assert _followed() == before
    assert not ends[1].poll()
