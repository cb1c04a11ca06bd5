"""The bars that say what mattered."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from gui.sweeps.importance_bars import ImportanceBars
from tests.support.sentences import sentence


def test_the_most_important_setting_is_first_and_read_aloud(qtbot: QtBot) -> None:
    bars = ImportanceBars()
    qtbot.addWidget(bars)
    assert bars.accessibleName() == sentence("what-mattered-not-known-yet")
    bars.grab()
    bars.show_shares({"width": 0.25, "Learning rate": 0.75, "seed": 0.0})
    assert list(bars.shares) == ["Learning rate", "width", "seed"]
    assert bars.accessibleName() == sentence("what-mattered-learning-rate-width-seed")
    bars.grab()
