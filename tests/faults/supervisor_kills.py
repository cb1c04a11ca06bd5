"""`python -m tests.faults.supervisor_kills --kills 300` kills supervisors of training runs.

Each is killed at a random moment: in training, in a start, a checkpoint, a pause, a stop, or in the
queue. Its workers have to save and leave. Then the run is resumed, and killed again. The table at
the end counts, for each moment: steps that were done again, points that are missing or there twice,
processes that were left, and checkpoints that are damaged. The exit code is 1 if there was any.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil

from engine import client
from engine.client import CannotStart, CommandFailed, RunInfo
from engine.messages.commands import Command, Pause, Resume, SaveCheckpoint, Stop
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.runs.store.run_store import FILE_NAME
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.system import paths
from engine.templates import client as templates
from tests.faults.soak_processes import left_in, left_of
from tests.support.runs import processes_below, processes_of, spec

MOMENTS = ("training", "checkpoint", "start", "training", "pause", "stop", "training", "queue")
"""The moments of the kills, and how often each is drawn."""

AT_THE_END = "all runs at the end"
"""In the place of a moment: what is found later."""

KILLS_PER_RUN = 25
"""After so many kills, a run is checked as a whole, and a new one is started."""

GONE_WITHIN = 90.0
"""Seconds after a kill in which all processes of the run must be gone; its workers have 30."""

WAIT_SECONDS = 120.0
"""Longest wait for a run to train; only a fault takes longer."""

COUNT = "counted"
"""The file in which the recipe `endless_counter` counts the steps of a worker."""


class Tally(msgspec.Struct):
    """What the kills of one moment did."""

    kills: int = 0
    steps_lost: int = 0
    points_missing: int = 0
    points_doubled: int = 0
    processes_left: int = 0
    checkpoints_damaged: int = 0
    longest: float = 0.0
    """Longest time from a kill until all processes were gone, in seconds."""


class Outcome:
    """The tallies of all moments, and the faults in words. It is used by several threads."""

    def __init__(self, say: Callable[[str], None] = lambda text: None) -> None:
        self.tallies: dict[str, Tally] = {}
        self.faults: list[str] = []
        self.points_compared = 0
        self._say = say
        self._lock = threading.Lock()

    def add(self, moment: str, text: str = "", **counts: float) -> None:
        """Add to the tally of `moment`; with `text`, that is a fault."""
        with self._lock:
            tally = self.tallies.setdefault(moment, Tally())
            for name, count in counts.items():
                known = getattr(tally, name)
                setattr(tally, name, max(known, count) if name == "longest" else known + count)
            if text:
                self.faults.append(text)
                self._say(f"FAULT {text}")

    def table(self) -> str:
        """The tallies as a table."""
        names = [name.replace("_", " ") for name in Tally.__struct_fields__]
        rows = [["moment", *names]]
        total = Tally()
        for moment, tally in [*sorted(self.tallies.items()), ("all", total)]:
            values = msgspec.structs.asdict(tally)
            if tally is not total:
                for name, value in values.items():
                    known = getattr(total, name)
                    setattr(total, name, max(known, value) if name == "longest" else known + value)
            longest = f"{values.pop('longest'):.1f} s"
            rows.append([moment, *map(str, values.values()), longest])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        )
        return "\n".join(lines)


class KilledRun:
    """One run whose supervisor is killed again and again."""

    def __init__(self, outcome: Outcome, rng: random.Random, wanted: RunSpec) -> None:
        self._outcome = outcome
        self._rng = rng
        self._spec = wanted
        self.id = client.start(wanted)
        self._first = 0
        """The step from which the present attempt began."""

        self._processes: list[psutil.Process] = []

    def kill_at(self, moment: str) -> bool:
        """Kill its supervisor at `moment`, check what is left, and resume it.

        Return whether there was a supervisor to kill: a stop may be faster.
        """
        self._wait_until_it_trains()
        if moment == "queue":
            return self._kill_in_queue()
        if moment == "start":
            # The last supervisor is gone or was stopped: this one has just begun, or has not yet.
            self._stop()
            if not self._kill_in_start():
                return False
        else:
            self._prepare(moment)
            info = self._look()
            if info.state.is_over or not self._kill(info.status.supervisor_pid):
                self._resume()
                return False
        self._check(moment)
        self._resume()
        return True

    def finish(self) -> None:
        """Stop the run, and compare its curve with its steps."""
        self._wait_until_it_trains()
        self._stop()
        info = client.get_run(self.id)
        where = f"run {self.id}, stopped at step {info.status.step}"
        self._compare_points(AT_THE_END, info, where)
        missing = info.status.step - self._last_point(info)
        if missing:
            self._outcome.add(
                AT_THE_END,
                f"{where}: {missing} points missing at its end",
                points_missing=abs(missing),
            )
        self._outcome.add(AT_THE_END)

    def _prepare(self, moment: str) -> None:
        """Bring the run to `moment`; a random time passes."""
        commands: dict[str, Command] = {
            "checkpoint": SaveCheckpoint(), "pause": Pause(), "stop": Stop()
        }  # fmt: skip
        if moment in commands:
            with contextlib.suppress(CommandFailed):
                client.send(self.id, commands[moment])
        longest = {"training": 1.5, "checkpoint": 0.08, "pause": 0.4, "stop": 0.25}[moment]
        time.sleep(self._rng.uniform(0.0, longest))

    def _kill(self, pid: int) -> bool:
        try:
            psutil.Process(pid).kill()
        except psutil.NoSuchProcess:
            return False
        return True

    def _kill_in_start(self) -> bool:
        """Kill the supervisor at a random moment of its first second; return whether it lived."""
        before = {process.pid for process in psutil.Process().children()}
        resuming = threading.Thread(target=self._try_to_resume)
        resuming.start()
        deadline = time.monotonic() + WAIT_SECONDS
        new: psutil.Process | None = None
        while new is None and resuming.is_alive() and time.monotonic() < deadline:
            for process in psutil.Process().children():
                with contextlib.suppress(psutil.Error):
                    if process.pid not in before and self._is_supervisor(process):
                        new = process
            time.sleep(0.005)
        if new is None:
            resuming.join()
            return False
        time.sleep(self._rng.uniform(0.0, 1.0))
        with contextlib.suppress(psutil.Error):
            self._processes = [new, *processes_below(new.pid)]
        was_alive = self._kill(new.pid)
        resuming.join()
        self._look()
        return was_alive

    def _is_supervisor(self, process: psutil.Process) -> bool:
        line = process.cmdline()
        return "engine.supervisor" in line and any(Path(a).name == self.id for a in line)

    def _try_to_resume(self) -> None:
        with contextlib.suppress(CannotStart):  # it was killed before it had begun
            client.resume(self.id)

    def _kill_in_queue(self) -> bool:
        """Kill the supervisor of another run, which waits for the device of this one."""
        other = client.start(self._spec)
        info = self._wait(other, lambda info: info.state is RunState.QUEUED or info.state.is_over)
        time.sleep(self._rng.uniform(0.0, 0.3))
        processes = processes_of(client.get_run(other))
        if info is None or not self._kill(info.status.supervisor_pid):
            return False
        begun = time.monotonic()
        left = left_of(processes, GONE_WITHIN)
        self._outcome.add("queue", kills=1, longest=time.monotonic() - begun)
        after = client.get_run(other)
        if left or after.state is not RunState.INTERRUPTED:
            text = f"run {other}, killed in the queue: {after.state}, processes {left}"
            self._outcome.add("queue", text, processes_left=len(left))
        return True

    def _check(self, moment: str) -> None:
        """Wait for the end of all processes, and compare steps, points and checkpoints."""
        begun = time.monotonic()
        left = left_of(self._processes, GONE_WITHIN)
        while (info := client.get_run(self.id)).has_orphans:  # started in the last moment
            if time.monotonic() > begun + GONE_WITHIN:
                self._outcome.add(moment, f"run {self.id}: it has orphans", processes_left=1)
                break
            time.sleep(0.03)
        self._outcome.add(moment, kills=1, longest=time.monotonic() - begun)
        where = f"run {self.id}, attempt {info.status.attempt}, killed in {moment}"
        if left:
            self._outcome.add(moment, f"{where}: processes {left}", processes_left=len(left))
        if not info.state.is_over:
            self._outcome.add(moment, f"{where}: it is {info.state}")
        done = max(self._first + self._counted(info), self._last_point(info))
        saved = 0
        for step, folder in checkpoint_files.folders(info.folder).items():
            try:
                checkpoint_files.verify(folder)
                saved = step
            except checkpoint_files.CheckpointDamaged as error:
                self._outcome.add(moment, f"{where}: {error}", checkpoints_damaged=1)
        if done > saved:
            text = f"{where}: {done} steps were done, and {saved} saved"
            self._outcome.add(moment, text, steps_lost=done - saved)
        self._compare_points(moment, info, where)

    def _compare_points(self, moment: str, info: RunInfo, where: str) -> None:
        steps = _steps(info)
        doubled, missing = len(steps) - len(set(steps)), (max(steps, default=0) - len(set(steps)))
        self._outcome.points_compared += len(steps)
        if doubled or missing:
            self._outcome.add(
                moment,
                f"{where}: {doubled} points twice, {missing} missing",
                points_doubled=doubled,
                points_missing=missing,
            )

    def _counted(self, info: RunInfo) -> int:
        """The steps that the workers of the killed attempt have done, if the recipe counts them."""
        with contextlib.suppress(OSError, ValueError):
            return int((info.folder / COUNT).read_text())
        return 0

    def _last_point(self, info: RunInfo) -> int:
        return max(_steps(info), default=0)

    def _look(self) -> RunInfo:
        """Read the run, and remember its processes."""
        info = client.get_run(self.id)
        if not info.state.is_over:
            self._processes = processes_of(info)
        return info

    def _stop(self) -> None:
        """Stop it with a checkpoint, if it is active."""
        info = self._look()
        if info.state.is_over:
            return
        with contextlib.suppress(CommandFailed):
            client.send(self.id, Stop())
        if self._wait(self.id, lambda info: info.state.is_over) is not None:
            left_of(self._processes, GONE_WITHIN)
            info = client.get_run(self.id)
            with contextlib.suppress(OSError):
                (info.folder / COUNT).unlink()
            self._first = max(checkpoint_files.folders(info.folder), default=0)

    def _resume(self) -> None:
        info = client.get_run(self.id)
        if not info.state.is_over:
            return
        with contextlib.suppress(OSError):
            (info.folder / COUNT).unlink()
        self._first = max(checkpoint_files.folders(info.folder), default=0)
        try:
            client.resume(self.id)
        except CannotStart as error:
            self._outcome.add(AT_THE_END, f"run {self.id} cannot be resumed: {error}")
            self.id, self._first = client.start(self._spec), 0

    def _wait_until_it_trains(self) -> None:
        info = client.get_run(self.id)
        if info.state.is_over:
            self._resume()
        with contextlib.suppress(CommandFailed):
            if info.state is RunState.PAUSED:
                client.send(self.id, Resume())
        self._wait(
            self.id,
            lambda info: info.state is RunState.RUNNING and info.status.step > self._first + 2,
        )

    def _wait(self, run_id: str, condition: Callable[[RunInfo], bool]) -> RunInfo | None:
        """Wait until `condition` holds; it is a fault if it does not."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            info = client.get_run(run_id)
            if condition(info):
                return info
            time.sleep(0.03)
        self._outcome.add(AT_THE_END, f"run {run_id} is {info.state} at step {info.status.step}")
        return None


def _steps(info: RunInfo) -> list[int]:
    if not (info.folder / FILE_NAME).exists():
        return []
    with RunReader(info.folder) as reader:
        return [int(step) for step in reader.points_after("train/loss", 0).step]


def kill_supervisors(outcome: Outcome, wanted: RunSpec, kills: int, seed: int) -> None:
    """Kill the supervisors of runs with the spec `wanted`, one run after the other."""
    rng = random.Random(seed)
    done = 0
    while done < kills:
        run = KilledRun(outcome, rng, wanted)
        moments = [MOMENTS[number % len(MOMENTS)] for number in range(KILLS_PER_RUN)]
        moments = moments[: kills - done]
        rng.shuffle(moments)
        done += sum(map(run.kill_at, moments))
        run.finish()


def chains(kills: int) -> list[tuple[RunSpec, int]]:
    """The specs that are killed at the same time, each with its share of `kills`."""
    counter = {"epochs": 1_000_000, "queue": "always"}
    ddp, tf = kills // 5, kills // 15
    return [
        (spec("endless_counter", "torch/single", ("cpu:0",), **counter), kills - ddp - tf),
        (spec("endless_counter", "torch/ddp", ("cpu:1", "cpu:2"), **counter), ddp),
        (spec("probe_keras", "tf/mirrored", ("cpu:3", "cpu:4"), **counter), tf),
    ]


def main() -> int:
    """Kill the supervisors, and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    begun = time.monotonic()
    outcome = Outcome(lambda text: print(text, flush=True))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        os.environ[paths.HOME_VARIABLE] = home
        threads = [
            threading.Thread(target=kill_supervisors, args=(outcome, *chain, options.seed + number))
            for number, chain in enumerate(chains(options.kills))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        templates.end_all()
        if left := left_in(home):
            outcome.add(AT_THE_END, f"processes {left}", processes_left=len(left))
    print(outcome.table())
    print(f"points compared: {outcome.points_compared:,}; {time.monotonic() - begun:.0f} s")
    for fault in outcome.faults:
        print(f"  {fault}")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
