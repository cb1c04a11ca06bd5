"""`python -m tests.faults.soak --minutes 60` makes random faults happen to some runs for an hour.

The supervisor of one run, the steady one, is never killed, so that its open files and memory can be
measured. Other runs are killed, halted, stopped (also in a slow checkpoint), paused and resumed,
also with an edited recipe. They lose their guardian or the template, and
start processes in sessions of their own. With the rights for it, their disk is frozen, and others
become read-only. A window shows the steady run all the time. More readers connect to it and are
killed. The report at the end names orphans, missing points, and growing numbers of open files or
memory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
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
from engine.messages.events import RecipeVersion
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.system import paths
from engine.templates import client as templates
from engine.templates.protocol import FOLDER_VARIABLE
from tests.faults.soak_disk import disk, freeze_for, start_read_only_run
from tests.faults.soak_processes import GONE_WITHIN, OVER_WITHIN, left_in, left_of, open_window
from tests.support.runs import RECIPES, processes_of, spec

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
from engine.runs.store.store_reader import RunReader
folder = client.get_run(sys.argv[1]).folder
lines = [connect(folder, Hello(-1)) for _ in range(3)]
with RunReader(folder) as reader:
    while True:
        reader.history("train/loss"); reader.events_after(0); reader.status()
        lines[0].send(EmptyCache()); lines[0].receive(10.0)
        time.sleep(0.1)
"""


LONGEST_HALT = 20.0
"""Seconds for which a supervisor is halted, at most."""

LONGEST_FREEZE = 5.0
"""Seconds for which the disk is frozen, at most; nothing else happens meanwhile."""


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
        self._recipe = paths.home().with_name(f"recipe_{rng.getrandbits(32)}.py")
        shutil.copyfile(RECIPES / "endless_counter.py", self._recipe)
        self._kept = self._recipe.read_text()
        """What the run trains with, whatever the file of the recipe has become."""

        self.id = client.start(
            spec(
                str(self._recipe),
                strategy,
                devices,
                epochs=1_000_000,
                checkpoint_steps=100,
                stop_seconds=5.0,
            )
        )
        self._first = 0
        self._halted_until = 0.0
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

    def last_words(self) -> str:
        """Why it is over, with the end of its supervisor's log."""
        info = client.get_run(self.id)
        logs = sorted((info.folder / "logs").glob("[rs]*.log"))
        texts = [f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs]
        return "\n".join([f"run {self.id} is {info.state}: {info.reason}", *texts])

    def happen(self) -> None:
        """Do one random thing to it."""
        if self._halted_until:
            if time.monotonic() >= self._halted_until:
                self.go_on()
            return
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
            lambda: self.spawn(info),
            lambda: self.halt(info),
            lambda: self.kill_guardian(info),
            self.edit,
            self.kill_template,
        ]
        if info.state is RunState.PAUSED:
            things = [lambda: self.ask(Resume()), lambda: self.stop(now=False)]
        elif trains:
            things += 2 * [
                lambda: self.stop(now=False),
                lambda: self.stop_in_slow_save(info),
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

    def stop_in_slow_save(self, info: RunInfo) -> None:
        """Stop it in a checkpoint that takes as long as a stop may take; it has to be saved."""
        (info.folder / "slow").touch()
        self._report.done["slow save"] += 1
        self.ask(SaveCheckpoint())
        self.stop(now=False)

    def halt(self, info: RunInfo) -> None:
        """Halt its supervisor for a while."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(info.status.supervisor_pid, signal.SIGSTOP)
            self._halted_until = time.monotonic() + self._rng.uniform(1.0, LONGEST_HALT)
            self._report.done["halted supervisor"] += 1

    def go_on(self) -> None:
        """Let a halted supervisor go on."""
        if self._halted_until:
            self._halted_until = 0.0
            with contextlib.suppress(ProcessLookupError):
                os.kill(client.get_run(self.id).status.supervisor_pid, signal.SIGCONT)

    def spawn(self, info: RunInfo) -> None:
        """Let the recipe start a process in a session of its own."""
        (info.folder / "spawn").touch()
        self._report.done["process of the recipe"] += 1

    def kill_guardian(self, info: RunInfo) -> None:
        """Kill the process that ends the workers of a dead supervisor."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(info.status.supervisor_pid).children():
                if "engine.processes.guardian" in child.cmdline():
                    child.kill()
                    self._report.done["killed guardian"] += 1

    def edit(self) -> None:
        """Change the file of the recipe, so that the next resume asks which one goes on."""
        with self._recipe.open("a") as file:
            file.write(f"# {self._rng.random()}\n")
        self._report.done["edited recipe"] += 1

    def end(self, how: str, *, exact: bool) -> None:
        """Wait until it is over, and check its processes and its points."""
        deadline = time.monotonic() + OVER_WITHIN
        while not (info := client.get_run(self.id)).state.is_over and time.monotonic() < deadline:
            time.sleep(0.1)
        check = self._report.check
        check(info.state.is_over, f"run {self.id}, {how}: still {info.state}")
        # The workers of a dead supervisor have some time to save.
        within = GONE_WITHIN + (info.spec.orphan_seconds if "supervisor" in how else 0.0)
        orphans = left_of(self._processes, within)
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
                done = self._first + int(counted.read_text())
                missing = done - last
                if how == "killed supervisor":
                    saved = max(checkpoint_files.folders(info.folder), default=0)
                    fine = abs(done - saved) <= self._slack
                    check(fine, f"run {self.id}, {how}: {done} steps were done, {saved} saved")
                elif exact and info.state is RunState.STOPPED:
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
        version = self._rng.choice(list(RecipeVersion))
        try:
            client.resume(self.id, recipe=version)
        except CannotStart as error:
            self._report.check(False, f"cannot be resumed: {error} {self.last_words()}")
            return
        folder = client.get_run(self.id).folder
        if version is RecipeVersion.AS_IT_IS_NOW:
            self._kept = self._recipe.read_text()
        trains_with = (folder / "recipe.py").read_text()
        self._report.check(trains_with == self._kept, f"run {self.id}: not the recipe {version}")
        self._first = max(checkpoint_files.folders(folder))
        self._report.done["resumed"] += 1


class Disks:
    """The disk of all runs, which is frozen at times, and one that becomes read-only."""

    def __init__(self, report: Report, rng: random.Random, folder: Path) -> None:
        self._report = report
        self._rng = rng
        self._folder = folder
        self._read_only: subprocess.Popen[str] | None = None

    def happen(self) -> None:
        """Do something to a disk, now and then."""
        if self._rng.random() < 0.05:
            freeze_for(self._folder, self._rng.uniform(0.5, LONGEST_FREEZE))
            self._report.done["frozen disk"] += 1
        if self._read_only is not None and self._read_only.poll() is not None:
            self.finish()
        if self._read_only is None and self._rng.random() < 0.05:
            number = self._report.done["read-only disk"] = self._report.done["read-only disk"] + 1
            folder = self._folder.with_name(f"read_only_{number}")
            self._read_only = start_read_only_run(folder)

    def finish(self) -> None:
        """Wait for the run on the disk that becomes read-only, and report its faults."""
        if self._read_only is not None:
            said, _ = self._read_only.communicate(timeout=4 * OVER_WITHIN)
            fine = self._read_only.returncode == 0
            self._report.check(fine, said.strip() or "the run on a read-only disk failed")
            self._read_only = None


def soak(minutes: float, seed: int, image: Path | None) -> Report:
    """Soak for `minutes`, in the data folder of the environment.

    `image` is the disk that holds it and may be frozen, if there is one.
    """
    rng, report = random.Random(seed), Report()
    disks = Disks(report, rng, image) if image is not None else None
    steady = SoakedRun(report, rng, "torch/single", 1)
    window = open_window(steady.id)
    others = [SoakedRun(report, rng, "torch/single", 1), SoakedRun(report, rng, "torch/ddp", 2)]
    begun = time.monotonic()
    readers: list[subprocess.Popen[bytes]] = []
    while (now := time.monotonic() - begun) < 60 * minutes:
        info = steady.info()
        if info.state.is_over:
            report.check(False, f"the steady run: {steady.last_words()}")
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
        if disks is not None:
            disks.happen()
        time.sleep(rng.uniform(0.5, 3.0))
    if disks is not None:
        disks.finish()
    report.check(window.poll() is None, f"the window ended by itself: {window.returncode}")
    for process in (window, *readers):
        process.kill()
        process.wait()
    for run in (steady, *others):
        run.go_on()
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
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        disk(Path(folder) / "disk") as can_freeze,
    ):
        image = Path(folder) / "disk"
        home = image / "home"
        os.environ[paths.HOME_VARIABLE] = str(home)
        # Templates are not on the disk: they serve the other disks, too.
        os.environ[FOLDER_VARIABLE] = str(Path(folder) / "templates")
        report = soak(options.minutes, options.seed, image if can_freeze else None)
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
