"""The checksums of a large checkpoint are compared: this can be ended, and leaves no trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QProgressDialog, QPushButton
from pytestqt.qtbot import QtBot

from engine.processes.process import PROJECT
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import MANIFEST, FileRecord
from engine.runs.run_info import get_run
from engine.runs.run_state import RunState
from gui.app import AppController
from gui.style.theme import ThemeController
from tests.engine.test_client_resume import contents, stopped_run
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

LARGE = 2**40
"""Bytes that take ten minutes; the file has none on the disk."""


@pytest.fixture
def checkpoint() -> Iterator[Path]:
    """The only checkpoint of run 1, which was stopped."""
    folder = stopped_run(3) / checkpoint_files.FOLDER / "step-00000003"
    os.truncate(folder / "weights", LARGE)
    manifest = checkpoint_files.read_manifest(folder)
    changed = msgspec.structs.replace(manifest, files={"weights": FileRecord(LARGE, "")})
    (folder / MANIFEST).write_bytes(msgspec.json.encode(changed))
    yield folder
    (folder / "weights").unlink()


@pytest.mark.parametrize(
    ("number", "more"),
    [
        (signal.SIGINT, []),
        pytest.param(signal.SIGTERM, ["--as-new-run"], marks=pytest.mark.nightly),
        pytest.param(signal.SIGHUP, [], marks=pytest.mark.nightly),
    ],
)
def test_a_signal_ends_it_at_once(
    number: signal.Signals, more: list[str], checkpoint: Path, qapp: QApplication
) -> None:
    run = checkpoint.parent.parent
    before = files_but(checkpoint, run)
    with subprocess.Popen(
        [sys.executable, "main.py", "resume", run.name, *more],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as resuming:
        try:
            process = psutil.Process(resuming.pid)
            while not any(file.path.endswith("weights") for file in process.open_files()):
                assert resuming.poll() is None, resuming.communicate()
                time.sleep(0.02)
            resuming.send_signal(number)
            sent = time.monotonic()
            _, said = resuming.communicate(timeout=120)
            print(f"the command has ended {time.monotonic() - sent:.2f} s after {number.name}")
        finally:
            resuming.kill()
    assert resuming.returncode == 130
    assert said == sentence("run-was-not-resumed-interrupted")
    assert files_but(checkpoint, run) == before
    assert [folder.name for folder in run.parent.iterdir()] == ["1"]


def test_the_window_shows_it_and_can_cancel_it_and_closes_meanwhile(
    checkpoint: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    run = checkpoint.parent.parent
    before = files_but(checkpoint, run)
    app = AppController(ThemeController(qapp))
    try:
        app.window.show()
        said: list[str] = []
        app.engine_client.failed.connect(said.append)
        for _ in range(2):
            app.resume_dialogs.resume("1")
            qtbot.waitUntil(lambda: any(d.isVisible() for d in dialogs(app)))
            [dialog] = dialogs(app)
            assert "1.0 TiB" in dialog.labelText()
            [cancel] = dialog.findChildren(QPushButton)
            QTest.mouseClick(cancel, Qt.MouseButton.LeftButton)
            qtbot.waitUntil(lambda: bool(said) and not dialogs(app))
            assert said.pop() == sentence("run-was-not-resumed-cancelled")
        with qtbot.waitSignal(app.engine_client.verifying):
            app.resume_dialogs.resume("1")
    finally:
        app.window.close()
        app.shut_down()  # it waits for the thread that verifies
        app.window.deleteLater()
    assert get_run("1").state is RunState.STOPPED
    assert files_but(checkpoint, run) == before


def dialogs(app: AppController) -> list[QProgressDialog]:
    return app.window.findChildren(QProgressDialog)


def files_but(checkpoint: Path, run: Path) -> dict[Path, bytes]:
    """The contents of a run, without its largest file."""
    large = checkpoint / "weights"
    kept = large.rename(checkpoint.parent.parent.parent.parent / "weights")
    try:
        return contents(run)
    finally:
        kept.rename(large)
