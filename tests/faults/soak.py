"""`python -m tests.faults.soak --minutes 60`: everything that can go wrong, at random, for long.

One run is steady: its supervisor is never killed, so that what it holds can be watched. Others are
killed, stopped, paused and resumed. A window shows the steady one all the time. Readers like it
come, ask for something and are killed. At the end it says what is left: orphans, points that are
missing, open files, memory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import psutil

from engine import client
from engine.client import CannotStart, CommandFailed, RunInfo
from engine.messages.commands import Command, EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.runs.run_state import RunState
from engine.runs.store_reader import RunReader
from engine.system import paths
from tests.faults.soak_processes import GONE_WITHIN, OVER_WITHIN, open_window, processes_of
from tests.support.runs import spec

ROOT = Path(__file__).parent.parent.parent
COMMANDS: tuple[Command, ...] = (SaveCheckpoint(), EmptyCache(), Pause(), Resume(), Resume())
SETTLED_AFTER = 30.0
"""Seconds after which a process holds what it needs."""

MORE_FILES = 3
MORE_MEBIBYTES = 12.0
"""A process may hold so much more in the last quarter of a long soak than in the one before: with
an hour, a leak of 1 MiB a minute makes 15."""

MORE_AT_FIRST = 24.0
"""The same, while a window fills up: a curve may have 50,000 points and the log 10,000 lines."""

FULL_AFTER = 1500.0
"""Seconds after which a window holds as much as it may, even if a run is slow."""

MOST_UNSAID = 1000
"""Steps of which a killed process may not have told, some seconds of them."""

READER = """
import sys, time
from engine import client
from engine.messages.channel import Hello, connect
from engine.messages.commands import EmptyCache
from engine.runs.store_reader import RunReader
folder = client.get_run(sys.argv[1]).folder
lines = [connect(folder, Hello(-1)) for _ in range(3)]
with RunReader(folder) as reader:
    while True:
        reader.history("train/loss"); reader.events_after(0); reader.status()
        lines[0].send(EmptyCache()); lines[0].receive(10.0)
        time.sleep(0.1)
"""


class Report:
    """What was done, and what was found."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []
        self.most_unsaid = 0
        """Steps that a process that was killed had done and could not say any more, at the most."""

        self.checked_points = 0
        self.held: dict[str, list[tuple[float, int, float]]] = {"supervisor": [], "window": []}
        """Of the steady run's supervisor and the window: seconds, open files, MiB."""

    def check(self, fine: bool, text: str) -> None:
        """Note `text` unless all is well."""
        if not fine:
            self.faults.append(text)
            print(f"FAULT {text}", flush=True)

    def measure(self, who: str, pid: int, now: float) -> None:
        """Note what a process holds."""
        try:
            process = psutil.Process(pid)
            held = now, process.num_fds(), process.memory_info().rss / (1 << 20)
        except psutil.Error as error:
            self.check(False, f"the {who} is gone: {error}")
            return
        self.held[who].append(held)

    def compare(self) -> None:
        """Check that nothing has grown in the second half: its two quarters, of memory the most
        that was held but for short peaks, because a curve grows and is shortened in turn."""
        for who, held in self.held.items():
            quarter = len(held) // 4
            if quarter < 3:
                continue
            third, last = held[2 * quarter : 3 * quarter], held[3 * quarter :]
            files = median(h[1] for h in last) - median(h[1] for h in third)
            memory = quantiles([h[2] for h in last])[-1] - quantiles([h[2] for h in third])[-1]
            most = MORE_MEBIBYTES if third[0][0] >= FULL_AFTER else MORE_AT_FIRST
            self.check(files <= MORE_FILES, f"the {who} holds {files:.0f} open files more")
            self.check(memory <= most, f"the {who} holds {memory:.1f} MiB more")


class Guinea:
    """One run that things happen to."""

    def __init__(self, report: Report, rng: random.Random, strategy: str, devices: int) -> None:
        self._report = report
        self._rng = rng
        # Ranks that count write one after the other: what is read may be a step behind or ahead.
        self._slack = int(devices > 1)
        self.id = client.start(
            spec("counted", strategy, devices, epochs=1_000_000, checkpoint_steps=100)
        )
        self._first = 0
        self._processes: list[psutil.Process] = []

    def info(self) -> RunInfo:
        """As it is now; remembers its processes."""
        info = client.get_run(self.id)
        if not info.state.is_over:
            with contextlib.suppress(psutil.NoSuchProcess):
                supervisor = psutil.Process(info.status.supervisor_pid)
                self._processes = [supervisor, *supervisor.children(recursive=True)]
        return info

    def ask(self, command: Command) -> None:
        """Send a command; that it is refused or comes too late is no fault."""
        with contextlib.suppress(CommandFailed):
            client.send(self.id, command)
        self._report.done[type(command).__name__] += 1

    def happen(self) -> None:
        """Let one thing happen to it."""
        info = self.info()
        if info.state.is_over:
            self.go_on()
            return
        trains = info.state is RunState.RUNNING and info.status.step > self._first + 110
        things: list[Callable[[], None]] = [
            lambda: self.ask(SaveCheckpoint()),
            lambda: self.ask(Pause()),
            lambda: self.ask(EmptyCache()),
            lambda: (info.folder / "burst").touch(),
        ]
        if info.state is RunState.PAUSED:
            things = [lambda: self.ask(Resume()), lambda: self.stop(now=False)]
        elif trains:
            things += 2 * [
                lambda: self.stop(now=False),
                lambda: self.stop(now=True),
                lambda: self.kill("worker", info.status.worker_pids),
                lambda: self.kill("supervisor", [info.status.supervisor_pid]),
                lambda: self.kill("everybody", [p.pid for p in self._processes]),
            ]
        self._rng.choice(things)()

    def stop(self, *, now: bool) -> None:
        """Stop it; when it was asked in good order, not one point may be missing."""
        self.ask(Stop(now=now))
        self.end("stopped at once" if now else "stopped", exact=not now)

    def kill(self, who: str, pids: list[int] | tuple[int, ...]) -> None:
        """Kill one of `pids`, or all where everybody is meant."""
        for pid in pids if who == "everybody" else [self._rng.choice(pids)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._report.done[f"killed {who}"] += 1
        self.end(f"killed {who}", exact=False)

    def end(self, how: str, *, exact: bool) -> None:
        """Wait until it is over, and see what is left of it."""
        deadline = time.monotonic() + OVER_WITHIN
        while not (info := client.get_run(self.id)).state.is_over and time.monotonic() < deadline:
            time.sleep(0.1)
        check = self._report.check
        check(info.state.is_over, f"run {self.id}, {how}: still {info.state}")
        _, orphans = psutil.wait_procs(self._processes, timeout=GONE_WITHIN)
        check(not orphans, f"run {self.id}, {how}: orphans {orphans}")
        with RunReader(info.folder) as reader:
            steps = reader.points_after("train/loss", 0).step.astype(int).tolist()
        last = steps[-1] if steps else 0
        whole = steps == list(range(1, last + 1))
        check(whole, f"run {self.id}, {how}: the curve has {len(steps)} points up to step {last}")
        self._report.checked_points += len(steps)
        counted = info.folder / "counted"
        if counted.exists():
            with contextlib.suppress(ValueError):  # killed while it wrote that
                missing = self._first + int(counted.read_text()) - last
                if exact and info.state is RunState.STOPPED:
                    fine = abs(missing) <= self._slack
                    check(fine, f"run {self.id}, {how}: {missing} points missing")
                else:
                    check(missing < MOST_UNSAID, f"run {self.id}, {how}: {missing} steps unsaid")
                    self._report.most_unsaid = max(self._report.most_unsaid, missing)
            counted.unlink()

    def go_on(self) -> None:
        """Resume it from its newest checkpoint."""
        try:
            saved = client.run_checkpoints(self.id)
            client.resume(self.id)
        except CannotStart as error:
            self._report.check(False, f"run {self.id} cannot be resumed: {error}")
            return
        self._first = saved[-1].manifest.position.step
        self._report.done["resumed"] += 1


def soak(minutes: float, seed: int) -> Report:
    """Do it, in the data folder of the environment."""
    rng, report = random.Random(seed), Report()
    steady = Guinea(report, rng, "torch/single", 1)
    window = open_window(steady.id)
    others = [Guinea(report, rng, "torch/single", 1), Guinea(report, rng, "torch/ddp", 2)]
    begun = time.monotonic()
    readers: list[subprocess.Popen[bytes]] = []
    while (now := time.monotonic() - begun) < 60 * minutes:
        info = steady.info()
        report.check(not info.state.is_over, f"the steady run is {info.state}: {info.reason}")
        if info.state.is_over:
            break
        if now > SETTLED_AFTER:
            report.measure("supervisor", info.status.supervisor_pid, now)
            report.measure("window", window.pid, now)
        steady.ask(rng.choice(COMMANDS))
        if rng.random() < 0.2:
            (info.folder / "burst").touch()
        if info.state is not RunState.STARTING:
            arguments = [sys.executable, "-c", READER, steady.id]
            readers.append(subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.DEVNULL))
        while len(readers) > 2:
            readers[0].kill()
            readers.pop(0).wait()
            report.done["killed reader"] += 1
        rng.choice(others).happen()
        time.sleep(rng.uniform(0.5, 3.0))
    report.check(window.poll() is None, f"the window ended by itself: {window.returncode}")
    for process in (window, *readers):
        process.kill()
        process.wait()
    for guinea in (steady, *others):
        if not guinea.info().state.is_over:
            guinea.ask(Resume())
            guinea.stop(now=False)
    report.compare()
    left = processes_of(os.environ[paths.HOME_VARIABLE])
    report.check(not left, f"at the end: orphans {left}")
    return report


def main() -> int:
    """Soak, and print the report; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        os.environ[paths.HOME_VARIABLE] = home
        report = soak(options.minutes, options.seed)
    print("what happened: " + ", ".join(f"{n} × {what}" for what, n in report.done.most_common()))
    print(f"points compared: {report.checked_points:,}")
    print(f"steps that killed processes took along, at the most: {report.most_unsaid}")
    for who, held in report.held.items():
        for seconds, files, memory in held[:: max(1, len(held) // 4)] + held[-1:]:
            print(f"{who} after {seconds:.0f} s: {files} open files, {memory:.1f} MiB")
    print(f"faults (orphans, points missing, not over, not resumed, grown): {len(report.faults)}")
    for fault in report.faults:
        print(f"  {fault}")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
