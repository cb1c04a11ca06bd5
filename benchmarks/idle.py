"""What a window costs that is open while nothing trains, beside a history of thousands of runs.

`python -m benchmarks.idle [--runs 2000] [--seconds 60]` makes them up in a temporary data folder,
opens the window and prints the share of one core that it and its helpers take once all is read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.history import make_runs
from engine.system import paths

QUIET = 15.0
"""Seconds after the start in which the window reads the history and settles."""


def processor_seconds(process: psutil.Process) -> dict[str, float]:
    """Of the window and each of its helpers, by what they are."""
    found = {"window": process}
    for number, helper in enumerate(process.children(recursive=True), start=1):
        found[f"helper {number} ({helper.cmdline()[-1]})"] = helper
    return {name: sum(each.cpu_times()[:2]) for name, each in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[paths.HOME_VARIABLE] = folder
        make_runs(options.runs, begin=1_760_000_000.0)
        environment = {"QT_QPA_PLATFORM": "offscreen"} | os.environ | {"XDG_CONFIG_HOME": folder}
        main_file = Path(__file__).parent.parent / "main.py"
        window = subprocess.Popen([sys.executable, str(main_file)], env=environment)
        try:
            time.sleep(QUIET)
            process = psutil.Process(window.pid)
            before, begin = processor_seconds(process), time.perf_counter()
            time.sleep(options.seconds)
            after, seconds = processor_seconds(process), time.perf_counter() - begin
        finally:
            window.terminate()
            window.wait()
    for name in after.keys() & before.keys():
        print(f"{name}: {100 * (after[name] - before[name]) / seconds:.2f} % of one core")


if __name__ == "__main__":
    main()
