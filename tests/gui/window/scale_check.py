"""What is not crisp, or cut off, at the scale that Qt was told; a line for each thing.

`python -m tests.gui.window.scale_check`: a process of its own, because Qt learns its scale once.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget

from engine.system import paths
from gui.window.application import application
from tests.gui.window.test_reach import is_cut_off
from tests.gui.window_states import called, visible_widgets, window_in_state
from tools.screenshots.pictures import State

_STATES: tuple[State, ...] = ("gpus", "failed")


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


if __name__ == "__main__":
    main()
