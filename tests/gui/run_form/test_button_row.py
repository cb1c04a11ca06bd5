"""The buttons below the form: none is cut, and those of less weight give way."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from gui.run_form.button_row import ButtonRow


def test_what_has_no_room_is_left_out_the_last_one_first(qtbot: QtBot) -> None:
    start, preflight, sweep, more = (
        QPushButton(text) for text in ("Start", "Pre", "Sweep", "More")
    )
    row = ButtonRow(start, (preflight, sweep), more)
    qtbot.addWidget(row)
    row.show()
    least = row.minimumSizeHint().width()
    one = preflight.sizeHint().width() + 6
    both = one + sweep.sizeHint().width() + 6
    for width, shown in (
        (least, []),
        (least + one, [preflight]),
        (least + both, [preflight, sweep]),
    ):
        row.resize(width, 40)
        assert [each for each in (preflight, sweep) if each.isVisible()] == shown
        assert start.width() >= start.sizeHint().width()
    row.set_wanted(preflight, False)
    assert not preflight.isVisible()
    row.resize(least + one, 40)
    row.set_wanted(preflight, True)
    assert preflight.isVisible()
    sweep.hide()
    start.setText("Start something else")
    qtbot.waitUntil(lambda: not preflight.isVisible())
