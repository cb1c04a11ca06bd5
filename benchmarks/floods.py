"""A real window while a worker floods it with points and output, and what that costs the worker.

`python -m benchmarks.floods [--seconds 10]` lets a training loop of plain numpy report to a
supervisor's inbox and store, quietly first and then with 100,000 points a second in 20 series,
100 MB of output in a burst and a line of 1 MB. It prints how long the window needed for a frame
(everything that the event loop does between two of them), how much memory the window and the
supervisor took, whether every point is stored, and the ratio of the worker's time for a step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from engine.messages.channel import Hello, Server, connect
from engine.messages.events import AttemptStarted, Event, Metrics, Points, Progress, TrainingStarted
from engine.processes.process import start_time
from engine.runs.store.run_store import RunStore
from engine.runs.store.store_reader import RunReader
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from engine.supervisor.inbox import Disconnected, Inbox, MessageReceived
from engine.system import paths

SERIES = [f"rank/{number}/step_time" for number in range(19)]
POINTS_PER_SECOND = 100_000
STEP = 0.002
"""Seconds of a step, about."""

LINE = "x" * 199 + "\n"
MEGABYTE = 1 << 20
COMMIT_SECONDS = 0.1
FRAME = 0.016


def supervise(folder: Path) -> None:
    """Store what the worker says, as a supervisor does, until it leaves."""
    inbox = Inbox()
    server = Server(folder, inbox.connected)
    store = RunStore(folder)
    pid = os.getpid()
    store.append(AttemptStarted(store.status.attempt + 1, pid, start_time(pid)), time.time())
    store.append(TrainingStarted(0, 10_000_000, 1, 1, parameters=1), time.time())
    left = False
    while not left:
        due = time.monotonic() + COMMIT_SECONDS
        while (rest := due - time.monotonic()) > 0:
            match inbox.next(rest):
                case MessageReceived(message=message) if isinstance(message, Event):
                    store.append(message, time.time())
                case Disconnected():
                    left = True
                case _:
                    pass
        store.commit()
    server.close()
    store.close()


def train(folder: Path, seconds: float, first: int, *, flood: bool) -> dict[str, float]:
    """Do steps for `seconds`; what one of them took, and how many points were sent.

    Without `flood` it makes the same points and the same output, which are the recipe's own doing,
    but sends few of the points.
    """
    from engine.worker.event_sender import EventSender

    sender = EventSender(connect(folder, Hello(0)), rank=0)
    random = np.random.default_rng(0)
    weights, inputs = random.normal(size=(400, 400)), random.normal(size=(400, 400))
    repeat, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < STEP:
        inputs @ weights
        repeat += 1
    step, sent, number = first, 0, 0
    cpu, wall, steps = time.thread_time(), time.perf_counter(), 0
    chunk_began, output = wall, 100 * MEGABYTE
    while time.perf_counter() - wall < seconds:
        for _ in range(repeat):
            inputs @ weights
        steps += 1
        now = time.perf_counter()
        if now - chunk_began < 0.1:
            continue
        size = int(POINTS_PER_SECOND * (now - chunk_began)) // 20
        chunk_began = now
        numbers = list(range(step + 1, step + 1 + size))
        step += size
        points = [
            Points(name, numbers, [float(n % 97) for n in numbers])
            for name in ("train/loss", *SERIES)
        ]
        if not flood:
            size, points = 50, [Points("train/loss", numbers[:50], points[0].values[:50])]
        sender.put(Metrics(time.time() - 0.1, time.time(), points))
        sender.put(Progress(1, step, 1e5, STEP, 1.0))
        sent += size
        number += 1
        if number > 20 and output:
            output -= MEGABYTE
            sys.stdout.write(LINE * (MEGABYTE // len(LINE)))
            if not output:
                sys.stdout.write("y" * MEGABYTE + "\n")
    took = {
        "cpu": (time.thread_time() - cpu) / steps / repeat,
        "wall": (time.perf_counter() - wall) / steps / repeat,
        "sent": sent,
    }
    sender.close(60.0)
    return took


class RepaintTimer(NamedTuple):
    """What the window's thread did between one frame and the next, in milliseconds."""

    wall: list[float]
    cpu: list[float]
    """The same without what other programs took: a busy machine is no fault of the window's."""

    def text(self) -> str:
        """In one line."""
        return f"{len(self.wall)} frames, wall {_spread(self.wall)}, CPU {_spread(self.cpu)}"


def _spread(found: list[float]) -> str:
    ordered = sorted(found)
    return (
        f"median {statistics.median(ordered):.1f} ms p99 {ordered[int(0.99 * len(ordered))]:.1f} ms"
        f" longest {ordered[-1]:.0f} ms"
    )


def watch(folder: Path, start: Callable[[], subprocess.Popen[bytes]]) -> tuple[RepaintTimer, float]:
    """Show the run in a window, `start` the worker and go on until that is done; the frames from
    the first point on, and MiB more at the end."""
    from PySide6.QtWidgets import QApplication

    from gui.app import AppController
    from gui.style.theme import ThemeController
    from gui.window.application import application

    qt_app = QApplication.instance() or application(["floods"])
    assert isinstance(qt_app, QApplication)
    app = AppController(ThemeController(qt_app))
    app.window.resize(1600, 1000)
    app.window.show()
    app.open(folder.name)
    frames = RepaintTimer([], [])
    for _ in range(60):
        qt_app.processEvents()
    before = psutil.Process().memory_info().rss
    points: list[object] = []
    app.rooms.run.reader.curve.connect(lambda *_: points.append(None))
    worker = start()
    while worker.poll() is None:
        if not points:
            frames = RepaintTimer([], [])
        wall, cpu = time.perf_counter(), time.thread_time()
        qt_app.processEvents()
        frames.wall.append(1000 * (time.perf_counter() - wall))
        frames.cpu.append(1000 * (time.thread_time() - cpu))
        time.sleep(max(0.0, FRAME - frames.wall[-1] / 1000))
    grown = psutil.Process().memory_info().rss - before
    app.window.close()
    app.shut_down()
    return frames, grown / MEGABYTE


def measure(home: Path, seconds: float, *, flood: bool) -> dict[str, float]:
    """One training under a window, in processes of their own."""
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    folder = paths.create_run_folder()
    write_spec(folder, spec, catalog.recipe(spec.recipe))
    module = [sys.executable, "-m", "benchmarks.floods", "--folder", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    supervisor = subprocess.Popen([*module, "--role", "supervisor"])
    while not (folder / "control.json").exists():
        time.sleep(0.05)
    role = ["--role", "flood" if flood else "quiet", "--seconds", str(seconds)]
    with (folder / "logs" / "rank0.log").open("wb") as log:
        frames, grown = watch(
            folder,
            lambda: subprocess.Popen(
                [*module, *role], stdout=log if flood else subprocess.DEVNULL, env=environment
            ),
        )
    memory = psutil.Process(supervisor.pid).memory_info().rss / MEGABYTE
    supervisor.wait()
    took = dict(json.loads((home / "took.json").read_text()))
    with RunReader(folder) as reader:
        counts = reader.counts()
    stored = sum(counts.values())
    print(
        f"{'flood' if flood else 'quiet'}: {frames.text()}; window {grown:+.0f} MiB, "
        f"supervisor {memory:.0f} MiB; {stored:,} points stored, "
        f"{took['sent'] * len(counts) - stored:,.0f} missing"
    )
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--role", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "supervisor":
        supervise(options.folder)
        return
    if options.role:
        took = train(options.folder, options.seconds, 0, flood=options.role == "flood")
        (paths.home() / "took.json").write_text(json.dumps(took))
        return
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        os.environ[paths.HOME_VARIABLE] = folder
        ratios: dict[str, list[float]] = {"cpu": [], "wall": []}
        for _ in range(options.pairs):
            quiet = measure(Path(folder), options.seconds, flood=False)
            flood = measure(Path(folder), options.seconds, flood=True)
            for kind, found in ratios.items():
                found.append(flood[kind] / quiet[kind])
    for kind, name in (("cpu", "main-thread CPU"), ("wall", "wall time")):
        print(f"a step, flood / quiet, {name}: {statistics.median(ratios[kind]):.3f} (median)")


if __name__ == "__main__":
    main()
