"""The page of the sweeps with those of a machine behind a slow link: how soon, and what it costs.

`python -m benchmarks.remote_sweeps [--runs 40] [--trials 2000]` makes two sweeps there: one of many
trials without runs, and one whose runs have curves. It prints the time from the click on the page
until the second one is shown, until all its curves are, and until the first one is; and what
arrives while nothing changes, and for one more trial.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.remote import open_link
from benchmarks.remote_window import RATE, SETTLING_SECONDS, Window
from engine.sweeps import sweep as sweeps
from engine.sweeps.study import RUN, open_study, suggest
from engine.system import machines
from engine.system.machines import RemoteMachine
from engine.system.paths import HOME_VARIABLE
from gui.bridge.curves.sweep_curves import SweepLines
from tests.support import slow_link, ssh_server
from tests.support.made_sweeps import make_sweep
from tests.support.ssh_server import HOST

EPOCHS = 300
QUIET_SECONDS = 10.0


def measure(runs: int, trials: int) -> Iterator[str]:
    """Yield lines with what was measured."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        here, there = folder / "here", folder / "there"
        os.environ[HOME_VARIABLE] = str(there)
        large = make_sweep(trials, trials=trials + 1, with_runs=False)
        make_sweep(runs, epochs=EPOCHS)
        link, server = open_link(stack, folder, RATE)
        os.environ[HOME_VARIABLE] = str(here)
        command = server.command(there)
        machines.add(RemoteMachine(name=HOST, destination=HOST, command=command))
        window = Window()
        app = window.app
        stack.callback(app.shut_down)
        window.wait(lambda: bool(app.machines.machines))
        app.machines.connect_to(HOST)
        window.wait(lambda: len(app.machines.runs()) == runs)
        window.settle(SETTLING_SECONDS)
        page, lines = app.rooms.sweeps.page, list[SweepLines]()
        page.best_plot.curves.arrived.connect(lines.append)

        def trials_of(number: str) -> int:
            counts = {each.summary.sweep: len(each.trials) for each in page._reports}
            return counts.get(f"{HOST}:{number}", 0)

        before, begun = link.received(), time.monotonic()
        app.window.show_page("sweeps")
        taken = window.wait(lambda: page.shown is not None and trials_of("2") == runs)
        yield f"a sweep of {runs} runs is shown {taken:.2f} s after the click"
        window.wait(lambda: bool(lines) and not lines[-1].unread and lines[-1].points is not None)
        taken, size = time.monotonic() - begun, link.received() - before
        yield f"its {len(lines[-1].others) + 1} curves after {taken:.2f} s"
        window.wait(lambda: trials_of("1") == trials)
        taken, size = time.monotonic() - begun, link.received() - before
        yield f"a sweep of {trials:,} trials after {taken:.2f} s; all of this: {size / 1e3:.0f} kB"
        window.settle(SETTLING_SECONDS)
        before = link.received()
        window.settle(QUIET_SECONDS)
        quiet = (link.received() - before) / QUIET_SECONDS
        yield f"while nothing changes, with runs and devices: {quiet / 1e3:.2f} kB/s"
        sweep = sweeps.read(large)
        study = open_study(large, sweep)
        before = link.received()
        trial = study.ask()
        suggest(trial, sweep.ranges)
        trial.set_user_attr(RUN, "1")
        study.tell(trial, 0.5)
        taken = window.wait(lambda: trials_of("1") == trials + 1)
        size = link.received() - before
        yield f"one more trial after {taken:.2f} s, {size / 1e3:.1f} kB with runs and devices"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--trials", type=int, default=2000)
    options = parser.parse_args()
    if why := ssh_server.MISSING or slow_link.missing():
        raise SystemExit(f"This cannot be measured here: {why}.")
    for line in measure(options.runs, options.trials):
        print(line, flush=True)


if __name__ == "__main__":
    main()
