"""What the bar at the top offers in each state of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from gui.run_view.run_controls import RunControls
from gui.style.theme import ThemeController
from tests.gui.conftest import FakeStrategy, UseStrategies
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"))


def info(state: RunState, **status: object) -> RunInfo:
    return RunInfo("7", Path("runs/7"), SPEC, RunStatus(state=state, **status), state, "")  # type: ignore[arg-type]


@pytest.fixture
def controls(qtbot: QtBot, qapp: QApplication) -> RunControls:
    controls = RunControls(ThemeController(qapp).current)
    qtbot.addWidget(controls)
    controls.resize(1090, 44)
    controls.show()
    return controls


def test_a_narrow_strip_has_icons_with_names(controls: RunControls, qtbot: QtBot) -> None:
    buttons = (controls.pause, controls.stop, controls.checkpoint, controls.empty_cache)
    controls.show_info(info(RunState.RUNNING, epoch=2, epochs=5, step=12, steps_per_epoch=10))
    wide = [button.width() for button in buttons]
    assert controls.minimumSizeHint().width() < 600
    controls.resize(700, 44)
    qtbot.waitUntil(lambda: all(button.width() < 50 for button in buttons))
    names = [button.accessibleName() for button in buttons]
    assert names == ["Pause", "Stop", "Checkpoint", "Empty cache"]
    assert all(not button.icon().isNull() and button.toolTip() for button in buttons)
    assert controls.headline.progress_label.text() == "Epoch 2 / 5"
    assert "step 12 / 50" in controls.headline.progress_label.toolTip()
    controls.show_info(info(RunState.STOPPING))
    assert controls.stop.accessibleName() == "Stop now"
    controls.resize(1090, 44)
    qtbot.waitUntil(lambda: [button.width() for button in buttons] == wide)


@pytest.mark.parametrize(
    ("state", "enabled"),
    [
        (RunState.QUEUED, {"Stop"}),
        (RunState.STARTING, {"Stop"}),
        (RunState.RUNNING, {"Pause", "Stop", "Checkpoint", "Empty cache"}),
        (RunState.PAUSED, {"Resume", "Stop", "Checkpoint", "Empty cache"}),
        (RunState.STOPPING, {"Stop now"}),
        (RunState.FINISHED, {"Run again"}),
        (RunState.STOPPED, {"Resume"}),
        (RunState.FAILED, {"Resume"}),
        (RunState.INTERRUPTED, {"Resume"}),
    ],
)
def test_the_buttons_by_state(controls: RunControls, state: RunState, enabled: set[str]) -> None:
    controls.show_info(info(state, checkpoint="step-5"))
    buttons = (
        controls.pause,
        controls.stop,
        controls.checkpoint,
        controls.empty_cache,
        controls.resume,
        controls.run_again,
    )
    shown = [button for button in buttons if button.isVisible()]
    assert {button.text() for button in shown if button.isEnabled()} == enabled


@pytest.mark.parametrize("checkpoint", ["step-5", ""])
def test_a_finished_run_is_run_again_and_goes_on_with_changes_only(
    controls: RunControls, qtbot: QtBot, checkpoint: str
) -> None:
    controls.show_info(info(RunState.FINISHED, checkpoint=checkpoint))
    assert not controls.resume.isVisible()
    assert controls.run_again_more.isVisible()
    with qtbot.waitSignal(controls.run_again_clicked) as asked:
        QTest.mouseClick(controls.run_again, Qt.MouseButton.LeftButton)
    assert [each.spec for each in asked.args] == [SPEC]


def test_without_a_checkpoint_a_run_starts_from_the_beginning(controls: RunControls) -> None:
    controls.show_info(info(RunState.INTERRUPTED))
    assert controls.resume.isVisible()
    assert controls.resume.isEnabled()
    assert "from the beginning" in controls.resume.toolTip()
    controls.show_info(info(RunState.INTERRUPTED, checkpoint="step-5"))
    assert sentence("from-newest-checkpoint") in controls.resume.toolTip()


def test_clicks_say_what_is_wanted(controls: RunControls, qtbot: QtBot) -> None:
    left = Qt.MouseButton.LeftButton
    controls.show_info(info(RunState.RUNNING))
    with qtbot.waitSignals(
        [
            controls.pause_clicked,
            controls.stop_clicked,
            controls.checkpoint_clicked,
            controls.empty_cache_clicked,
        ]
    ):
        for button in (controls.pause, controls.stop, controls.checkpoint, controls.empty_cache):
            QTest.mouseClick(button, left)
    controls.show_info(info(RunState.PAUSED))
    with (
        qtbot.waitSignal(controls.resume_paused_clicked),
        qtbot.assertNotEmitted(controls.pause_clicked),
    ):
        QTest.mouseClick(controls.pause, left)
    controls.show_info(info(RunState.STOPPED, checkpoint="step-5"))
    with qtbot.waitSignal(controls.resume_clicked) as asked:
        QTest.mouseClick(controls.resume, left)
    assert asked.args == ["7"]


GPUS = ("GPU-aaaa", "GPU-bbbb")


@pytest.mark.parametrize(
    ("state", "devices", "can_free", "reason"),
    [
        (RunState.RUNNING, GPUS, True, ""),
        (RunState.RUNNING, GPUS, False, sentence("strategy-keeps-its-model")),
        (RunState.RUNNING, ("cpu:0",), True, "no GPU to free"),
        (RunState.STARTING, GPUS, True, None),
        (RunState.PAUSED, GPUS, True, None),
    ],
)
def test_a_pause_frees_the_gpus_where_the_strategy_can(
    controls: RunControls,
    qtbot: QtBot,
    use_strategies: UseStrategies,
    state: RunState,
    devices: tuple[str, ...],
    can_free: bool,
    reason: str | None,
) -> None:
    use_strategies(FakeStrategy("torch/fake", can_free_devices=can_free))
    spec = RunSpec(recipe="digits", strategy="torch/fake", devices=devices)
    controls.show_info(RunInfo("7", Path("runs/7"), spec, RunStatus(state=state), state, ""))
    action = controls.pause_and_free
    assert action.isEnabled() == (reason == "")
    assert (reason or "") in action.toolTip()
    assert controls.pause_more.isEnabled() == (state is RunState.RUNNING)
    if action.isEnabled():
        with (
            qtbot.waitSignal(controls.pause_and_free_clicked),
            qtbot.assertNotEmitted(controls.pause_clicked),
        ):
            action.trigger()


def test_a_run_of_a_strategy_that_is_gone_frees_nothing(controls: RunControls) -> None:
    spec = RunSpec(recipe="digits", strategy="torch/gone", devices=GPUS)
    state = RunState.RUNNING
    controls.show_info(RunInfo("7", Path("runs/7"), spec, RunStatus(state=state), state, ""))
    assert "no strategy" in controls.pause_and_free.toolTip()
    assert not controls.pause_and_free.isEnabled()


def test_how_far_it_is_in_words_and_in_the_bar(controls: RunControls) -> None:
    controls.show_info(
        info(
            RunState.RUNNING,
            epoch=2,
            epochs=5,
            step=1200,
            steps_per_epoch=1000,
            started=1000.0,
            seconds_left=3723.0,
        )
    )
    assert controls.headline.title.text() == "digits · ddp × 2 · #7"
    assert controls.headline.progress_label.text() == "Epoch 2 / 5 · step 1,200 / 5,000"
    assert (controls.headline.progress.value(), controls.headline.progress.maximum()) == (
        1200,
        5000,
    )
    assert "running" in controls.headline.state.text()
    assert controls.headline.state.textFormat() is Qt.TextFormat.RichText, "it shows no tags"
    assert "ETA 01:02:03" in controls.headline.state.text()


def test_the_time_of_a_run_is_that_of_its_own_clock_until_its_last_event(
    controls: RunControls,
) -> None:
    behind = info(RunState.RUNNING, started=1000.0, updated=1065.0)  # decades behind this one
    controls.show_info(behind._replace(id="gpus:7"))
    assert "00:01:05" in controls.headline.state.text()
    controls.show_info(info(RunState.FINISHED, started=1000.0, updated=1065.0, seconds_left=5.0))
    assert "00:01:05" in controls.headline.state.text()
    assert "ETA" not in controls.headline.state.text()


def test_the_headline_says_whether_there_is_a_run(controls: RunControls) -> None:
    controls.show_info(info(RunState.RUNNING))
    controls.show_info(None)
    assert "Start run" in controls.headline.state.text()
    assert not controls.stop.isEnabled()
    controls.headline.set_reading(True)
    controls.show_info(None)
    assert controls.headline.title.text() == ""
    assert "Reading" in controls.headline.state.text()
    controls.headline.set_reading(False)
    assert controls.headline.title.text() == "No run yet"
    controls.show_info(info(RunState.STARTING, attempt=2))
    assert "restarting, attempt 2" in controls.headline.state.text()


def test_a_click_on_pause_that_comes_too_late_starts_no_run(
    controls: RunControls, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    now = [100.0]
    monkeypatch.setattr("gui.widgets.steady_button.time.monotonic", lambda: now[0])
    controls.show_info(info(RunState.RUNNING))
    QTest.mouseMove(controls.pause)
    qtbot.waitUntil(controls._pause_resume_stack.underMouse)
    controls.show_info(info(RunState.FINISHED))
    left = Qt.MouseButton.LeftButton
    now[0] += 0.5
    with qtbot.assertNotEmitted(controls.run_again_clicked):
        QTest.mouseClick(controls.run_again, left)
    now[0] += 1.0
    with qtbot.waitSignal(controls.run_again_clicked):
        QTest.mouseClick(controls.run_again, left)
    QTest.mouseMove(controls, QPoint(1, 1))


@pytest.mark.parametrize("pressed", ["pause", "stop"])
def test_a_key_for_pause_or_stop_that_comes_too_late_starts_no_run(
    controls: RunControls, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, pressed: str
) -> None:
    now = [100.0]
    monkeypatch.setattr("gui.widgets.steady_button.time.monotonic", lambda: now[0])
    controls.show_info(info(RunState.RUNNING))
    controls.activateWindow()
    getattr(controls, pressed).setFocus()
    controls.show_info(info(RunState.FINISHED))
    assert QApplication.focusWidget() is controls.run_again
    now[0] += 0.5
    with qtbot.assertNotEmitted(controls.run_again_clicked):
        QTest.keyClick(controls.run_again, Qt.Key.Key_Space)
    with qtbot.waitSignal(controls.run_again_clicked):  # the mouse was not on its way there
        QTest.mouseClick(controls.run_again, Qt.MouseButton.LeftButton)
    now[0] += 1.0
    with qtbot.waitSignal(controls.run_again_clicked):
        QTest.keyClick(controls.run_again, Qt.Key.Key_Space)


def test_a_stop_that_is_pressed_twice_by_mistake_still_saves(
    controls: RunControls, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    now = [100.0]
    monkeypatch.setattr("gui.widgets.steady_button.time.monotonic", lambda: now[0])
    controls.show_info(info(RunState.RUNNING))
    controls.activateWindow()
    controls.stop.setFocus()
    controls.show_info(info(RunState.STOPPING))
    with qtbot.assertNotEmitted(controls.stop_clicked):
        QTest.keyClick(controls.stop, Qt.Key.Key_Space)
    now[0] += 1.5
    with qtbot.waitSignal(controls.stop_clicked):
        QTest.keyClick(controls.stop, Qt.Key.Key_Space)


def test_the_keys_stay_in_the_bar_and_are_not_taken_from_elsewhere(
    controls: RunControls, qtbot: QtBot
) -> None:
    controls.show_info(info(RunState.RUNNING))
    controls.activateWindow()
    controls.stop.setFocus()
    controls.show_info(info(RunState.STOPPED, checkpoint="step-5"))
    assert QApplication.focusWidget() is controls.resume
    controls.show_info(info(RunState.RUNNING))
    controls.stop.setFocus()
    other = QLineEdit()
    qtbot.addWidget(other)
    other.show()
    other.activateWindow()
    other.setFocus()
    qtbot.waitUntil(other.hasFocus)
    controls.show_info(info(RunState.STOPPED, checkpoint="step-5"))
    assert other.hasFocus()


def test_the_title_tells_which_other_python_a_run_uses(
    controls: RunControls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = info(RunState.RUNNING)
    controls.show_info(shown)
    assert "Python" not in controls.headline.title.toolTip()
    environment = '[environment]\npython = "3.12.4"\n[environment.packages]\ntorch = "2.13.0"\n'
    (tmp_path / "spec.toml").write_text(f'format = "1.1"\n{environment}')
    spec = replace(SPEC, interpreter="/envs/mine/bin/python")
    controls.show_info(shown._replace(folder=tmp_path, spec=spec))
    tip = controls.headline.title.toolTip()
    assert "Python: /envs/mine/bin/python (Python 3.12.4, torch 2.13.0)" in tip
