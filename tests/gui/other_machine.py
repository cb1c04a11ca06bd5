"""The other machine of a window's tests: a real Traindeck behind a pipe, with a data folder.

One for all tests of a module, with one connection: to start it takes longer than most tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from PySide6.QtWidgets import QDialog
from pytestqt.qtbot import QtBot

from engine.environments import registry
from engine.processes.process import PROJECT
from engine.runs.run_state import RunState
from engine.spec.run_spec import RunSpec
from engine.system import machines, paths
from engine.system.machines import RemoteMachine
from gui.app import AppController
from tests.support.recorded_runs import SPEC, RecordedRun
from tests.support.runs import delete_folder

MACHINE = RemoteMachine(name="gpus", destination="me@gpus")
SERVE = (sys.executable, str(PROJECT / "main.py"), "serve", "NONCE")


class OtherMachine:
    """The machine `gpus`; the window of a module is connected with it when a test asks for it."""

    def __init__(self, home: Path, serve: Sequence[str] = SERVE) -> None:
        self.home = home
        self._serve = serve
        self._made: list[RecordedRun] = []

    def record(self, spec: RunSpec = SPEC) -> RecordedRun:
        """Record a run there, which trains under this process."""
        with self.as_home():
            run = RecordedRun(spec)
        run.begin()
        self._made.append(run)
        return run

    @contextmanager
    def as_home(self) -> Iterator[None]:
        """What is read and written meanwhile is that of the other machine."""
        with pytest.MonkeyPatch.context() as there:
            there.setenv("TRAINDECK_HOME", str(self.home))
            yield

    def connect(self, app: AppController, qtbot: QtBot, *, anew: bool = False) -> None:
        """Connect the window, unless it is, and wait until the form offers the machine."""
        if anew or not (app.machines.is_connected("gpus") and app.form.machine.offers("gpus")):
            forget(app)
            machines.add(MACHINE)
            app.machines.read_again()
            words = ("env", f"TRAINDECK_HOME={self.home}", f"PYTHONPATH={PROJECT}")
            app.machines.connect_to("gpus", (*words, *self._serve))
            qtbot.waitUntil(lambda: app.form.machine.offers("gpus"))
        app.engine_client.refresh_runs()

    def clear(self) -> None:
        """Afterwards the machine is as at the first start, but for what was sent to it."""
        for run in self._made:
            run.store.close()
        self._made.clear()
        with self.as_home():
            clear_home()


def clear_home() -> None:
    """Delete the runs, the trash and the list of environments of a data folder."""
    for folder in (paths.home() / "runs", paths.trash_folder()):
        delete_folder(folder)
    for name in ("last-run", registry.FILE_NAME):
        (paths.home() / name).unlink(missing_ok=True)


def forget(app: AppController) -> None:
    """The window has no machine any more."""
    app.machines.disconnect_from("gpus")
    with suppress(machines.CannotChangeMachines):
        machines.remove("gpus")
    app.machines.read_again()


def listed(app: AppController) -> dict[str, RunState]:
    """The states of all runs in the list, by their ids."""
    return {info.id: info.state for info in app.run_list_panel.runs()}


@contextmanager
def as_before(
    app: AppController, qtbot: QtBot, machine: OtherMachine | None = None
) -> Iterator[None]:
    """Afterwards the window of a module is as at the first start: without runs, and with nothing of
    a machine but its connection."""
    yield
    for dialog in app.window.findChildren(QDialog):
        dialog.close()
    if machine is not None:
        machine.clear()
    clear_home()
    app.form.machine.choose("")
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
