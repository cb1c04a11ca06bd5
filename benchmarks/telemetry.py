"""What watching the GPUs costs: processor time of the telemetry helper, as a share of one core.

`python -m benchmarks.telemetry [--gpus 8] [--seconds 30]` runs the helper as the window does, once
a second, against the tests' double of the NVIDIA driver, with two processes on every GPU. It prints
our share of the cost only: what a real driver does in each call comes on top.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from engine.telemetry.helper_client import ARGUMENTS, ROOT
from tests.support.fake_nvml import FakeNvml

MODES = {
    "somebody looks": b'{"watching": true}\n',
    "and at one GPU in detail": b'{"detail": "GPU-0"}\n',
    "nobody looks": b'{"watching": false, "detail": ""}\n',
}
SETTLED = 3
"""Snapshots after which a helper has started up and asked what it asks once."""


def share(wish: bytes, seconds: int, environment: dict[str, str]) -> tuple[float, int]:
    """Processor time over wall time of a helper of its own, and its number of threads."""
    with subprocess.Popen(
        [sys.executable, *ARGUMENTS],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None
        for _ in range(SETTLED):
            helper.stdout.readline()
        helper.stdin.write(wish)
        helper.stdin.flush()
        helper.stdout.readline()  # a wish is answered at once
        process = psutil.Process(helper.pid)
        before, begin = process.cpu_times(), time.monotonic()
        while time.monotonic() - begin < seconds:
            helper.stdout.readline()
        after, end = process.cpu_times(), time.monotonic()
        threads = process.num_threads()
        helper.stdin.close()
    used = after.user + after.system - before.user - before.system
    return used / (end - begin), threads


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        fake = FakeNvml(Path(folder))
        for number in range(options.gpus):
            who = fake.add_gpu(f"GPU-{number}", pci_bus=f"00000000:{number + 1:02X}:00.0")
            fake.run(who, compute=[(os.getpid(), 20 << 30), (os.getppid(), 2 << 30)])
        environment = os.environ | fake.environment
        del environment["FAKE_NVML_CALLS"]  # the list of calls is for tests, and costs time
        for mode, wish in MODES.items():
            used, threads = share(wish, options.seconds, environment)
            print(f"{options.gpus} GPUs, {mode:25} {used:7.3%} of one core, {threads} threads")


if __name__ == "__main__":
    main()
