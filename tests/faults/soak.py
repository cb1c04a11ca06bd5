"""`python -m tests.faults.soak --minutes 60` makes random faults happen to some runs for an hour.

The supervisor of one run, the steady one, is never killed, so that its open files and memory can be
measured. Other runs are killed, stopped, paused and resumed. A window shows the steady run all the
time. More readers connect to it and are killed. The report at the end names orphans, missing
points, and growing numbers of open files or memory.
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
from engine.templates import client as templates
from tests.faults.soak_processes import GONE_WITHIN, OVER_WITHIN, left_in, open_window
from tests.support.runs import processes_of, spec

ROOT = Path(__file__).parent.parent.parent
COMMANDS: tuple[Command, ...] = (SaveCheckpoint(), EmptyCache(), Pause(), Resume(), Resume())
SETTLED_AFTER = 30.0
"""Seconds after which a process has opened its files and allocated its memory."""

MORE_FILES = 3
MORE_MEBIBYTES = 12.0
"""A process may hold this much more in the last quarter of a long soak than in the third quarter:
in an hour, a leak of 1 MiB a minute makes 15."""

MORE_AT_FIRST = 24.0
"""The same, while a window fills: a curve may have 50,000 points and the log 10,000 lines."""

FULL_AFTER = 1500.0
"""Seconds after which a window is full, even if a run is slow."""

MOST_UNREPORTED = 1000
"""Steps that a killed process may not have reported: those of some seconds."""

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
    """What was done, and which faults were found."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []
        self.most_unreported = 0
        """Most steps that a killed process had done and not reported."""

        self.checked_points = 0
        self.held: dict[str, list[tuple[float, int, float]]] = {"supervisor": [], "window": []}
        """Of the steady run's supervisor and the window: seconds, open files, MiB."""

    def check(self, fine: bool, text: str) -> None:
        """Record the fault `text` unless `fine`."""
        if not fine:
            self.faults.append(text)
            print(f"FAULT {text}", flush=True)

    def measure(self, name: str, pid: int, now: float) -> None:
        """Record the open files and the memory of a process."""
        try:
            process = psutil.Process(pid)
            held = now, process.num_fds(), process.memory_info().rss / (1 << 20)
        except psutil.Error as error:
            self.check(False, f"the {name} is gone: {error}")
            return
        self.held[name].append(held)

    def compare(self) -> None:
        """Check that nothing grew from the third quarter to the last.

        Of the memory, the upper quartile is compared: it ignores short peaks, and a curve grows and
        is shortened again and again.
        """
        for name, held in self.held.items():
            quarter = len(held) // 4
            if quarter < 3:
                continue
            third, last = held[2 * quarter : 3 * quarter], held[3 * quarter :]
            files = median(h[1] for h in last) - median(h[1] for h in third)
            memory = quantiles([h[2] for h in last])[-1] - quantiles([h[2] for h in third])[-1]
            most = MORE_MEBIBYTES if third[0][0] >= FULL_AFTER else MORE_AT_FIRST
            self.check(files <= MORE_FILES, f"the {name} holds {files:.0f} open files more")
            self.check(memory <= most, f"the {name} holds {memory:.1f} MiB more")


class SoakedRun:
    """One run to which faults happen."""

    def __init__(self, report: Report, rng: random.Random, strategy: str, devices: int) -> None:
        self._report = report
        self._rng = rng
        # Several ranks write the count in turn: the value may be a step behind or ahead.
        self._slack = int(devices > 1)
        self.id = client.start(
            spec("endless_counter", strategy, devices, epochs=1_000_000, checkpoint_steps=100)
        )
        self._first = 0
        self._processes: list[psutil.Process] = []

    def info(self) -> RunInfo:
        """Read its state, and remember its processes."""
        info = client.get_run(self.id)
        if not info.state.is_over:
            self._processes = processes_of(info)
        return info

    def ask(self, command: Command) -> None:
        """Send a command; it is no fault if the run refuses it or is over."""
        with contextlib.suppress(CommandFailed):
            client.send(self.id, command)
        self._report.done[type(command).__name__] += 1

    def happen(self) -> None:
        """Do one random thing to it."""
        info = self.info()
        if info.state.is_over:
            self.resume()
            return
        trains = info.state is RunState.RUNNING and info.status.step > self._first + 110
        things: list[Callable[[], None]] = [
            lambda: self.ask(SaveCheckpoint()),
            lambda: self.ask(Pause()),
            lambda: self.ask(EmptyCache()),
            lambda: (info.folder / "burst").touch(),
            self.kill_template,
        ]
        if info.state is RunState.PAUSED:
            things = [lambda: self.ask(Resume()), lambda: self.stop(now=False)]
        elif trains:
            things += 2 * [
                lambda: self.stop(now=False),
                lambda: self.stop(now=True),
                lambda: self.kill("worker", info.status.worker_pids),
                lambda: self.kill("supervisor", [info.status.supervisor_pid]),
                lambda: self.kill("all processes", [p.pid for p in self._processes]),
            ]
        self._rng.choice(things)()

    def stop(self, *, now: bool) -> None:
        """Stop it; unless `now`, not one point may be missing."""
        self.ask(Stop(now=now))
        self.end("stopped at once" if now else "stopped", exact=not now)

    def kill(self, target: str, pids: list[int] | tuple[int, ...]) -> None:
        """Kill one of `pids`, or all of them if `target` is `all processes`."""
        for pid in pids if target == "all processes" else [self._rng.choice(pids)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._report.done[f"killed {target}"] += 1
        self.end(f"killed {target}", exact=False)

    def kill_template(self) -> None:
        """Kill the template of the workers; the run goes on."""
        for state in templates.states():
            os.kill(state.pid, signal.SIGKILL)
            self._report.done["killed template"] += 1

    def end(self, how: str, *, exact: bool) -> None:
        """Wait until it is over, and check its processes and its points."""
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
            with contextlib.suppress(ValueError):  # it was killed while it wrote the count
                missing = self._first + int(counted.read_text()) - last
                if exact and info.state is RunState.STOPPED:
                    fine = abs(missing) <= self._slack
                    check(fine, f"run {self.id}, {how}: {missing} points missing")
                else:
                    check(
                        missing < MOST_UNREPORTED,
                        f"run {self.id}, {how}: {missing} steps not reported",
                    )
                    self._report.most_unreported = max(self._report.most_unreported, missing)
            counted.unlink()

    def resume(self) -> None:
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
    """Soak for `minutes`, in the data folder of the environment."""
    rng, report = random.Random(seed), Report()
    steady = SoakedRun(report, rng, "torch/single", 1)
    window = open_window(steady.id)
    others = [SoakedRun(report, rng, "torch/single", 1), SoakedRun(report, rng, "torch/ddp", 2)]
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
    for run in (steady, *others):
        if not run.info().state.is_over:
            run.ask(Resume())
            run.stop(now=False)
    templates.end_all()
    report.compare()
    left = left_in(os.environ[paths.HOME_VARIABLE])
    report.check(not left, f"at the end: orphans {left}")
    return report


def main() -> int:
    """Soak, and print the report; return the exit code."""
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
    print(f"steps that killed processes had not reported, at the most: {report.most_unreported}")
    for name, held in report.held.items():
        for seconds, files, memory in held[:: max(1, len(held) // 4)] + held[-1:]:
            print(f"{name} after {seconds:.0f} s: {files} open files, {memory:.1f} MiB")
    print(f"faults (orphans, points missing, not over, not resumed, grown): {len(report.faults)}")
    for fault in report.faults:
        print(f"  {fault}")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
