"""The window while another machine does not wait: its longest stop, and the memory that it takes.

`python -m benchmarks.remote_floods [--seconds 10] [FLOOD ...]` connects a window to a program that
speaks the protocol and sends as much as it can, in another way each time
(`tests/support/flooding_machine.py`). A stop is the time between two turns of the event loop, in
which nothing is painted and no key is heard; its CPU is what it costs where nothing
else is to do. One row is printed for each flood.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from engine.system import machines
from engine.system.machines import RemoteMachine
from engine.system.paths import HOME_VARIABLE
from tests.support.flooding_machine import FLOODS, RUN

TURN_MS = 5
"""Between two turns of an event loop that has nothing to do."""

SETTLING_SECONDS = 3.0
"""For the first paint of the window: it is measured from then on."""

LONGEST_START = 60.0
LONGEST_FREEZE = 180.0
_MIB = 2**20


def measure(how: str, seconds: float) -> dict[str, object]:
    """Show the flood in a window of this process, and return what it has cost."""
    import psutil
    from PySide6.QtCore import QTimer

    from gui.app import AppController
    from gui.style.theme import ThemeController
    from gui.window.application import application

    machines.add(RemoteMachine(name="flood", destination="flood", command="traindeck"))
    qt_app = application(["traindeck"])
    app = AppController(ThemeController(qt_app))
    app.window.resize(1280, 800)
    app.window.show()
    turns: list[tuple[float, float]] = []
    ticks = QTimer(interval=TURN_MS)
    ticks.timeout.connect(lambda: turns.append((time.monotonic(), time.thread_time())))
    ticks.start()

    def wait(seconds: float) -> None:
        QTimer.singleShot(int(1000 * seconds), qt_app.quit)
        qt_app.exec()

    wait(SETTLING_SECONDS)
    before = psutil.Process().memory_info().rss
    turns.clear()
    command = [sys.executable, "-m", "tests.support.flooding_machine", how, "NONCE"]
    app.machines.connect_to("flood", command)
    end = time.monotonic() + LONGEST_START
    while not app.machines.is_connected("flood") and time.monotonic() < end:
        wait(0.1)
    if how == "sweeps":
        app.window.show_page("sweeps")
    if how in ("runs", "most-runs", "many-runs", "unreadable"):
        app.window.show_page("runs")
    if how == "devices":
        app.window.show_page("machines")
    if how in ("lines", "long-lines", "events", "curves", "series"):
        end = time.monotonic() + LONGEST_START
        while not app.machines.runs() and time.monotonic() < end:
            wait(0.1)
        app.open(f"flood:{RUN}")
    if how == "progress":
        app.doctor.examine(on_gpus=False, machine="flood")
    wait(seconds)
    last = app.machines.status("flood")
    stops = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(turns)]
    link = app.machines._links["flood"].connection
    return {
        "stop": max((wall for wall, _ in stops), default=0.0),
        "cpu": max((cpu for _, cpu in stops), default=0.0),
        "stops": sum(wall > 0.1 for wall, _ in stops),
        "grown": (1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / _MIB,
        "received": link.traffic[1] / _MIB,
        "state": "" if last is None else f"{last.state} {last.sentence}",
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("floods", nargs="*", metavar="FLOOD", help="by default all")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        found = measure(options.floods[0], options.seconds)
        print(json.dumps(found), flush=True)
        os._exit(0)  # what floods is not waited for
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    print("flood         longest stop  its CPU  > 100 ms      memory  connection")
    for how in options.floods or FLOODS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.remote_floods", "--inside", how]
            try:
                done = subprocess.run(
                    [*command, "--seconds", str(options.seconds)],
                    env=os.environ | {HOME_VARIABLE: folder},
                    stdout=subprocess.PIPE,
                    timeout=options.seconds + LONGEST_FREEZE,
                    check=True,
                )
            except subprocess.TimeoutExpired:
                print(f"{how:<12}{'no end':>14}", flush=True)
                continue
        found = json.loads(done.stdout.splitlines()[-1])
        stop, cpu = f"{1000 * found['stop']:,.0f} ms", f"{1000 * found['cpu']:,.0f} ms"
        memory = f"+{found['grown']:.0f} MiB"
        figures = f"{stop:>14}{cpu:>9}{found['stops']:>10}{memory:>12}"
        print(f"{how:<12}{figures}  {found['state']}", flush=True)


if __name__ == "__main__":
    main()
