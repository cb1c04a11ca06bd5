"""The page Race: entries as they are measured, what won, and what goes into the form."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.planning.requests import AskRace
from engine.planning.results import Doing, Race
from gui.planning import race_text
from gui.planning.race_columns import Column
from gui.planning.race_page import RacePage
from gui.style.theme import ThemeController
from tests.gui.conftest import SPEC
from tests.support.planning_program import ENTRY, GIB
from tests.support.sentences import sentence

TWO = replace(SPEC, strategy="torch/ddp", devices=("cpu:0", "cpu:1"))
FAST = replace(
    ENTRY, strategy="torch/ddp", devices=TWO.devices, samples_per_second=2000.0, spec=TWO
)
FAILED = replace(
    ENTRY,
    strategy="torch/fsdp",
    samples_per_second=None,
    efficiency=None,
    problem="Out of memory on cpu:0.",
    spec=replace(SPEC, strategy="torch/fsdp"),
)
REQUEST = AskRace(entrants=(SPEC, TWO, FAILED.spec))


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication) -> RacePage:
    ThemeController(qapp)
    page = RacePage()
    qtbot.addWidget(page)
    page.resize(900, 700)
    page.show()
    return page


def texts(page: RacePage, column: Column) -> list[str]:
    """What a column of the table says."""
    model = page.table.model()
    return [str(model.index(row, column).data()) for row in range(model.rowCount())]


def test_before_a_race_there_is_a_word_and_one_button(page: RacePage, qtbot: QtBot) -> None:
    page.show_count(3, "")
    assert page.begin.text() == "Race 3 entries"
    assert page.begin.isVisible()
    assert not page.table.isVisible()
    with qtbot.waitSignal(page.race_clicked):
        page.begin.click()
    page.show_count(0, "The form has problems: solve them first.")
    assert not page.begin.isEnabled()
    assert page.why_not.text() == "The form has problems: solve them first."


def test_entries_appear_live_the_fastest_first_and_failures_last(page: RacePage) -> None:
    page.show_request(REQUEST)
    assert page.stop.isVisible()
    page.show_doing(Doing("Trains 60 steps with torch/ddp on 2 devices.", 1, 3, "torch/ddp"))
    assert page.doing.text() == sentence("trains-steps-with-ddp-pytorch")
    assert page.running_text == "1/3"
    assert page.progress.value() == 1
    page.add(FAILED)
    page.add(ENTRY)
    page.add(FAST)
    assert texts(page, Column.RATE) == ["2,000", "1,234", "Out of memory on cpu:0."]
    assert texts(page, Column.NAME)[0] == "DDP · PyTorch × 2"
    page.add(replace(FAST, samples_per_second=1000.0))  # it was measured once more
    assert texts(page, Column.RATE) == ["1,234", "1,000", "Out of memory on cpu:0."]
    page.show_race(Race(entries=(FAST, ENTRY, FAILED), seconds=61.0, notices=("Busy.",)))
    page.end()
    assert page.running_text == ""
    assert not page.stop.isVisible()
    assert "3 entries in 1:01" in page.facts.text()
    assert page.doing.text() == "Busy."


def test_the_fastest_or_the_chosen_entry_goes_into_the_form(page: RacePage, qtbot: QtBot) -> None:
    page.show_spec(SPEC)
    page.show_race(Race(entries=(FAST, ENTRY, FAILED)))
    assert page.use.text() == "Use DDP · PyTorch × 2"
    with qtbot.waitSignal(page.spec_chosen) as chosen:
        page.use.click()
    assert chosen.args == [TWO]
    page.table.selectRow(1)
    assert page.use.text() == sentence("single-device-pytorch-is-in-form")
    assert not page.use.isEnabled()
    page.show_spec(TWO)
    assert page.use.isEnabled()
    page.table.setFocus()
    with qtbot.waitSignal(page.spec_chosen) as chosen:
        QTest.keyClick(page.table, Qt.Key.Key_Return)
    assert chosen.args == [SPEC]


def test_the_whole_sentence_of_a_failure_is_reached(page: RacePage) -> None:
    page.show_race(Race(entries=(FAST, FAILED)))
    page.table.selectRow(1)
    assert "Out of memory on cpu:0." in page.detail.text()
    index = page.table.model().index(1, Column.NAME)
    for role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
        assert "Out of memory on cpu:0." in str(index.data(role))


def test_memory_is_that_of_the_fullest_device() -> None:
    entry = replace(ENTRY, memory={"a": 1.0 * GIB, "b": 2.0 * GIB})
    assert race_text.memory(entry, {"a": 1.0 * GIB, "b": 4.0 * GIB}) == "1.0/1 G"
    assert race_text.memory(entry, {}) != race_text.NOTHING
    assert race_text.memory(replace(ENTRY, memory={}), {}) == race_text.NOTHING


def test_what_is_wrong_with_the_choice_is_a_sentence(page: RacePage) -> None:
    choice = page.choice
    choice.batch_sizes.setText("32, 64, 32")
    choice.precisions.setText("fp32,bf16")
    choice.device_counts.setText("1, 2")
    assert choice.choice() == (True, (32, 64), ("fp32", "bf16"), (1, 2), 60, "")
    choice.steps.setText("1")
    assert choice.choice().problem == sentence("steps-must-be-number")
    choice.steps.setText("60")
    choice.batch_sizes.setText("none")
    assert "none" in choice.choice().problem


def test_a_tie_is_told() -> None:
    names = race_text.differing([ENTRY, FAST])
    assert race_text.second_line(FAST, names) == "× 2"
    assert race_text.second_line(replace(FAST, is_tied=True), names) == "× 2 · a tie"
    assert race_text.second_line(ENTRY, frozenset()) == ""
