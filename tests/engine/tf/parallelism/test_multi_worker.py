"""What ends a pool of TensorFlow workers, and how fast; real processes, real signals."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import Failure, RunEnded
from engine.runs.run_state import RunState
from engine.spec.run_spec import RunSpec
from tests.support.programs import Program
from tests.support.runs import events, is_training, spec, wait_for, wait_for_end, wait_until_gone
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

HALTED = (
    "Rank 1 on cpu:1 failed: it has not answered for 8 s",
    "Rank 1 on cpu:1 stopped answering: rank 0 waited for it in vain",
)
"""The messages for a halted worker: of the supervisor, or of the other worker if it is faster."""

WANTED: RunSpec = spec("probe_keras", "tf/multi_worker", 2, epochs=1_000_000, learning_rate=0.05)


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run that trains; it is ended after the test."""
    started = client.start(WANTED)
    try:
        wait_for(started, is_training)
        yield started
    finally:
        if not client.get_run(started).state.is_over:
            client.send(started, Stop(now=True))
            wait_for_end(started)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("rank", "deadly", "said"),
    [
        (0, signal.SIGKILL, (sentence("rank-0-was-ended-by-sigkill"),)),
        (1, signal.SIGSTOP, HALTED),
    ],
)
def test_the_worker_that_died_is_named_and_nothing_is_left(
    rank: int, deadly: signal.Signals, said: tuple[str, ...], run_id: str
) -> None:
    """`tests/faults/test_tensorflow.py` kills one on every push, and sees the run go on."""
    info = client.get_run(run_id)
    ports = [port for pid in info.status.worker_pids for port in listening(pid)]
    assert len(ports) == 2
    os.kill(info.status.worker_pids[rank], deadly)
    ended = wait_for_end(run_id)
    assert ended.state is RunState.FAILED
    failure = failure_of(ended)
    assert (failure.rank, failure.device) == (rank, f"cpu:{rank}")
    assert failure.message.startswith(said)
    wait_until_gone(ended)
    for port in ports:
        wait_until_closed(port)


def test_a_port_that_is_taken_is_named_at_once(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        config = (
            f'{{"cluster": {{"worker": ["127.0.0.1:{port}"]}},'
            f' "task": {{"type": "worker", "index": 0}}}}'
        )
        module = "engine.tf.parallelism.multi_worker"
        start = f"from {module} import start_strategy; start_strategy(['CPU:0'])"
        program = Program(
            "tensorflow",
            "tests.support.light_worker",
            start,
            log=tmp_path / "log",
            variables={"TF_CONFIG": config},
        )
        try:
            told = program.output(1)
        finally:
            program.kill()
    assert sentence("could-not-open-server", port=port) in told


def wait_until_closed(port: int, seconds: float = 60.0) -> None:
    """Fail if `port` stays open: the threads of a process live a little longer than it."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=seconds).close()
        except (ConnectionRefusedError, ConnectionResetError):
            return
        assert time.monotonic() < deadline, f"{port} is still open"
        pause.wait(0.02)


def listening(pid: int) -> list[int]:
    """The TCP ports that a process listens on."""
    connections = psutil.Process(pid).net_connections("tcp")
    return [c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN]


def failure_of(info: client.RunInfo) -> Failure:
    """The failure of the one terminal event."""
    (ended,) = [event for event in events(info) if isinstance(event, RunEnded)]
    assert ended.failure is not None
    return ended.failure
