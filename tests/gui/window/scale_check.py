"""What is not crisp, or cut off, at the scale that Qt was told; a line for each thing.

`python -m tests.gui.window.scale_check`: a process of its own, because Qt learns its scale once.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from itertools import groupby

from PySide6.QtGui import QColor, QIcon
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QWidget

from engine.system import paths
from gui.plots.data.run_timeline import Marker, MarkerKind
from gui.plots.plot.canvas import Canvas
from gui.style.theme import DARK
from gui.window.application import application
from tests.gui.window.test_reach import is_cut_off
from tests.gui.window_states import called, visible_widgets, window_in_state
from tools.screenshots.pictures import State

_STATES: tuple[State, ...] = ("gpus", "failed")

_NOISE = 3
"""Steps of a colour that nobody sees: what antialiasing leaves of rounding."""


def main() -> None:
    """Print what is wrong, and last the scale."""
    qt_app = application(["traindeck"])
    for state in _STATES:
        with tempfile.TemporaryDirectory() as home:
            os.environ[paths.HOME_VARIABLE] = home
            with window_in_state(state, qt_app) as app:
                for widget in visible_widgets(app.window):
                    for fault in _faults(widget):
                        print(f"{state}: {fault}: {called(widget)}")
    for fault in _unsharp_markers(qt_app):
        print(fault)
    print(app.window.devicePixelRatio())


def _faults(widget: QWidget) -> Iterator[str]:
    ratio = widget.devicePixelRatio()
    if is_cut_off(widget):
        yield "cut off"
    picture = widget.pixmap() if isinstance(widget, QLabel) else None
    if picture and picture.devicePixelRatio() < ratio:
        yield "a picture for a coarser screen"
    if isinstance(widget, QAbstractButton) and not widget.icon().isNull():
        state = QIcon.State.On if widget.isChecked() else QIcon.State.Off
        size = widget.iconSize()
        made = widget.icon().pixmap(size, ratio, QIcon.Mode.Normal, state)
        if made.width() < math.floor(size.width() * ratio):
            yield "an icon for a coarser screen"


def _unsharp_markers(qt_app: QApplication) -> Iterator[str]:
    """A line covers one pixel, and is equally strong wherever it stands."""
    canvas = Canvas(DARK)
    canvas.resize(400, 200)
    canvas.show_x((0.0, 100.0))
    places = (10.0, 20.33, 30.5, 40.71, 50.05, 60.9)
    canvas.set_markers([Marker(MarkerKind.ALARM, place, 0.0, "") for place in places])
    canvas.show()
    qt_app.processEvents()
    image = canvas.grab().toImage()
    left = int(canvas.area.sceneBoundingRect().left() * canvas.devicePixelRatio()) + 2
    row = [image.pixelColor(x, image.height() // 2) for x in range(left, image.width() - 2)]
    red = [_redness(colour) for colour in row]
    lines = [list(line) for is_line, line in groupby(red, lambda each: each > 10) if is_line]
    wide = math.floor(canvas.devicePixelRatio())
    strengths = [strength for line in lines for strength in line]
    alike = max(strengths, default=0) - min(strengths, default=0) <= _NOISE
    if len(lines) != len(places) or {len(line) for line in lines} != {wide} or not alike:
        yield f"lines of markers are blurred: {lines}"


def _redness(colour: QColor) -> int:
    return colour.red() - colour.blue()


if __name__ == "__main__":
    main()
