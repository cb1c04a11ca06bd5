"""Draws pictures of the window at one scale, which Qt reads from the environment.

`python -m tools.screenshots.drawing DIR NAME...`: a NAME is such as `running-dark-1280x800`, with
the pixels of the picture.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop
from PySide6.QtWidgets import QApplication

from engine.messages.heartbeat import BEAT_SECONDS, Heartbeat
from engine.system import paths
from gui.app import AppController
from gui.bridge.background import MAX_THREADS
from gui.bridge.files import gpu_builds
from gui.style.theme import ThemeController
from gui.window.application import application
from tools.screenshots.fake_telemetry import FakeTelemetry
from tools.screenshots.pictures import PICTURES, Picture
from tools.screenshots.png_palette import with_palette
from tools.screenshots.scene import Scene
from tools.screenshots.window_states import STATES

LONGEST_WAIT = 60.0
"""Seconds until the window must have read everything."""

_SMALL_FILE = 0
"""For a PNG, Qt takes this `quality` as the effort of the compression."""

QUIET_CHECKS = 3
"""So many checks in a row must find nothing to paint: painting a plot may move others."""


def main(folder: Path, pictures: Iterable[Picture]) -> None:
    """Draw `pictures` as PNG in `folder`; pictures of one state must follow each other."""
    qt_app = application(["traindeck"])
    theme = ThemeController(qt_app)
    gpu_builds.__dict__["gpu_problem"] = lambda framework, interpreter: ""  # GPUs are made up
    for state, of_state in groupby(pictures, lambda picture: picture.state):
        with tempfile.TemporaryDirectory(prefix="traindeck-") as home:
            os.environ[paths.HOME_VARIABLE] = home
            scene = STATES[state]()
            with _heartbeat(scene):
                app = AppController(theme, FakeTelemetry(scene.machine, scene.seconds_before))
                _draw(folder, of_state, scene, app, qt_app, theme)
                app.window.close()
                app.shut_down()
            app.window.deleteLater()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@contextmanager
def _heartbeat(scene: Scene) -> Iterator[None]:
    """Write the heartbeat of each active run every second, however long the drawing takes."""
    over = threading.Event()

    def beat(hearts: list[Heartbeat]) -> None:
        while True:
            for heart in hearts:
                heart.beat()
            if over.wait(BEAT_SECONDS / 2):
                return

    live = () if scene.live is None else (scene.live,)
    if active := [Heartbeat(run.folder) for run in (*live, *scene.others)]:
        threading.Thread(target=beat, args=(active,), daemon=True, name="heartbeat").start()
    yield
    over.set()


def _draw(
    folder: Path,
    pictures: Iterable[Picture],
    scene: Scene,
    app: AppController,
    qt_app: QApplication,
    theme: ThemeController,
) -> None:
    app.window.show()
    if scene.run_id is not None:
        app.open(scene.run_id)
    _wait_for_workers(app, scene)
    if scene.live is not None:
        scene.live.append_rest()
        app.rooms.run.reader.poll()
    subject = scene.subject(app)
    for picture in pictures:
        theme.set_choice(picture.theme)
        width, height = picture.logical_size
        subject.resize(width, height)
        _wait_until_painted(app)
        if scene.live is not None:
            scene.live.append_step()
            app.rooms.run.reader.poll()
            qt_app.processEvents()
        image = with_palette(subject.grab().toImage())
        image.setDevicePixelRatio(1)  # the file has no scale
        file = folder / f"{picture.name}.png"
        if not image.save(str(file), quality=_SMALL_FILE):
            raise OSError(f"The picture {file} could not be written.")
        print(file, flush=True)


def _wait_for_workers(app: AppController, scene: Scene) -> None:
    """Wait until the window knows how much memory the active run uses."""
    found: list[bool] = []

    def note(uses: dict[str, object]) -> None:
        found.append(any(getattr(use, "ours", ()) for use in uses.values()))

    app.memory_owners.uses.connect(note)
    has_workers = scene.live is not None and bool(scene.live.pids)
    _wait(lambda: bool(found) and (not has_workers or found[-1]))
    app.memory_owners.uses.disconnect(note)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("The window did not read the recorded runs in time.")
        QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)


def _wait_until_painted(app: AppController) -> None:
    """Wait until all plots are painted and no work is left in the background.

    In the application a timer paints one plot at a time.
    """
    _wait_for_background(app)
    deadline, quiet = time.monotonic() + LONGEST_WAIT, 0
    while quiet < QUIET_CHECKS:
        if time.monotonic() > deadline:
            sys.exit("The plots were not painted in time.")
        QCoreApplication.processEvents()
        painted = [app.rooms.run.plots.tick(), app.rooms.runs.comparison.plots.tick()]
        painted.append(app.rooms.runs.page.waits_for_scrolling)
        quiet = 0 if any(painted) else quiet + 1
        if quiet == 1:
            _wait_for_background(app)


def _wait_for_background(app: AppController) -> None:
    """Wait until no work is left in the background: until all its threads meet at a barrier."""
    met: list[bool] = []
    meeting = threading.Barrier(MAX_THREADS)

    def missed(error: Exception) -> None:
        raise error

    for _ in range(MAX_THREADS):
        app.background.run(partial(meeting.wait, LONGEST_WAIT), lambda _: met.append(True), missed)
    _wait(lambda: len(met) == MAX_THREADS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [each for each in PICTURES if each.name in sys.argv[2:]])
