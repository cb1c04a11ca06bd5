"""Pictures of the window on the made-up machine: `python -m tests.support.device_pictures DIR`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["TRAINDECK_HOME"] = tempfile.mkdtemp()

from PySide6.QtWidgets import QWidget

from gui import app, theme
from tests.support import device_states

TALL = (1280, 1000)


def main(folder: Path) -> None:
    """Save the window and the details of one GPU, dark and light."""
    application = app.application(["traindeck"])
    look = theme.ThemeController(application)
    deck = app.Deck(look)
    deck.telemetry.stop()  # what this machine does is of no interest
    deck.owners._workers = device_states.workers()
    deck.window.resize(*TALL)
    deck.window.show()
    for snapshot in device_states.last_minutes():
        deck.telemetry.snapshot.emit(snapshot)
    deck.form.devices.box(device_states.OTHERS).click()
    deck.devices.open_detail(device_states.HOT)
    pictures: dict[str, QWidget] = {"gpus": deck.window, "gpu": deck.devices.detail}
    for choice in ("dark", "light"):
        look.set_choice(choice)
        for _ in range(20):
            application.processEvents()
        for name, widget in pictures.items():
            widget.grab().save(str(folder / f"{name}-{choice}.png"))
    deck.shut_down()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
