"""An environment is made on another machine by the window: a real Traindeck behind a pipe, whose
`uv` is a double."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.environments import registry
from gui.app import AppController
from gui.run_form.environment.making_dialog import MakingDialog
from tests.gui.conftest import window_of_module
from tests.gui.other_machine import as_before, connect
from tests.support.device_states import cpu
from tests.support.sentences import sentence
from tests.support.uv_double import UvDouble

LONGEST_MS = 120_000
HALF = "Path('half').touch(); print('half of it', flush=True); time.sleep(3600)"
pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UvDouble:
    uv = UvDouble(tmp_path / "uv")
    monkeypatch.setenv("PATH", uv.path)
    return uv


@pytest.fixture
def environments(tmp_path: Path) -> Path:
    """The folder of environments of the other machine."""
    return tmp_path / "other" / registry.folder().name


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """The window of all tests here."""
    with window_of_module(home, cpu()) as app:
        yield app


@pytest.fixture
def app(
    opened: AppController, environments: Path, uv: UvDouble, qtbot: QtBot
) -> Iterator[AppController]:
    """The window, connected to the other machine, which is chosen in the form."""
    environments.parent.mkdir(mode=0o700)
    with as_before(opened, qtbot):
        connect(opened, environments.parent, qtbot)
        opened.form.machine.choose("gpus")
        qtbot.waitUntil(lambda: opened.form.spec() is not None, timeout=LONGEST_MS)
        yield opened


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
    assert spec is not None
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
    assert failed.args is not None
    assert failed.args[0].startswith("gpus: ")
    assert f"the disk of {environments} is full" in failed.args[0]
    assert "No space left" in dialog.log.toPlainText()
    assert dialog.make_button.isEnabled()
