"""The other end of a connection that does not wait: it sends as much as the link takes.

`Flood` serves in a thread, over a socketpair, in the place of the process of `ssh`; the program
`python -m tests.support.flooding_machine HOW NONCE` does the same on its standard streams.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from engine.doctor.finding import Finding
from engine.interface.encoding import encode_answer, methods
from engine.interface.news.packed_points import pack
from engine.interface.news.run_news import Curve, SentNews, SentRuns, StoryPart, encode_run
from engine.interface.news.sweep_news import SweepPart, SweepsNews
from engine.interface.value_encoding import encode
from engine.interface.values import ExaminationPart
from engine.messages.events import Notice
from engine.remote.frames import (
    MAJOR,
    MINOR,
    Answered,
    Call,
    FromRemote,
    Hello,
    Next,
    Told,
    ToRemote,
    Yielded,
)
from engine.remote.wire import FrameReader, FrameWriter, Garbled, banner
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.stored_points import StoredPoints
from engine.spec.run_spec import RunSpec
from engine.sweeps.report import SweepSummary
from tests.support.device_states import eight_gpus

FLOODS = {
    "calm": "one run, told once",
    "runs": "news of 299 runs",
    "most-runs": "lists of 40,000 runs, as many as are taken",
    "many-runs": "lists of 100,000 runs",
    "unreadable": "lists of 100,000 runs that cannot be read",
    "lines": "5,000 lines, each a message of its own",
    "long-lines": "one line of 8 MiB",
    "events": "5,000 events",
    "curves": "200 new curves",
    "series": "names of 100,000 curves",
    "sweeps": "2,000 sweeps",
    "devices": "devices, without a pause",
    "progress": "progress of one call",
    "unasked": "answers to no request",
    "zeros": "messages of 31 MiB that are a few kB on the way",
}
"""What each of them sends again and again, in words."""

RUN = "1"
"""The number of the run that is followed."""

_SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
_WHEN = 1_760_000_000.0


def run_info(number: int, updated: float = _WHEN) -> RunInfo:
    """A run that trains there."""
    status = RunStatus(started=_WHEN, updated=updated)
    return RunInfo(str(number), Path("/there"), _SPEC, status, RunState.RUNNING, "")


def runs_news(count: int, turn: int) -> bytes:
    """News of runs, all of which have changed since the turn before; a run in few bytes."""
    row = msgspec.msgpack.decode(encode_run(run_info(1)))
    row["status"] = {"started": _WHEN, "updated": _WHEN + turn}
    changed = {str(n): encode(row | {"id": str(n)}) for n in range(count, 0, -1)}
    return encode(SentRuns(list(changed), changed))


def _runs(count: int) -> Iterator[bytes]:
    if count < 1000:
        return (runs_news(count, turn) for turn in itertools.count())
    return itertools.cycle(runs_news(count, turn) for turn in range(2))


def _unreadable() -> Iterator[bytes]:
    why = [{str(n): f"It is damaged {turn}." for n in range(1, 100_001)} for turn in range(2)]
    return itertools.cycle([encode(SentRuns([], {}, each)) for each in why])


def _news(how: str) -> Iterator[bytes]:
    """Yield news of the run that is followed."""
    run, cursor = encode_run(run_info(int(RUN))), b"c"
    if how in ("lines", "long-lines"):
        count, size = (5000, 80) if how == "lines" else (1, 8 * 2**20)
        lines = [f"line {n} ".ljust(size, "x") for n in range(count)]
        parts = [msgspec.Raw(encode(StoryPart(lines=[line]))) for line in lines]
        yield from itertools.repeat(encode(SentNews(cursor, story=parts, run=run)))
    elif how == "events":
        for turn in itertools.count():
            numbers = range(5000 * turn, 5000 * (turn + 1))
            events = [(n, _WHEN + n, encode(Notice(f"event {n}"))) for n in numbers]
            parts = [msgspec.Raw(encode(StoryPart(events)))]
            yield encode(SentNews(cursor, story=parts, run=run))
    elif how == "curves":
        steps = np.arange(2000.0)
        packed = pack(StoredPoints(steps, steps + _WHEN, steps, 2000))
        names = [f"train/{n}" for n in range(200)]
        curves = [Curve(name, packed, True) for name in names]
        yield from itertools.repeat(encode(SentNews(cursor, curves, run=run, series=names)))
    elif how == "series":
        for turn in itertools.count():
            names = [f"train/{turn}/{n}" for n in range(100_000)]
            yield encode(SentNews(cursor, run=run, series=names))
    else:
        yield encode(SentNews(cursor, run=run))


def _sweeps() -> Iterator[bytes]:
    for turn in itertools.count():
        parts = {
            str(n): encode(
                SweepPart(SweepSummary(sweep=str(n), state="running", problem=f"{turn}"))
            )
            for n in range(2000, 0, -1)
        }
        yield encode(SweepsNews(list(parts), parts))


def _devices() -> Iterator[bytes]:
    method = methods()["watch_devices"]
    for turn in itertools.count():
        yield encode_answer(method, eight_gpus(time.time() + turn))


def _yielded(how: str, method: str) -> Iterator[bytes]:
    """Return all that a method yields."""
    match method, how:
        case "watch_runs", "runs":
            return _runs(299)
        case "watch_runs", "most-runs":
            return _runs(40_000)
        case "watch_runs", "many-runs":
            return _runs(100_000)
        case "watch_runs", "unreadable":
            return _unreadable()
        case "watch_runs", _:
            return iter([runs_news(1, 0)])
        case "follow", _:
            return _news(how)
        case "watch_sweeps", "sweeps":
            return _sweeps()
        case "watch_devices", "devices":
            return _devices()
        case _:
            return iter(())


class Server:
    """Speaks on two descriptors until the other side is gone."""

    def __init__(self, how: str, input: int, output: int, nonce: str) -> None:
        assert how in FLOODS, how
        self._how, self._nonce = how, nonce
        self._reader, self._output = FrameReader(input), output
        self._writer = FrameWriter(output)
        self._writing = threading.Lock()
        self._streams: dict[int, Iterator[bytes]] = {}
        self.sent = 0
        """Messages."""

    def run(self) -> None:
        """Answer, and flood."""
        try:
            os.write(self._output, banner(self._nonce))
            self._send(Hello(MAJOR, MINOR, "9.9.9", "flood", sorted(methods())))
            if self._how == "unasked":
                self._start(itertools.cycle([Answered(10**9), Told(10**9, "tell", encode([]))]))
            while True:
                self._take(msgspec.msgpack.decode(self._reader.read(), type=ToRemote))
        except (EOFError, OSError, Garbled):
            return

    def _take(self, message: ToRemote) -> None:
        match message:
            case Call() if methods()[message.method].yields:
                self._streams[message.number] = _yielded(self._how, message.method)
                self._yield(message.number)
            case Call(number, method) if method == "examine" and self._how == "progress":
                part = ExaminationPart(Finding("driver", "ok", "It answers."))
                words = (encode([part, ExaminationPart(doing=f"{n}")][n % 2]) for n in _COUNT)
                self._start(Told(number, "tell", b"\x91" + each) for each in words)
            case Call(number, method) if method == "ping" and self._how == "zeros":
                zeros = Told(number, "tell", bytes(31 * 2**20))
                self._start(itertools.repeat(zeros))
            case Call(number):
                self._send(Answered(number, encode(None)))
            case Next(number):
                self._yield(number)
            case _:
                pass

    def _yield(self, number: int) -> None:
        if (value := next(self._streams.get(number, iter(())), None)) is not None:
            self._send(Yielded(number, value))

    def _start(self, messages: Iterator[FromRemote]) -> None:
        def work() -> None:
            try:
                for each in messages:
                    self._send(each)
            except OSError:
                return

        threading.Thread(target=work, daemon=True, name="flood").start()

    def _send(self, message: FromRemote) -> None:
        with self._writing:
            self._writer.write(encode(message))
            self.sent += 1


_COUNT = itertools.count()


class Flood:
    """Stands in the place of the process of a session: patch `session.children.start` with it."""

    def __init__(self, how: str, command: Sequence[str]) -> None:
        """`command` ends with the nonce."""
        into, self._input = socket.socketpair()
        out, self._output = socket.socketpair()
        errors, self._errors = socket.socketpair()
        self.pid = 2**22  # that of no process
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(each.detach(), mode, buffering=0)
            for each, mode in ((into, "wb"), (out, "rb"), (errors, "rb"))
        )
        self.server = Server(how, self._input.fileno(), self._output.fileno(), command[-1])
        self._thread = threading.Thread(target=self.server.run, daemon=True, name="flood machine")
        self._thread.start()
        threading.Thread(target=self._end_with_server, daemon=True, name="end of flood").start()

    def _end_with_server(self) -> None:
        self._thread.join()
        self.kill()

    def kill(self) -> None:
        """End the connection at once."""
        for each in (self._input, self._output, self._errors):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended already
                continue

    terminate = kill

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the machine."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise subprocess.TimeoutExpired("flood", timeout or 0.0)
        self.kill()
        for each in (self._input, self._output, self._errors):
            each.close()
        self.returncode = 0
        return 0


if __name__ == "__main__":
    Server(sys.argv[1], 0, 1, sys.argv[2]).run()
