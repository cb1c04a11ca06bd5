"""Runs that go on from a step of another one: below it in the list."""

from __future__ import annotations

from engine.runs.run_index import RunIndex
from gui.run_list.branches import as_tree
from gui.run_list.filter_sort import SortOrder
from gui.run_list.run_list_model import DEPTH, detail
from tests.gui.run_list.run_lists import Room, record_branches, room

__all__ = ["room"]


def test_branches_stand_below_their_parents_while_the_newest_run_is_first(room: Room) -> None:
    record_branches("", "1", "", "2", "1", "99")
    room.refresh()
    model = room.history.model()

    def depths() -> list[int]:
        return [model.index(row, 0).data(DEPTH) for row in range(model.rowCount())]

    assert room.listed() == ["6", "1", "5", "2", "4", "3"]
    assert depths() == [0, 0, 1, 1, 2, 0]
    room.panel.order.setCurrentIndex(room.panel.order.findData(SortOrder.NAME))
    assert depths() == [0] * 6, "in another order a run does not stand below its parent"
    room.panel.order.setCurrentIndex(0)
    room.panel.search.setText("#4")
    assert (room.listed(), depths()) == (["4"], [0])
    assert detail(room.panel.runs()[0]).startswith("from step 300")


def test_files_that_name_a_circle_lose_no_run() -> None:
    record_branches("3", "1", "2", "4")
    found, _ = as_tree(RunIndex().runs())
    assert sorted(info.id for info in found) == ["1", "2", "3", "4"]
