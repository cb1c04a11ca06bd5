"""From `python main.py` to the window on the screen, and to its plots.

`python -m benchmarks.window [--rounds 9] [--runs 20]` opens it, in turn with a bare window of
PySide6 that has a label. It prints the medians, from the start of the process to the moment when
the first paint is done, and the ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from benchmarks.history import make_runs
from engine.system import logs, paths

MAIN = Path(__file__).parent.parent / "main.py"
LONGEST_WAIT = 60.0
"""Seconds for one window."""

POLL_SECONDS = 0.005

BARE = """
import sys
from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow

class Window(QMainWindow):
    def paintEvent(self, event):
        super().paintEvent(event)
        QTimer.singleShot(0, app.quit)

app = QApplication(sys.argv)
window = Window()
window.setCentralWidget(QLabel("a label"))
window.show()
app.exec()
"""


def traindeck(home: str) -> tuple[float, float]:
    """Open the window; return the seconds until it is painted, and until it has plots."""
    log = Path(home) / "logs" / "debug-window.log"
    with contextlib.suppress(FileNotFoundError):
        log.unlink()
    begin = time.time()
    window = subprocess.Popen([sys.executable, str(MAIN)], stderr=subprocess.DEVNULL)
    try:
        found: dict[str, float] = {}
        while not found.keys() >= {"painted", "complete"}:
            if window.poll() is not None or time.time() > begin + LONGEST_WAIT:
                raise RuntimeError("the window did not open")
            time.sleep(POLL_SECONDS)
            if log.exists():
                found = seconds_since(begin, log.read_text("utf-8"))
    finally:
        window.terminate()
        window.wait()
    return found["painted"], found["complete"]


def seconds_since(begin: float, log: str) -> dict[str, float]:
    """Return when the window said `painted` and `complete` in its log."""
    found = re.findall(r"^(\S+ \S+) .*: the window is (painted|complete)$", log, re.MULTILINE)
    return {what: datetime.fromisoformat(when).timestamp() - begin for when, what in found}


def bare() -> float:
    """Open a window with a label; return the seconds until its process has painted it."""
    begin = time.time()
    subprocess.run([sys.executable, "-c", BARE], check=True, stderr=subprocess.DEVNULL)
    return time.time() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {paths.HOME_VARIABLE: home, "XDG_CONFIG_HOME": home}
        os.environ[logs.LEVEL_VARIABLE] = "info"
        make_runs(options.runs, begin=1_760_000_000.0)
        traindeck(home)  # the first one compiles
        ours: list[tuple[float, float]] = []
        theirs: list[float] = []
        rounds: list[Callable[[], None]] = [
            lambda: ours.append(traindeck(home)),
            lambda: theirs.append(bare()),
        ]
        for _ in range(options.rounds):
            for measure in rounds:
                measure()
    painted, complete = (statistics.median(column) for column in zip(*ours, strict=True))
    peer = statistics.median(theirs)
    print(f"painted {painted:.3f} s, complete {complete:.3f} s, bare window {peer:.3f} s")
    print(f"painted / bare {painted / peer:.2f}, complete / bare {complete / peer:.2f}")


if __name__ == "__main__":
    main()
