"""States of the comparison that say where two runs part: the answer, and a search that goes on.

The answer was really found, on a CPU, for two runs that differ in the probability of a Dropout.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable

import msgspec
from PySide6.QtWidgets import QWidget

from engine.planning.requests import AskDivergence
from engine.planning.results import Divergence, Doing
from gui.app import AppController
from tools.screenshots import fake_machine
from tools.screenshots.recording import FOLDER
from tools.screenshots.scene import Scene, replay_older

_MEASURED = FOLDER / "parting.divergence.xz"


def measured() -> Divergence:
    """Return what was found."""
    return msgspec.msgpack.decode(lzma.decompress(_MEASURED.read_bytes()), type=Divergence)


def parting() -> Scene:
    """Two runs, and where they part."""

    def show(app: AppController, request: AskDivergence) -> None:
        app.planning.found.emit(request, measured())
        app.planning.ended.emit(request)

    return _scene(show)


def parting_running() -> Scene:
    """A search that goes on."""

    def show(app: AppController, request: AskDivergence) -> None:
        app.planning.news.emit(request, Doing("run 3: replaying 31 of 47 steps", 31, 47))

    return _scene(show)


def _scene(show: Callable[[AppController, AskDivergence], None]) -> Scene:
    older = replay_older()
    pair = older[0].id, older[2].id

    def subject(app: AppController) -> QWidget:
        app.chosen.choose(pair)
        app.run_list_panel.compare.setChecked(True)
        app.rooms.runs.comparison.plots.toolbar.log_y.setChecked(True)
        request = AskDivergence(*pair)
        app.rooms.parting.expect(request, pair)
        app.planning.begun.emit(request)
        show(app, request)
        return app.window

    return Scene(fake_machine.workstation, older[-1].id, subject=subject)
