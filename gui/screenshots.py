"""Pictures of the window with a real recorded run, drawn without a screen."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QEventLoop, QTimer

from engine import catalog, client, paths
from engine.spec import RunSpec
from gui.app import Deck
from gui.application import application
from gui.theme import ThemeController

THEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")
SIZES = ((1280, 800), (2560, 1440))
FIRST_SNAPSHOT_MS = 8000
SETTLE_MS = 1500
"""Time for the plots to draw the whole run, card by card."""


def take(folder: Path) -> list[Path]:
    """Save the window in both themes and two sizes as PNG in `folder`; returns the files.

    Shows the newest run; where there is none, trains one first. Raises CannotStart, OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not paths.run_ids():
        _train()
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    app = application(["traindeck"])
    theme = ThemeController(app)
    deck = Deck(theme)
    deck.window.show()
    _wait_for_devices(deck)
    files = []
    for choice in THEMES:
        theme.set_choice(choice)
        for width, height in SIZES:
            deck.window.resize(width, height)
            _let_run(SETTLE_MS)
            file = folder / f"{choice}-{width}x{height}.png"
            if not deck.window.grab().save(str(file)):
                raise OSError(f"The picture {file} could not be written.")
            files.append(file)
    deck.shut_down()
    return files


def _train() -> None:
    recipe = catalog.recipe("digits")
    spec = RunSpec(
        recipe=recipe.reference,
        strategy="torch/single",
        devices=("cpu:0",),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
    )
    run_id = client.start(spec)
    while not client.look(run_id).state.is_over:
        time.sleep(0.2)


def _wait_for_devices(deck: Deck) -> None:
    loop = QEventLoop()
    deck.telemetry.snapshot.connect(loop.quit)
    QTimer.singleShot(FIRST_SNAPSHOT_MS, loop.quit)
    loop.exec()
    deck.telemetry.snapshot.disconnect(loop.quit)


def _let_run(milliseconds: int) -> None:
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()
