"""The QApplication, in a process of its own: there can be only one in each."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, threading, weakref
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget
from gui.window.application import application, collect_garbage

app = application(["traindeck"])
killers = []
widget = QWidget()
widget.itself = widget
weakref.finalize(widget, lambda: killers.append(threading.current_thread()))
del widget
kept = []
for _ in range(10 * gc.get_threshold()[0]):
    kept.append([])
assert not gc.isenabled() and not killers, "garbage waits for the event loop"
collect_garbage(app)
look = QTimer()
look.timeout.connect(lambda: killers and app.quit())
look.start(10)
QTimer.singleShot(60_000, app.quit)
app.exec()
assert killers == [threading.main_thread()], killers
"""


@pytest.mark.usefixtures("processes")
def test_garbage_is_collected_between_events_alone() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
