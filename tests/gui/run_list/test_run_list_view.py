"""The list of runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved, EpochEnded, Queued, RunEnded
from engine.runs.run_index import RunIndex
from gui.bridge.liveness import NO_SILENCE, Silence
from gui.run_list.run_list_model import COLOUR, DETAIL, detail
from gui.run_list.run_list_view import RunListView
from gui.style.theme import DARK, LIGHT, ThemeController
from tests.gui.conftest import Record
from tests.support.sentences import sentence


@pytest.fixture
def history(qtbot: QtBot, qapp: QApplication) -> RunListView:
    history = RunListView(ThemeController(qapp).current)
    qtbot.addWidget(history)
    history.resize(280, 300)
    history.show()
    return history


def click(qtbot: QtBot, history: RunListView, row: int) -> None:
    middle = history.visualRect(history.model().index(row, 0)).center()
    QTest.mouseClick(history.viewport(), Qt.MouseButton.LeftButton, pos=middle)


def test_a_click_opens_a_run(history: RunListView, record: Record, qtbot: QtBot) -> None:
    runs = [record(), record(), record()]
    for run in runs:
        run.begin()
    history.show_runs(RunIndex().runs())
    assert [history.model().index(row, 0).data()[-2:] for row in range(3)] == ["#3", "#2", "#1"]
    with qtbot.waitSignal(history.opened) as asked:
        click(qtbot, history, 2)
    assert asked.args == ["1"]


def test_the_selection_stays_with_its_run_when_a_new_one_comes(
    history: RunListView, record: Record, qtbot: QtBot
) -> None:
    record().begin()
    index = RunIndex()
    history.show_runs(index.runs())
    history.watch("1")
    record().begin()
    with qtbot.assertNotEmitted(history.opened):
        history.show_runs(index.runs())
    assert history.currentIndex().row() == 1
    with qtbot.assertNotEmitted(history.opened):
        history.watch("2")
    assert history.currentIndex().row() == 0


def test_the_second_line_has_state_metric_and_end(record: Record) -> None:
    run = record()
    run.begin()
    run.add(EpochEnded(1, 10, {"validation/loss": 0.25, "validation/accuracy": 0.875}))
    index = RunIndex()
    assert detail(index.runs()[0]) == "running · val accuracy 87.5 %"
    run.add(RunEnded("finished", "All epochs are done."))
    assert detail(index.runs()[0]).startswith(sentence("finished-val-accuracy"))


def test_the_watched_run_is_grey_while_silent(history: RunListView, record: Record) -> None:
    for _ in range(2):
        record().begin()
    index, model = RunIndex(), history.model()
    history.show_runs(index.runs())

    def looks() -> list[tuple[str, str]]:
        rows = (model.index(row, 0) for row in range(2))
        return [(row.data(DETAIL), row.data(COLOUR)) for row in rows]

    well = ("running", DARK.ok)
    drawn: list[int] = []
    history.set_theme(DARK)
    history.watch("1")
    model.dataChanged.connect(lambda first, _: drawn.append(first.row()))
    history.show_silence(Silence(12.0))
    history.show_runs(index.runs())
    assert looks() == [well, ("running · ⚠ silent for 12 s", DARK.muted)]
    assert "silent" in model.index(1, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert drawn == [1]
    history.watch("2")
    history.show_silence(NO_SILENCE)
    assert looks() == [well, well]
    assert set(drawn) == {0, 1}


def test_settings_can_be_used_again(history: RunListView, record: Record, qtbot: QtBot) -> None:
    record().begin()
    history.show_runs(RunIndex().runs())
    history.watch("1")
    with qtbot.waitSignal(history.copy_requested) as asked:
        history.copy_settings.trigger()
    assert asked.args[0].spec.recipe == "digits"


def test_only_some_runs_can_go_on(history: RunListView, record: Record, qtbot: QtBot) -> None:
    active, over, finished, bare = record(), record(), record(), record()
    for run, state in ((active, ""), (over, "stopped"), (finished, "finished"), (bare, "failed")):
        run.begin()
        if run is not bare:
            run.add(CheckpointSaved("checkpoints/step-5", 5, 0, 100, 0.1))
        if state:
            run.add(RunEnded(state, ""))
    history.show_runs(RunIndex().runs())
    asks = {
        history.resume: (history.resume_requested, False, True),
        history.resume_from_older: (history.resume_from_older_requested, False, False),
        # With more epochs, or from the beginning.
        history.continue_changed: (history.continue_requested, True, True),
    }
    for action, (signal, also_finished, also_bare) in asks.items():
        enabled = []
        for run in (active, over, finished, bare):
            history.watch(run.id)
            enabled.append(action.isEnabled())
        assert enabled == [False, True, also_finished, also_bare]
        history.watch(over.id)
        with qtbot.waitSignal(signal) as asked:
            action.trigger()
        assert asked.args == [over.id]
    history.watch(None)
    assert not any(action.isEnabled() for action in history.actions())


def test_a_queued_run_can_be_moved(history: RunListView, record: Record, qtbot: QtBot) -> None:
    record().begin()
    run = record()
    run.begin()
    run.add(Queued(("1",), "Queued behind run 1 on GPU 0 (next in line)."))
    history.show_runs(RunIndex().runs())
    assert detail(RunIndex().runs()[0]) == sentence("queued-behind-run-on-gpu-next")
    history.watch("1")
    assert not any(action.isVisible() for action in history.moves.values())
    history.watch("2")
    for where, action in history.moves.items():
        assert action.isVisible()
        with qtbot.waitSignal(history.move_requested) as asked:
            action.trigger()
        assert asked.args == ["2", where]


def test_a_row_is_as_new_as_the_cards(history: RunListView, record: Record) -> None:
    """All runs are read every two seconds only, and what was read before must not come back."""
    run = record()
    run.begin()
    old = RunIndex().runs()
    history.show_runs(old)
    status = replace(
        old[0].status, metrics={"validation/loss": 0.25}, updated=old[0].status.updated + 1
    )
    history.show_status(old[0]._replace(status=status))
    assert "loss 0.25" in history.model().index(0, 0).data(DETAIL)
    history.show_runs([old[0]._replace(has_orphans=True)])  # read before, listed after
    assert "loss 0.25" in history.model().index(0, 0).data(DETAIL)


def test_a_run_that_hangs_keeps_its_warning(history: RunListView, record: Record) -> None:
    record().begin()
    [run] = RunIndex().runs()
    hung = run._replace(status=replace(run.status, troubles={"hang": "No step was done."}))
    history.show_runs([hung])
    index = history.model().index(0, 0)
    before = index.data(COLOUR)
    history.watch(hung.id)
    history.show_silence(Silence(12.0, workers_only=True))
    assert index.data(COLOUR) == before
    assert before in (DARK.warn, LIGHT.warn)
