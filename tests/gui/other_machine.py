"""The other machine of a window's tests: a real Traindeck behind a pipe, with a data folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from PySide6.QtWidgets import QDialog
from pytestqt.qtbot import QtBot

from engine.processes.process import PROJECT
from engine.system import machines, paths
from engine.system.machines import RemoteMachine
from gui.app import AppController
from tests.support.recorded_runs import SPEC
from tests.support.runs import delete_folder

MACHINE = RemoteMachine(name="gpus", destination="me@gpus")
SERVE = (sys.executable, str(PROJECT / "main.py"), "serve", "NONCE")


def connect(
    app: AppController, other_home: Path, qtbot: QtBot, serve: Sequence[str] = SERVE
) -> None:
    """Connect the window to the other machine, and wait until the form offers it."""
    machines.add(MACHINE)
    app.machines.read_again()
    words = ("env", f"TRAINDECK_HOME={other_home}", f"PYTHONPATH={PROJECT}")
    app.machines.connect_to("gpus", (*words, *serve))
    qtbot.waitUntil(lambda: app.form.machine.offers("gpus"))
    app.engine_client.refresh_runs()


@contextmanager
def as_before(app: AppController, qtbot: QtBot) -> Iterator[None]:
    """Afterwards the window of a module is as at the first start: without runs and machines."""
    yield
    for dialog in app.window.findChildren(QDialog):
        dialog.close()
    app.machines.disconnect_from("gpus")
    with suppress(machines.CannotChangeMachines):
        machines.remove("gpus")
    app.machines.read_again()
    delete_folder(paths.home() / "runs")
    (paths.home() / "last-run").unlink(missing_ok=True)
    app.form.heading.kind.recipe.setChecked(True)
    app.form.environment.combo.setCurrentIndex(0)
    app.form.load(SPEC)
    app.chosen.choose([])
    app.rooms.runs.awaited = ""
    app.open(None)
    app.window.show_page("run")
    app.window.statusBar().clearMessage()
    app.engine_client.refresh_runs()
    qtbot.waitUntil(lambda: not app.run_list_panel.runs())
