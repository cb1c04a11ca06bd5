"""An imported run in the window: marked as one, and what it cannot do says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine import client
from engine.client import CannotStart
from engine.facts.settings import Described, setting_rows
from engine.imports.csv_tables import ColumnNames
from engine.imports.import_runs import import_runs
from engine.runs.run_info import RunInfo, get_run
from engine.runs.run_overview import run_overview
from engine.runs.table.columns import columns_of
from gui.bridge.liveness import NO_SILENCE
from gui.compare.differences import figure_rows
from gui.compare.differences import setting_rows as differing_settings
from gui.run_list.run_list_model import detail
from gui.run_view.progress_text import progress_text, window_title
from gui.run_view.run_controls import RunControls
from gui.runs_table.cell_texts import run_text
from gui.style.state_style import state_text
from gui.style.theme import DARK
from tests.gui.run_list.run_lists import Room, room, select
from tests.support.recorded_runs import record_epochs

__all__ = ["room"]


@pytest.fixture
def imported(traindeck_home: Path, tmp_path: Path) -> RunInfo:
    table = tmp_path / "other.csv"
    table.write_text("step,loss\n1,2.5\n2,1.5\n")
    return get_run(import_runs([table], ColumnNames()).run_ids[0])


def test_it_is_marked_as_imported(imported: RunInfo) -> None:
    assert state_text(imported) == "imported"
    assert detail(imported).startswith("imported · ")
    assert window_title(imported, NO_SILENCE).startswith("imported")
    columns = columns_of([imported])
    assert columns["state"].read(imported) == "imported"
    assert run_text(columns["state"], imported) == "imported"
    ended = get_run(record_epochs("finished", (0.5,)).name)
    assert run_text(columns["state"], ended) == "finished"


def test_it_has_no_settings_and_epochs_of_ours(imported: RunInfo) -> None:
    assert progress_text(imported.status) == "Step 2"
    columns = columns_of([imported])
    for name in ("epochs", "batch_size", "learning_rate", "queue"):
        assert columns[name].read(imported) is None, name
    assert [row.name for row in setting_rows(Described(imported.spec))] == ["imported_from"]
    other = get_run(record_epochs("finished", (0.5,), epochs=3).name)
    rows = {row.label: row.values for row in differing_settings([imported, other])}
    assert rows["Epochs"] == ("–", "3")
    overview = run_overview(imported)
    assert (overview.command, overview.command_problem, overview.environment) == ("", "", {})
    figures = {row.label: row.values for row in figure_rows([imported, other], {})}
    assert figures["State"][0] == "imported"
    assert "5" not in figures["Epoch"][0]


def test_it_cannot_be_resumed_or_run_again_says_why_and_is_exported(
    imported: RunInfo, room: Room, qtbot: QtBot
) -> None:
    room.refresh()
    select(room, imported.id)
    with qtbot.waitSignal(room.actions.export_wanted) as wanted:
        room.actions.export.trigger()
    assert [info.id for info in wanted.args[0]] == [imported.id]
    for action in (room.actions.again, room.history.copy_settings, room.history.resume):
        assert not action.isEnabled()
        assert "imported" in action.text()
    for action in (room.actions.notes, room.actions.export, room.actions.delete):
        assert action.isEnabled()
    assert not room.history.continue_changed.isEnabled()
    with pytest.raises(CannotStart, match="cannot be trained"):
        client.start(imported.spec)
    with pytest.raises(CannotStart, match="cannot be resumed"):
        client.resume(imported.id)
    controls = RunControls(DARK)
    qtbot.addWidget(controls)
    controls.show_info(imported)
    assert not controls.run_again.isEnabled()
    assert "imported" in controls.run_again.toolTip()
    ended = get_run(record_epochs("finished", (0.5,)).name)
    controls.show_info(ended)
    assert controls.run_again.isEnabled()
