"""The line of the form about memory and preflight."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.planning.results import MemoryEstimate
from gui.run_form.planning_row import PlanningRow
from gui.style.theme import ThemeController
from tests.support.planning_program import ESTIMATE
from tests.support.sentences import sentence


@pytest.fixture
def row(qtbot: QtBot, qapp: QApplication) -> PlanningRow:
    ThemeController(qapp)
    row = PlanningRow()
    qtbot.addWidget(row)
    row.resize(294, row.height())
    row.show()
    return row


def test_a_preflight_is_offered_where_nothing_was_tried(row: PlanningRow, qtbot: QtBot) -> None:
    assert row.estimate_link.isVisible()
    row.set_tried(False)
    assert row.text.text() == sentence("not-tried-on-these-devices-yet")
    assert not row.estimate_link.isVisible()
    with qtbot.waitSignal(row.preflight.triggered):
        row.offer.click()
    row.set_tried(True)
    assert not row.offer.isVisible()


def test_a_prediction_says_whether_it_fits_and_what_holds_the_memory(row: PlanningRow) -> None:
    height = row.height()
    row.set_tried(False)
    row.show_busy("Predicting the memory…")
    assert row.text.text() == "Predicting the memory…"
    assert not row.offer.isVisible()
    row.show_estimate(ESTIMATE)
    assert row.text.text() == "✓ Fits: about 1 of 2 GiB."
    assert row.bar.isVisible()
    assert "weights 1.0" in row.bar.accessibleDescription()
    row.show_estimate(MemoryEstimate(text="Does not fit.", fits=False, devices=ESTIMATE.devices))
    assert row.text.text() == "✕ Does not fit."
    row.show_estimate(MemoryEstimate(problem="The model cannot be read."))
    assert row.text.text() == "⚠ The model cannot be read."
    assert not row.bar.isVisible()
    row.show_estimate(None)
    assert row.offer.isVisible()
    assert row.height() == height
