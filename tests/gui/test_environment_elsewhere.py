"""An environment is made on another machine by the window: a real Traindeck behind a pipe, whose
`uv` is a double."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.environments import registry
from gui.app import AppController
from gui.run_form.environment.making_dialog import MakingDialog
from tests.gui.conftest import window_of_module
from tests.gui.other_machine import OtherMachine, as_before
from tests.support.device_states import cpu
from tests.support.sentences import sentence
from tests.support.uv_double import UvDouble

LONGEST_MS = 120_000
HALF = "Path('half').touch(); print('half of it', flush=True); time.sleep(3600)"
pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UvDouble]:
    uv = UvDouble(tmp_path_factory.mktemp("programs") / "uv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", uv.path)
        yield uv


@pytest.fixture(scope="module")
def machine(uv: UvDouble, tmp_path_factory: pytest.TempPathFactory) -> OtherMachine:
    return OtherMachine(tmp_path_factory.mktemp("other"))


@pytest.fixture
def environments(machine: OtherMachine) -> Path:
    """The folder of environments of the other machine."""
    return machine.home / registry.folder().name


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """The window of all tests here."""
    with window_of_module(home, cpu()) as app:
        yield app


@pytest.fixture
def app(
    opened: AppController, machine: OtherMachine, uv: UvDouble, environments: Path, qtbot: QtBot
) -> Iterator[AppController]:
    """The window, connected to the other machine, which is chosen in the form."""
    uv.does("")
    with as_before(opened, qtbot, machine):
        machine.connect(opened, qtbot)
        opened.form.machine.choose("gpus")
        qtbot.waitUntil(lambda: opened.form.spec() is not None, timeout=LONGEST_MS)
        yield opened
        shutil.rmtree(environments, ignore_errors=True)


def begin(app: AppController) -> MakingDialog:
    """Open the dialog, and press its button."""
    app.form.environment.make()
    (dialog,) = (each for each in app.window.findChildren(MakingDialog) if each.isVisible())
    assert dialog.windowTitle() == sentence("make-environment-for-pytorch-on-gpus")
    dialog.make_button.click()
    return dialog


def begin_half(app: AppController, uv: UvDouble, qtbot: QtBot) -> MakingDialog:
    """The same, and wait until half of it is there."""
    uv.does(HALF)
    dialog = begin(app)
    qtbot.waitUntil(lambda: "half of it" in dialog.log.toPlainText(), timeout=LONGEST_MS)
    return dialog


@pytest.mark.nightly
def test_an_environment_that_is_made_there_is_listed_and_chosen(
    app: AppController, environments: Path, qtbot: QtBot
) -> None:
    row = app.form.environment
    with qtbot.waitSignal(row.maker.made, timeout=LONGEST_MS):
        dialog = begin(app)
    assert not dialog.isVisible()
    python = str(environments / "torch-gpu" / "bin" / "python")
    assert row.interpreter() == python
    title = "torch-gpu · Python 3.12.4 · PyTorch"
    qtbot.waitUntil(lambda: row.combo.currentText() == title, timeout=LONGEST_MS)
    assert row.default_python("torch") == python
    qtbot.waitUntil(lambda: app.form.spec() is not None, timeout=LONGEST_MS)
    spec = app.form.spec()
    assert spec.interpreter == python
    assert registry.environments() == [], "nothing was made here"


def test_a_creation_there_is_cancelled_and_nothing_is_left(
    app: AppController, environments: Path, uv: UvDouble, qtbot: QtBot
) -> None:
    dialog = begin_half(app, uv, qtbot)
    assert "torch-gpu on gpus: " in app.form.environment.progress.text()
    with qtbot.waitSignal(app.form.environment.maker.cancelled, timeout=LONGEST_MS):
        dialog.cancel_button.click()
    assert list(environments.iterdir()) == []
    assert "nothing of it is left" in dialog.note.text()


def test_a_creation_there_ends_with_the_connection(
    app: AppController, environments: Path, uv: UvDouble, qtbot: QtBot
) -> None:
    dialog = begin_half(app, uv, qtbot)
    with qtbot.waitSignal(app.form.environment.maker.failed, timeout=LONGEST_MS):
        os.kill(app.machines.connection("gpus").pid, signal.SIGSTOP)
        app.machines.disconnect_from("gpus")
    assert sentence("no-connection-so-an-environment") in dialog.note.text()


def test_a_creation_is_ended_there_when_the_window_closes(
    app: AppController, environments: Path, uv: UvDouble, qtbot: QtBot
) -> None:
    begin_half(app, uv, qtbot)
    app.form.environment.maker.stop()
    qtbot.waitUntil(lambda: list(environments.iterdir()) == [], timeout=LONGEST_MS)


def test_a_full_disk_there_is_a_sentence(
    app: AppController, environments: Path, uv: UvDouble, qtbot: QtBot
) -> None:
    uv.does("print('error: No space left on device (os error 28)'); sys.exit(2)")
    with qtbot.waitSignal(app.form.environment.maker.failed, timeout=LONGEST_MS) as failed:
        dialog = begin(app)
    assert failed.args[0].startswith("gpus: ")
    assert f"the disk of {environments} is full" in failed.args[0]
    assert "No space left" in dialog.log.toPlainText()
    assert dialog.make_button.isEnabled()
