"""Silence is told from life, the title says how far it is, and the end is announced."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.messages.heartbeat import Heartbeat
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from gui.bridge.liveness import NO_SILENCE, Liveness, Silence
from gui.run_view.progress_text import silence_text, time_left, window_title
from gui.run_view.run_controls import RunControls
from gui.style.theme import ThemeController
from gui.window.desktop_notices import DesktopNotices
from gui.window.taskbar import Taskbar, desktop_progress
from gui.window.window_status import WindowStatus
from tests.gui.conftest import SPEC
from tests.support.sentences import sentence


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)


def info(
    folder: Path,
    state: RunState = RunState.RUNNING,
    *,
    updated: float = 0.0,
    step: int = 13,
    step_seconds: float = 0.0,
) -> RunInfo:
    status = RunStatus(
        state=state,
        updated=updated,
        step=step,
        step_seconds=step_seconds,
        steps_per_epoch=15,
        epochs=2,
        seconds_left=65.0,
    )
    return RunInfo("7", folder, SPEC, status, state, "All is done.")


def silences(liveness: Liveness) -> list[Silence]:
    said: list[Silence] = []
    liveness.silence.connect(said.append)
    return said


def test_a_silent_supervisor_is_told_and_heard_again(qapp: QApplication, tmp_path: Path) -> None:
    liveness = Liveness()
    said = silences(liveness)
    liveness.show_info(info(tmp_path, updated=time.time() - 5))
    assert said[-1].seconds == pytest.approx(5.0)
    assert not said[-1].workers_only
    Heartbeat(tmp_path).beat()
    liveness.check()
    assert said[-1] == NO_SILENCE


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize(
    ("state", "beats", "age", "step_seconds"),
    [
        (RunState.RUNNING, True, 60.0, 0.0),
        (RunState.RUNNING, True, 20.0, 15.0),
        (RunState.FINISHED, False, 5.0, 0.0),
        (RunState.INTERRUPTED, False, 5.0, 0.0),
        (RunState.STARTING, False, 5.0, 0.0),
    ],
)
def test_a_long_step_and_a_run_that_is_over_are_no_silence(
    qapp: QApplication,
    tmp_path: Path,
    state: RunState,
    beats: bool,
    age: float,
    step_seconds: float,
) -> None:
    """Nothing is recorded, but the loop of the supervisor turns, or nothing is expected."""
    if beats:
        Heartbeat(tmp_path).beat()
    liveness = Liveness()
    said = silences(liveness)
    liveness.show_info(info(tmp_path, state, updated=time.time() - age, step_seconds=step_seconds))
    assert said == []


@pytest.mark.parametrize(("age", "is_old"), [(2.0, False), (5.0, True)])
def test_workers_that_finish_no_step_are_missed_though_the_supervisor_is_well(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path, age: float, is_old: bool
) -> None:
    Heartbeat(tmp_path).beat()
    window, figure = QMainWindow(), QLabel("0.5")
    qtbot.addWidget(window)
    controls = RunControls(ThemeController(qapp).current)
    qtbot.addWidget(controls)
    attention = WindowStatus(window, controls.headline, [figure])
    stuck = info(tmp_path, updated=time.time() - age, step_seconds=0.1)
    controls.show_info(stuck)
    attention.show_info(stuck)
    assert ("no step for 5 s" in controls.headline.state.text()) is is_old
    assert ("ETA" in controls.headline.state.text()) is not is_old
    assert figure.isEnabled() is not is_old
    further = info(tmp_path, updated=time.time(), step=14, step_seconds=0.1)
    controls.show_info(further)
    attention.show_info(further)
    assert "ETA" in controls.headline.state.text()
    assert figure.isEnabled()


def test_an_unheard_machine_is_said_to_be_so(qapp: QApplication, tmp_path: Path) -> None:
    unheard = {"gpus": 6.0, "lab": 0.5}
    liveness = Liveness(unheard_seconds=unheard.__getitem__)
    said = silences(liveness)
    there = info(tmp_path, updated=time.time(), step_seconds=0.1)._replace(id="gpus:7")
    liveness.show_info(there)
    assert said == [Silence(6.0, machine="gpus")]
    assert silence_text(said[0]) == sentence("no-news-from-gpus")
    assert window_title(there, said[0]).startswith("no news · ")
    liveness.show_info(there._replace(id="lab:7"))
    assert said[1:] == [NO_SILENCE]


def test_the_taskbar_hears_of_progress_once(tmp_path: Path) -> None:
    told: list[float | None] = []
    taskbar = Taskbar(told.append)
    for state, step in (
        (RunState.STARTING, 0),
        (RunState.RUNNING, 15),
        (RunState.RUNNING, 15),
        (RunState.PAUSED, 15),
        (RunState.RUNNING, 30),
        (RunState.FINISHED, 30),
    ):
        taskbar.show_info(info(tmp_path, state, step=step))
    taskbar.show_info(None)
    assert told == [0.5, 1.0, None]


def test_a_desktop_that_shows_no_progress_is_left_alone(qapp: QApplication, tmp_path: Path) -> None:
    assert desktop_progress(qapp) is None
    Taskbar(None).show_info(info(tmp_path))


def test_silence_greys_the_figures(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    controls, figure = RunControls(ThemeController(qapp).current), QLabel("0.5")
    qtbot.addWidget(controls)
    attention = WindowStatus(window, controls.headline, [figure])
    old = info(tmp_path, updated=time.time() - 12)
    controls.show_info(old)
    attention.show_info(old)
    assert "silent for 12 s" in controls.headline.state.text()
    assert "ETA" not in controls.headline.state.text()
    assert not figure.isEnabled()
    assert not controls.headline.progress.isEnabled()
    assert controls.stop.isEnabled()
    assert window.windowTitle().startswith("silent · ")
    Heartbeat(tmp_path).beat()
    attention.liveness.check()
    assert "ETA 00:01:05" in controls.headline.state.text()
    assert figure.isEnabled()
    assert window.windowTitle() == "43 % · digits · single · #7 · Traindeck"


def test_the_title_says_what_there_is_to_say(tmp_path: Path) -> None:
    assert window_title(None, NO_SILENCE) == "Traindeck"
    failed = info(tmp_path, RunState.FAILED)
    assert window_title(failed, NO_SILENCE).startswith("failed · ")
    nearly = info(tmp_path, step=29)
    assert window_title(nearly, NO_SILENCE).startswith("96 % · ")


def test_the_time_left_stands_still_in_a_pause(tmp_path: Path) -> None:
    assert time_left(info(tmp_path, RunState.PAUSED)) == "00:01:05 to go"
    assert time_left(info(tmp_path, RunState.STOPPING)) == ""


def test_a_run_that_ends_is_announced_once(qtbot: QtBot, tmp_path: Path) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    told: list[tuple[str, str, bool]] = []
    notices = DesktopNotices(window, lambda *words: told.append(words))
    said: list[str] = []
    notices.ended.connect(said.append)
    notices.show_runs([info(tmp_path, RunState.FAILED)])
    assert told == [], "it was over before this window was opened"
    notices.show_runs([info(tmp_path, RunState.RUNNING)])
    notices.show_runs([info(tmp_path, RunState.FAILED)])
    notices.show_runs([info(tmp_path, RunState.FAILED)])
    assert told == [("digits · single · #7 failed", "All is done.", True)]
    assert said == [sentence("digits-single-failed-all-is-done")]
    for state in (RunState.RUNNING, RunState.FINISHED):
        trial = info(tmp_path, state)
        notices.show_runs([trial._replace(notes=RunNotes(tags=("sweep-3", "trial-0")))])
    assert len(said) == len(told) == 1, "a sweep has many runs, and a page of its own"


def test_a_desktop_without_a_tray_still_gets_the_sentence(qtbot: QtBot, tmp_path: Path) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    notices = DesktopNotices(window)
    notices.show_runs([info(tmp_path)])
    with qtbot.waitSignal(notices.ended):
        notices.show_runs([info(tmp_path, RunState.FINISHED)])
