"""How many machines one supervisor can follow: 16 machines of 8 GPUs that only speak the channel.

`python -m benchmarks.cluster_replay [--machines 16] [--gpus 8] [--seconds 10] [--loads 1,2,4,8]`
starts a program for each machine, whose ranks send what real ones do at 1,000 steps a second: rank
0 the points of all steps, every rank its own figures and signs of life, every machine the state of
its GPUs. The head follows them by the product's own links, inbox and store. A load of 2 sends
everything twice as often. It prints the processor time of the head (cores), and how old a message
is when its points are in the store; the head is saturated when that age grows with the time.
Ray itself is not part of it; `--ray` measures what a batch of messages costs in Ray's driver.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import psutil

from engine.cluster.frames import read_frame, write_frame
from engine.cluster.relay import GATHER_SECONDS, Lost, Stored
from engine.messages.channel import Alive, encode_frame
from engine.messages.events import (
    AttemptStarted,
    Event,
    Metrics,
    Points,
    Progress,
    TrainingStarted,
    WorkerEvent,
)
from engine.processes.process import start_time
from engine.runs.store.run_store import RunStore
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from engine.supervisor.inbox import Inbox, MessageReceived
from engine.supervisor.machines.machine_link import MachineLink
from engine.supervisor.machines.messages import Devices, FromRank, RankConnected, encode
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

STEPS_PER_SECOND = 1000
CHUNK_SECONDS = 0.1
RANK_SECONDS = 0.5
COMMIT_SECONDS = 0.1
SERIES = ("train/loss", "train/learning_rate", "train/samples_per_second")
RANK_SERIES = ("data_share", "communication_share", "compute_share", "memory_allocated")
MIB = 2**20


class PipeTransport:
    """The way to a program of this machine."""

    def __init__(self, command: Sequence[str]) -> None:
        self._program = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._frames: deque[bytes] = deque()
        self._came = threading.Event()
        self._is_over = False
        threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> Sequence[bytes]:
        """See `engine.cluster.relay.Transport`."""
        self._came.wait(1.0)
        time.sleep(GATHER_SECONDS)  # as the actor gathers
        self._came.clear()
        taken = [self._frames.popleft() for _ in range(len(self._frames))]
        if self._is_over and not taken:
            raise Lost("it has ended")
        return taken

    def give(self, frames: Sequence[bytes | Stored]) -> None:
        """See `engine.cluster.relay.Transport`."""

    def close(self) -> None:
        """See `engine.cluster.relay.Transport`."""
        self._program.kill()
        self._program.wait()

    def _read(self) -> None:
        stream = cast("BinaryIO", self._program.stdout)
        try:
            while True:
                self._frames.append(read_frame(stream))
                self._came.set()
        except (EOFError, OSError):
            self._is_over = True
            self._came.set()


def speak(first_rank: int, gpus: int, load: float) -> None:
    """Send what the ranks of one machine say, until the output is closed."""
    output = sys.stdout.buffer
    ranks = range(first_rank, first_rank + gpus)
    for rank in ranks:
        write_frame(output, encode(RankConnected(rank)))
    begun, step, rounds = time.time(), 0, 0
    count = int(STEPS_PER_SECOND * CHUNK_SECONDS)
    every = max(1, round(RANK_SECONDS / CHUNK_SECONDS))
    while True:
        now = time.time()
        if first_rank == 0:
            steps = list(range(step + 1, step + count + 1))
            times = [now] * count
            points = [Points(name, steps, [0.5] * count, times) for name in SERIES]
            say(output, 0, Metrics(now, now, points))
            say(output, 0, Progress(0, step + count, 1e5, CHUNK_SECONDS / count, 0.0))
        step += count
        if rounds % every == 0:
            for rank in ranks:
                names = [f"rank/{rank}/{name}" for name in RANK_SERIES]
                say(
                    output,
                    rank,
                    Metrics(now, now, [Points(n, [step], [0.5], [now]) for n in names]),
                )
                write_frame(output, encode(FromRank(rank, encode_frame(Alive("training", step)))))
            write_frame(output, encode(Devices(snapshot(gpus, now))))
        rounds += 1
        time.sleep(max(0.0, begun + rounds * CHUNK_SECONDS / load - time.time()))


def say(output: BinaryIO, rank: int, event: WorkerEvent) -> None:
    """Send an event of a rank."""
    write_frame(output, encode(FromRank(rank, encode_frame(event))))


def snapshot(gpus: int, now: float) -> Snapshot:
    """The state of the GPUs of a machine."""
    return Snapshot(
        time=now,
        devices=tuple(
            DeviceSnapshot(
                id=f"GPU-{number}",
                kind="gpu",
                label=str(number),
                name="made up",
                index=number,
                memory_total=80_000 * MIB,
                memory_used=40_000 * MIB,
                utilisation=90.0,
                temperature=60,
                power=400.0,
            )
            for number in range(gpus)
        ),
    )


class Outcome(NamedTuple):
    """What one load has cost the head."""

    messages: float
    """A second."""

    points: float
    """A second."""

    cores: float
    first: float
    """Median age in seconds of the messages of the first half when they were stored."""

    last: float
    """The same of the second half."""


def follow(machines: int, gpus: int, load: float, seconds: float) -> Outcome:
    """Follow made-up machines, as a supervisor does, and measure it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "1"
        (folder / "logs").mkdir(parents=True)
        spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0",))
        write_spec(folder, spec, catalog.recipe_of(spec))
        store, inbox = RunStore(folder), Inbox()
        store.append(AttemptStarted(1, 1, start_time(1)), time.time())
        store.append(TrainingStarted(0, 10_000_000, 1, machines * gpus, parameters=1), time.time())
        program = [sys.executable, "-m", "benchmarks.cluster_replay", "--speak"]
        links = [
            MachineLink(
                f"m{number}",
                list(range(number * gpus, (number + 1) * gpus)),
                folder,
                PipeTransport([*program, f"{number * gpus},{gpus},{load}"]),
                inbox,
                inbox.put,
            )
            for number in range(machines)
        ]
        process = psutil.Process()
        while not isinstance(inbox.next(60.0), MessageReceived):
            pass
        began, cpu = time.monotonic(), sum(process.cpu_times()[:2])
        ages: list[float] = []
        messages = points = 0
        while (passed := time.monotonic() - began) < seconds:
            due = time.monotonic() + COMMIT_SECONDS
            waiting: list[float] = []
            while (rest := due - time.monotonic()) > 0:
                item = inbox.next(rest)
                if isinstance(item, MessageReceived):
                    messages += 1
                    if isinstance(item.message, Event):
                        store.append(item.message, time.time())
                    if isinstance(item.message, Metrics):
                        waiting.append(item.message.points[0].times[-1])
                        points += sum(len(each.steps) for each in item.message.points)
            store.commit()
            now = time.time()
            ages += [now - when for when in waiting]
        used = sum(process.cpu_times()[:2]) - cpu
        for link in links:
            link.close()
        store.close()
    half = len(ages) // 2
    return Outcome(
        messages / passed,
        points / passed,
        used / passed,
        statistics.median(ages[:half]),
        statistics.median(ages[half:]),
    )


def driver_cost(calls: int = 300) -> float:
    """Return the seconds of processor time in the driver for one batch from an actor of Ray."""
    import ray

    class Actor:
        def take(self) -> list[bytes]:
            return [bytes(500)] * 10

    ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False)
    try:
        actor = ray.remote(num_cpus=0)(Actor).remote()
        ray.get(actor.take.remote())
        process = psutil.Process()
        before = sum(process.cpu_times()[:2])
        for _ in range(calls):
            ready, _ = ray.wait([actor.take.remote()], timeout=10.0)
            ray.get(ready)
        return float(sum(process.cpu_times()[:2]) - before) / calls
    finally:
        ray.shutdown()


def main() -> None:
    """Measure each load in turn, and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=16)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--loads", default="1,2,4,8")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--speak", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.speak:
        first, gpus, load = options.speak.split(",")
        try:
            speak(int(first), int(gpus), float(load))
        except OSError:
            return
    if options.ray:
        print(f"a batch costs Ray's driver {1e3 * driver_cost():.2f} ms of processor time")
        return
    for load in map(float, options.loads.split(",")):
        found = follow(options.machines, options.gpus, load, options.seconds)
        print(
            f"load {load:g}: {found.messages:,.0f} messages/s, {found.points:,.0f} points/s, head "
            f"{found.cores:.2f} cores, stored after {found.first:.2f} s, later {found.last:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
