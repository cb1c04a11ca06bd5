"""The window with a run of another machine behind a slow link: how soon it is shown, what it costs.

`python -m benchmarks.remote_window [--points 10000000] [--seconds 20]` opens a run as
`benchmarks.remote` makes it, in the whole window: the list of runs, the devices, all curves in
sight. It prints the time from the click until each of these curves is painted, over an open
connection, and then the bytes per second that arrive while the run trains at 100 steps a second.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from PySide6.QtCore import QEventLoop

from benchmarks.remote import (
    HIDDEN,
    SHOWN,
    STEPS_PER_SECOND,
    VALIDATION,
    make_run,
    open_link,
    train,
)
from engine.runs.store.run_store import RunStore
from engine.system import machines
from engine.system.machines import RemoteMachine
from engine.system.paths import HOME_VARIABLE
from gui.app import AppController
from gui.style.theme import ThemeController
from gui.window.application import application
from tests.support import slow_link, ssh_server
from tests.support.ssh_server import HOST

RATE = 10e6
"""Of the link, in bit/s."""

LONGEST_WAIT = 60.0
SETTLING_SECONDS = 4.0
"""Until what is shown first has arrived, and what is out of sight is not asked for any more."""


class Window:
    """The window of the application, and the loop of its events."""

    def __init__(self) -> None:
        self._qt_app = application(["traindeck"])
        self.app = AppController(ThemeController(self._qt_app))
        self.app.window.resize(1280, 800)
        self.app.window.show()

    def wait(self, condition: Callable[[], bool]) -> float:
        """Handle events until `condition` holds; return the seconds that it took."""
        begun = time.monotonic()
        while not condition():
            assert time.monotonic() < begun + LONGEST_WAIT
            self._qt_app.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 5)
        return time.monotonic() - begun

    def settle(self, seconds: float) -> None:
        """Handle events for so long."""
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > end)


def measure(points: int, seconds: float) -> Iterator[str]:
    """Yield lines with what was measured."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        here, there = folder / "here", folder / "there"
        os.environ[HOME_VARIABLE] = str(there)
        run_id, store = make_run(points, time.time() - points / STEPS_PER_SECOND)
        store.close()  # one thread only may use it
        link, server = open_link(stack, folder, RATE)
        os.environ[HOME_VARIABLE] = str(here)
        command = server.command(there)
        machines.add(RemoteMachine(name=HOST, destination=HOST, command=command))
        window = Window()
        app = window.app
        stack.callback(app.shut_down)
        window.wait(lambda: bool(app.machines.machines))
        app.machines.connect_to(HOST)
        run = f"{HOST}:{run_id}"
        window.wait(lambda: any(info.id == run for info in app.machines.runs()))
        window.settle(SETTLING_SECONDS)
        shown: set[str] = set()
        for arrived in (app.rooms.run.reader.curve, app.rooms.run.reader.points):
            arrived.connect(lambda series, _: shown.add(series))
        before = link.received()
        app.open(run)
        wanted = {*SHOWN, *VALIDATION}
        taken = window.wait(lambda: wanted <= shown and not app.rooms.run.plots.tick())
        size = link.received() - before
        yield f"painted {taken:.2f} s after the click, {size / 1e3:.0f} kB"
        window.settle(SETTLING_SECONDS)
        step = points // len(SHOWN + HIDDEN)

        def work() -> None:
            with closing(RunStore(there / "runs" / run_id)) as store:
                train(store, step, seconds, STEPS_PER_SECOND)

        training = threading.Thread(target=work)
        before, begun = link.received(), time.monotonic()
        training.start()
        window.wait(lambda: not training.is_alive())
        cost = (link.received() - before) / (time.monotonic() - begun)
        yield f"while it trains at {STEPS_PER_SECOND} steps/s: {cost / 1e3:.1f} kB/s"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    if why := ssh_server.MISSING or slow_link.missing():
        raise SystemExit(f"This cannot be measured here: {why}.")
    for line in measure(options.points, options.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
