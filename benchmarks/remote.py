"""A run of another machine over a slow link: how soon its curves are there, and what it costs then.

`python -m benchmarks.remote [--points 10000000] [--seconds 20]` makes a run up with so many points,
and opens it over a real `sshd` behind 10 Mbit/s and 80 ms (`tests/support/slow_link.py`; needs
root). It prints the time from the click to the shown curves, over an open connection; then it
trains at 100 steps a second, and prints the bytes per second that arrive, with all headers, while
the run, the list of runs and the devices are shown. `--rate 200000 --pace 5000` shows what a link
does that is too narrow for all of it: the points come as blocks, and nothing grows.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from engine.messages.events import Metrics, Points, Progress, TrainingStarted
from engine.remote import ssh
from engine.remote.connection import Connection, LinkState
from engine.remote.watched import RemoteFollow
from engine.runs.run_follower import RunNews
from engine.runs.store.run_store import RunStore
from engine.system.machines import RemoteMachine
from engine.system.paths import HOME_VARIABLE
from tests.support import slow_link, ssh_server
from tests.support.recorded_runs import new_run_folder, this_process_supervises
from tests.support.slow_link import SlowLink
from tests.support.ssh_server import HOST, SshServer

SHOWN = ("train/loss", "train/learning_rate", "train/gradient_norm", "train/samples_per_second")
"""What is in sight: one curve in each of four plots, and the validation."""

VALIDATION = ("validation/loss", "validation/accuracy")
HIDDEN = tuple(f"rank/{rank}/step_time" for rank in range(4))
STEPS_PER_SECOND = 100
"""Of the run that was made up, and of the one that goes on unless another rate is chosen."""

TICK = 0.1
BATCH = 10_000
OPENINGS = 7


def make_run(points: int, begin: float) -> tuple[str, RunStore]:
    """Return the id of a run with `points` in all, and its store."""
    folder = new_run_folder()
    store = RunStore(folder)
    store.append(this_process_supervises(), begin)
    store.append(TrainingStarted(0, 1000, 0, 1, parameters=650, total_steps=2 * points), begin)
    steps = points // len(SHOWN + HIDDEN)
    for first in range(0, steps, BATCH):
        span = range(first, min(first + BATCH, steps))
        now = begin + first / STEPS_PER_SECOND
        store.append(Metrics(now, now + len(span) / STEPS_PER_SECOND, _points(span)), now)
        store.append(Metrics(now, now, _validation(first)), now)
        store.commit()
    return folder.name, store


def _points(span: range) -> list[Points]:
    return [
        Points(
            series,
            list(span),
            [math.exp(-step / 1e6) + 0.1 * math.sin(7919.0 * step + number) for step in span],
        )
        for number, series in enumerate(SHOWN + HIDDEN)
    ]


def _validation(step: int) -> list[Points]:
    return [Points(series, [step], [1.0 / (1.0 + step)]) for series in VALIDATION]


class Opening:
    """One look at the run: from the click until all curves in sight are there."""

    def __init__(self, connection: Connection, run_id: str) -> None:
        self._connection = connection
        self._begun = time.monotonic()
        self._missing = {*SHOWN, *VALIDATION}
        self._is_shown = threading.Event()
        self._arrived = threading.Event()
        self.seconds = 0.0
        self.follow: RemoteFollow = connection.follow(run_id, (), self._take)
        self._is_shown.set()

    def _take(self, news: RunNews) -> None:
        if news.series and self._missing:  # now the window knows which plots there are
            self._is_shown.wait()
            shown = [name for name in news.series if name in self._missing]
            self.follow.show(shown, self.follow.most)
        self._missing -= {update.series for update in news.curves}
        if not self._missing and not self._arrived.is_set():
            self.seconds = time.monotonic() - self._begun
            self._arrived.set()

    def wait(self) -> float:
        """Return the seconds that it took."""
        assert self._arrived.wait(60.0), f"without {self._missing}"
        return self.seconds


def train(store: RunStore, step: int, seconds: float, pace: int) -> int:
    """Record `pace` steps a second, as a supervisor does; return the last step."""
    began, first = time.monotonic(), step
    while time.monotonic() < began + seconds:
        time.sleep(TICK)
        now = time.time()
        reached = first + round((time.monotonic() - began) * pace)
        store.append(Metrics(now - TICK, now, _points(range(step, reached))), now)
        store.append(Progress(1, reached, 6400.0 + reached % 7, 0.01, 3600.0 - now % 60), now)
        store.commit()
        step = reached
    return step


def memory_of(server: SshServer) -> int:
    """Return the resident bytes of the Traindeck at the far end."""
    return max(int(process.memory_info().rss) for process in server.processes())


def open_link(stack: ExitStack, folder: Path, rate: float) -> tuple[SlowLink, SshServer]:
    """Start a server at the far end of a slow link."""
    link = stack.enter_context(SlowLink(delay=0.04, rate=rate))
    server = SshServer(folder / "ssh", link.far)
    server.prefix = link.prefix
    server.start()
    stack.callback(server.stop)
    os.environ[ssh.PROGRAM_VARIABLE] = server.ssh
    return link, server


def measure(points: int, seconds: float, rate: float, pace: int) -> Iterator[str]:
    """Yield lines with what was measured."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home = folder / "home"
        os.environ[HOME_VARIABLE] = str(home)
        begun = time.monotonic()
        run_id, store = make_run(points, time.time() - points / STEPS_PER_SECOND)
        stack.callback(store.close)
        yield f"a run of {points:,} points, made in {time.monotonic() - begun:.0f} s"
        link, server = open_link(stack, folder, rate)
        connected = threading.Event()
        begun = time.monotonic()
        machine = RemoteMachine(name=HOST, destination=HOST, command=server.command(home))
        connection = Connection(
            machine, lambda status: connected.set() if status.state is LinkState.CONNECTED else None
        )
        stack.callback(connection.join)
        stack.callback(connection.close)
        connection.start()
        assert connected.wait(60.0), connection.status
        yield f"connected after {time.monotonic() - begun:.2f} s"
        connection.watch_runs(lambda *_: None)
        connection.watch_devices(lambda snapshot: None)
        connection.engine.ping()
        taken, sizes = [], []
        for _ in range(OPENINGS):
            time.sleep(2.0)  # as a person does: TCP begins anew with a small window
            before = link.received()
            opening = Opening(connection, run_id)
            taken.append(opening.wait())
            sizes.append(link.received() - before)
            opening.follow.close()
        yield f"curves shown after {taken[0]:.2f} s, {sizes[0] / 1e3:.0f} kB"
        again = statistics.median(taken[1:])
        # Frames share one deflate stream, which knows what was sent a moment ago.
        yield (
            f"opened again: {again:.2f} s (median of {len(taken) - 1}; {min(taken[1:]):.2f} to "
            f"{max(taken[1:]):.2f} s), {statistics.median(sizes[1:]) / 1e3:.0f} kB"
        )
        newest = 0.0

        def take(news: RunNews) -> None:
            nonlocal newest
            for update in news.curves:
                if update.series == SHOWN[0] and len(update.points.time):
                    newest = float(update.points.time[-1])

        connection.follow(run_id, (*SHOWN, *VALIDATION), take)
        step = train(store, points // len(SHOWN + HIDDEN), 2.0, pace)
        before, begun, memory = link.received(), time.monotonic(), memory_of(server)
        train(store, step, seconds, pace)
        cost = (link.received() - before) / (time.monotonic() - begun)
        yield (
            f"while it trains at {pace} steps/s: {cost / 1e3:.1f} kB/s; the newest point is "
            f"{time.time() - newest:.1f} s old; the far end has {memory_of(server) >> 20} MiB, "
            f"before {memory >> 20} MiB"
        )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=10e6, help="of the link, in bit/s")
    parser.add_argument("--pace", type=int, default=STEPS_PER_SECOND, help="steps a second")
    options = parser.parse_args()
    if why := ssh_server.MISSING or slow_link.missing():
        raise SystemExit(f"This cannot be measured here: {why}.")
    for line in measure(options.points, options.seconds, options.rate, options.pace):
        print(line, flush=True)


if __name__ == "__main__":
    main()
