"""What listing thousands of runs costs: reading every folder, against the index.

`python -m benchmarks.history [--runs 2000]` makes run folders up in a temporary data folder, and
prints the median time of each way to list them: in this process beside SQLite, which reads as many
rows, and as a command beside one that lists no runs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import tomli_w

from engine import client
from engine.client import RunInfo
from engine.messages.events import (
    AttemptStarted,
    EpochEnded,
    Metrics,
    Points,
    RunEnded,
    TrainingStarted,
)
from engine.processes.process import PROJECT
from engine.runs.run_index import FILE_NAME, RunIndex
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.store.run_store import RunStore
from engine.spec.run_spec import RunSpec
from engine.system import paths

EPOCHS = 20
STEPS = 100
KINDS = 20
"""So many stores are written; the others are copies of them."""

REPEATS = 5


def make_runs(count: int, begin: float) -> None:
    """`count` runs that are over, in the data folder of the environment."""
    draw = random.Random(0)
    kinds: list[Path] = []
    runs = paths.private_folder("runs")
    for number in range(count):
        folder = runs / str(number + 1)  # the next number takes a look at all
        folder.mkdir(mode=0o700)
        _write_spec(folder, number, draw)
        if len(kinds) < KINDS:
            _write_store(folder, begin, draw)
            kinds.append(folder)
        else:
            shutil.copyfile(draw.choice(kinds) / "run.sqlite", folder / "run.sqlite")
        if number % 10 == 0:
            write_notes(folder, RunNotes(name=f"named {number}", tags=("sweep", "keep")))


def _write_spec(folder: Path, number: int, draw: random.Random) -> None:
    spec = RunSpec(
        recipe="digits",
        strategy=draw.choice(("torch/ddp", "torch/single", "tf/mirrored")),
        devices=("cpu:0",),
        name=f"sweep {number}",
        epochs=EPOCHS,
        learning_rate=10 ** draw.uniform(-4, -1),
    )
    document = {"run": msgspec.to_builtins(spec), "environment": {"python": "3.11"}}
    (folder / "spec.toml").write_text(tomli_w.dumps(document), encoding="utf-8")


def _write_store(folder: Path, begin: float, draw: random.Random) -> None:
    store = RunStore(folder)
    store.append(AttemptStarted(1, 0, 0.0), begin)
    store.append(TrainingStarted(0, STEPS, EPOCHS, 1, parameters=650), begin)
    level, now = 2.3, begin
    for epoch in range(1, EPOCHS + 1):
        now += draw.uniform(1, 10)
        steps = list(range((epoch - 1) * STEPS + 1, epoch * STEPS + 1))
        losses = [level * draw.uniform(0.9, 1.1) for _ in steps]
        level *= draw.uniform(0.8, 0.95)
        results = {"validation/loss": level, "validation/accuracy": 1 - level / 3}
        store.append(Metrics(now - 1, now, [Points("train/loss", steps, losses)]), now)
        for name, value in results.items():
            store.append(Metrics(now, now, [Points(name, steps[-1:], [value])]), now)
        store.append(EpochEnded(epoch, steps[-1], results), now)
    state = draw.choice(("finished", "stopped", "failed"))
    store.append(RunEnded(state, "As it was made up."), now)
    store.close()


def median(call: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Seconds that `call` takes on the clock, and of a processor: the latter hardly depend on what
    else the machine does."""
    taken = []
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        call()
        taken.append((time.perf_counter() - begin, time.process_time() - used))
    clock, processor = zip(*taken, strict=True)
    return statistics.median(clock), statistics.median(processor)


def list_without_index(index: Path) -> list[RunInfo]:
    """List the runs when the file of the index is gone."""
    index.unlink(missing_ok=True)
    return RunIndex().runs()


def rows_alone(index: Path) -> list[tuple[bytes, ...]]:
    """Read as many rows as the index has, by SQLite alone."""
    with closing(sqlite3.connect(index)) as connection:
        return connection.execute("SELECT * FROM run").fetchall()


def command_seconds(command: str) -> float:
    """Return the median seconds of a processor that a command takes, start and end included."""
    taken = []
    for _ in range(REPEATS):
        before = os.times()
        program = [sys.executable, str(PROJECT / "main.py"), command]
        subprocess.run(program, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        taken.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    return statistics.median(taken)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=2000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[paths.HOME_VARIABLE] = folder
        make_runs(options.runs, begin=1_760_000_000.0)
        index = Path(folder) / FILE_NAME
        every = median(client.runs, 3)
        none = median(lambda: list_without_index(index), 3)
        first = median(lambda: RunIndex().runs())
        warm = RunIndex()
        warm.runs()
        again = median(warm.runs)
        alone = median(lambda: rows_alone(index))
        runs, recipes = command_seconds("runs"), command_seconds("recipes")
        rows = {
            "every folder read": every,
            "index made anew": none,
            "index of a new process": first,
            "index in an open window": again,
            "rows by SQLite alone": alone,
        }
        for what, (clock, processor) in rows.items():
            print(
                f"{options.runs} runs, {what:24} {clock * 1000:8.1f} ms, "
                f"processor {processor * 1000:8.1f} ms, {every[1] / processor:6.1f}×"
            )
        print(f"index of a new process / SQLite alone: {first[1] / alone[1]:.1f}")
        print(
            f"`runs` {runs * 1000:.0f} ms, `recipes` {recipes * 1000:.0f} ms of a processor: "
            f"{runs / recipes:.2f}"
        )
        print(f"index.sqlite: {index.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
