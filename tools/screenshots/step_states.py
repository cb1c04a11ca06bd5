"""States of the page Step: what a replay has found, and a replay that goes on.

The replay was really measured, on a CPU, of a run of handwritten digits of which sample 812 has an
infinite pixel.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable

import msgspec
from PySide6.QtWidgets import QWidget

from engine import client
from engine.planning.requests import AskReplay
from engine.planning.results import Doing, Replay
from gui.app import AppController
from tools.screenshots import fake_machine
from tools.screenshots.recording import FOLDER
from tools.screenshots.scene import Scene, replay_older

_MEASURED = FOLDER / "step.replay.xz"


def measured() -> Replay:
    """Return what was measured."""
    return msgspec.msgpack.decode(lzma.decompress(_MEASURED.read_bytes()), type=Replay)


def step() -> Scene:
    """A step with its answer, its samples and its layers."""

    def show(app: AppController, request: AskReplay) -> None:
        app.planning.found.emit(request, measured())
        app.planning.ended.emit(request)

    return _scene(show)


def step_running() -> Scene:
    """A replay that goes on."""

    def show(app: AppController, request: AskReplay) -> None:
        app.planning.news.emit(request, Doing("replaying 31 of 47 steps", 31, 47))

    return _scene(show)


def _scene(show: Callable[[AppController, AskReplay], None]) -> Scene:
    older = replay_older()

    def subject(app: AppController) -> QWidget:
        app.rooms.step.show_info(client.get_run(older[-1].id))
        request = AskReplay(older[-1].id, 22)
        app.window.show_page("step")
        app.planning.begun.emit(request)
        show(app, request)
        return app.window

    return Scene(fake_machine.workstation, older[-1].id, subject=subject)
