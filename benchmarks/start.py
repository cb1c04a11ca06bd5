"""From the click to the first recorded step: warm, cold, and plain scripts that do the same.

`python -m benchmarks.start [--rounds 7] [--only torch/ddp]` starts, in turn, a run whose workers
are forked from a template that is ready, a run whose workers are cold, and a plain script with the
same model, data and strategy. A run has arrived when the loss of its first step can be read from
its store, a script when it has appended a line to a file. It prints the medians and the ratios.

`--memory` prints instead what the ranks of a run take, warm and cold (PSS: memory that n processes
share counts 1/n in each).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from engine import client
from engine.messages.commands import Stop
from engine.messages.events import Notice, WorkerStarted
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from engine.system import paths
from engine.templates import client as templates
from engine.templates.kinds import KINDS

HERE = Path(__file__).parent
TORCH, KERAS = HERE / "start_torch.py", HERE / "start_keras.py"
BATCH_SIZE = 64

POLL_SECONDS = 0.002
LONGEST_WAIT = 120.0
"""Seconds that anything here may take."""


class Case(NamedTuple):
    """One strategy, and the scripts that it is compared to."""

    strategy: str
    devices: int
    recipe: Path
    kind: str
    """The kind of its template."""

    scripts: Mapping[str, Callable[[Path], contextlib.AbstractContextManager[None]]]
    """By name: each starts a script that reports to a file, and ends it after the body."""

    @property
    def spec(self) -> RunSpec:
        """The settings of its run."""
        return RunSpec(
            recipe=str(self.recipe),
            strategy=self.strategy,
            devices=tuple(f"cpu:{number}" for number in range(self.devices)),
            batch_size=BATCH_SIZE,
            epochs=1,
            learning_rate=0.01,
        )


@contextlib.contextmanager
def program(*command: str, config: Mapping[str, object] | None = None) -> Iterator[None]:
    """Start a program, and end it after the body; `config` is its TF_CONFIG."""
    environment = dict(os.environ) | {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    if config:
        environment["TF_CONFIG"] = json.dumps(config)
    output = subprocess.DEVNULL
    process = subprocess.Popen([*command], stdout=output, stderr=output, env=environment)
    try:
        yield
        if config is None and process.wait(LONGEST_WAIT):
            raise SystemExit(f"{' '.join(command)} failed")
    finally:
        process.kill()
        process.wait()


def torchrun(ranks: int) -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """Return how the script is started with `ranks` ranks."""
    launcher = (sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={ranks}")
    return lambda report: program(*launcher, str(TORCH), str(report))


def script(path: Path) -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """Return how the script is started alone."""
    return lambda report: program(sys.executable, str(path), str(report))


@contextlib.contextmanager
def cluster(report: Path) -> Iterator[None]:
    """Start the TensorFlow script four times, as `tf/parameter_server` starts its workers."""
    tasks = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]
    jobs: dict[str, list[str]] = {}
    with contextlib.ExitStack() as sockets:
        for job, _ in tasks:
            end = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
            jobs.setdefault(job, []).append(f"127.0.0.1:{end.getsockname()[1]}")
    with contextlib.ExitStack() as programs:
        for job, index in tasks:
            config = {"cluster": jobs, "task": {"type": job, "index": index}}
            command = (sys.executable, str(KERAS), str(report))
            programs.enter_context(program(*command, config=config))
        yield


CASES = (
    Case(
        "torch/single", 1, TORCH, "torch", {"torchrun": torchrun(1), "plain script": script(TORCH)}
    ),
    Case("torch/ddp", 2, TORCH, "torch", {"torchrun": torchrun(2)}),
    Case("tf/mirrored", 2, KERAS, "tensorflow", {"bare script": script(KERAS)}),
    Case("tf/parameter_server", 2, KERAS, "tensorflow", {"bare scripts": cluster}),
)


def wait_until(holds: Callable[[], bool], pause: float = POLL_SECONDS) -> None:
    """Wait until `holds()`; end the program if that takes too long."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"It takes longer than {LONGEST_WAIT:.0f} s.")
        time.sleep(pause)


def time_of_script(start: Callable[[Path], contextlib.AbstractContextManager[None]]) -> float:
    """Seconds until a script has reported its first step."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        report.touch()
        begin = time.perf_counter()
        with start(report):
            wait_until(lambda: report.stat().st_size > 0)
            return time.perf_counter() - begin


def time_of_run(spec: RunSpec) -> float:
    """Seconds until the first step of a run can be read from its store."""
    begin = time.perf_counter()
    run_id = client.start(spec)
    with RunReader(paths.run_folder(run_id)) as reader:
        wait_until(lambda: "train/loss" in reader.counts() or client.get_run(run_id).state.is_over)
        taken = time.perf_counter() - begin
    finish(run_id)
    return taken


def finish(run_id: str) -> None:
    """Wait for the end of a run, and make sure that it went as it should."""
    wait_until(lambda: client.get_run(run_id).state.is_over, 0.1)
    info = client.get_run(run_id)
    supervisor = info.status.supervisor_pid
    wait_until(lambda: not psutil.pid_exists(supervisor), 0.1)
    with RunReader(info.folder) as reader:
        notices = [each.event for each in reader.events_after(0) if isinstance(each.event, Notice)]
    if info.state not in ("finished", "stopped") or notices:
        raise SystemExit(f"Run {run_id} {info.state}: {info.reason} {notices}")


def warm_up(kind: str) -> None:
    """Wait until the template `kind` is ready."""
    templates.start(KINDS[kind])
    wait_until(lambda: any(state.kind == kind for state in templates.states()), 0.1)


def measure(case: Case, rounds: int) -> None:
    """Print the times of one strategy."""
    warm_up(case.kind)
    cold = msgspec.structs.replace(case.spec, cold_start=True)
    ways: dict[str, Callable[[], float]] = {
        "warm": lambda: time_of_run(case.spec),
        "cold": lambda: time_of_run(cold),
    }
    for name, start in case.scripts.items():
        ways[name] = lambda start=start: time_of_script(start)  # type: ignore[misc]
    for way in ways.values():
        way()  # once in advance: the files of all ways are in memory then
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        order = list(ways)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            taken[name].append(ways[name]())
    print(f"{case.strategy} on {case.devices} CPU{'s' if case.devices > 1 else ''}")
    for name, found in taken.items():
        print(f"  {name:20} {spread(found)} s")
    for name in case.scripts:
        for ours in ("warm", "cold"):
            ratios = [one / other for one, other in zip(taken[ours], taken[name], strict=True)]
            print(f"  {ours + ' / ' + name:20} {spread(ratios)}")


def spread(found: list[float]) -> str:
    """Middle, smallest and largest of `found`."""
    return f"median {statistics.median(found):7.3f}   min {min(found):7.3f}   max {max(found):7.3f}"


def measure_memory(ranks: int) -> None:
    """Print the memory of the ranks of a run, warm and cold."""
    endless = msgspec.structs.replace(CASES[1]._replace(devices=ranks).spec, epochs=100_000)
    warm_up("torch")
    (template,) = (state.pid for state in templates.states() if state.kind == "torch")
    for name in ("warm", "cold"):
        spec = msgspec.structs.replace(endless, cold_start=name == "cold")
        run_id = client.start(spec)
        with RunReader(paths.run_folder(run_id)) as reader:
            wait_until(lambda: len(ranks_that_report(reader)) == ranks, 0.1)
            events = [each.event for each in reader.events_after(0)]
        workers = [event.pid for event in events if isinstance(event, WorkerStarted)]
        found = [proportional_memory(pid) for pid in workers]
        print(f"{ranks} ranks {name}: {sum(found):.0f} MiB, each {spread(found)}")
        if name == "warm":
            own = proportional_memory(template)
            print(f"  with the template, {own:.0f} MiB: {sum(found) + own:.0f} MiB")
        client.send(run_id, Stop(now=True))
        finish(run_id)


def ranks_that_report(reader: RunReader) -> set[str]:
    """The ranks whose own metrics are stored, which each sends after its first step."""
    return {name.split("/")[1] for name in reader.counts() if name.startswith("rank/")}


def proportional_memory(pid: int) -> float:
    """The PSS of a process, in MiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"the system does not tell the memory of process {pid}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=[case.strategy for case in CASES])
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--ranks", type=int, default=8, help="of --memory")
    options = parser.parse_args()
    # Without bytecode our modules, unlike installed packages, would be compiled in each process.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[paths.HOME_VARIABLE] = folder
        try:
            if options.memory:
                measure_memory(options.ranks)
            else:
                for case in CASES:
                    if options.only in (None, case.strategy):
                        measure(case, options.rounds)
        finally:
            templates.end_all()


if __name__ == "__main__":
    main()
