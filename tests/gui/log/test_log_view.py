"""The log of the workers and of the run's events."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.messages.events import CheckpointSaved, Notice
from engine.runs.store.store_reader import StoredEvent
from gui.log.log_highlighter import LogHighlighter
from gui.log.log_view import MAX_LINES, LogView
from gui.style.theme import ThemeController, load_fonts


@pytest.fixture
def log(qtbot: QtBot, qapp: QApplication) -> LogView:
    load_fonts()  # as the application does: the fonts of this machine decide nothing
    log = LogView(ThemeController(qapp).current)
    qtbot.addWidget(log)
    return log


def test_lines_carry_time_level_and_rank(log: LogView) -> None:
    log.append_events(
        [
            StoredEvent(1, 0.5, CheckpointSaved("step-5", 5, 1, 1024, 0.1)),
            StoredEvent(2, 0.5, Notice("A core is slow.", 2)),
        ]
    )
    log.append_output(1, ["hello", ""])
    first, second, third, _ = log.toPlainText().splitlines()
    assert first[9:12] == "500"
    assert "INFO" in first
    assert "Checkpoint of step 5" in first
    assert "WARN  rank 2" in second
    assert third.strip() == "OUT   rank 1  hello"


def test_the_filter_hides_and_shows_lines_of_this_run_alone(log: LogView) -> None:
    log.append_output(0, ["alpha", "beta"])
    log.set_filter("ALPHA")
    log.append_output(1, ["gamma", "alphabet"])
    shown = log.toPlainText()
    assert "alpha" in shown
    assert "alphabet" in shown
    assert "beta" not in shown.replace("alphabet", "")
    assert "gamma" not in shown
    log.set_filter("")
    assert len(log.toPlainText().splitlines()) == 4
    log.append_output(0, ["old"])
    log.clear_lines()
    log.set_filter("")
    assert log.toPlainText() == ""


def test_another_filter_lays_out_each_line_once(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    dressed: list[str] = []
    dress = LogHighlighter.highlightBlock

    def note(self: LogHighlighter, text: str) -> None:
        dressed.append(text)
        dress(self, text)

    monkeypatch.setattr(LogHighlighter, "highlightBlock", note)
    load_fonts()  # as the application does: the fonts of this machine decide nothing
    log = LogView(ThemeController(qapp).current)
    qtbot.addWidget(log)
    log.append_output(0, [f"line {number}" for number in range(100)])
    dressed.clear()
    log.set_filter("LINE")
    assert len(list(filter(None, dressed))) == 100
    block = log.document().firstBlock()
    marked = [
        block.text()[each.start : each.start + each.length]
        for each in block.layout().formats()
        if each.format.background().style() is not Qt.BrushStyle.NoBrush
    ]
    assert marked == ["line"]
    dressed.clear()
    log.set_filter("line")
    assert dressed == []


def test_a_chatty_worker_does_not_fill_the_memory(log: LogView) -> None:
    log.append_output(0, [f"line {number}" for number in range(MAX_LINES + 500)])
    log.append_output(0, ["the last"])
    assert log.blockCount() == MAX_LINES
    assert log.toPlainText().endswith("the last")
    log.set_filter("line 0")
    assert log.toPlainText() == ""


def test_it_keeps_to_the_end_unless_scrolled_and_hides_nothing_sideways(log: LogView) -> None:
    log.resize(300, 200)
    log.show()
    bar = log.verticalScrollBar()
    log.append_output(0, ["a line that is much wider than the window is, by far " * 5] * 100)
    assert bar.value() == bar.maximum() > 0
    assert log.horizontalScrollBar().maximum() == 0
    log.resize(300, 150)
    assert bar.value() == bar.maximum()
    bar.setValue(10)
    on_top = log.cursorForPosition(QPoint(5, 5)).blockNumber()
    log.append_output(0, ["one more"] * 50)
    assert log.cursorForPosition(QPoint(5, 5)).blockNumber() == on_top < 20


def test_pictures_that_the_font_does_not_have_are_left_out(log: LogView) -> None:
    log.append_output(0, ["GLHF! \U0001f604", "✓ done \u65e5"])
    first, second = log.toPlainText().splitlines()
    assert first.endswith("GLHF!")
    assert second.endswith("✓ done \u65e5")


@pytest.mark.parametrize("words", ["short", "a line that is wider than the window, by far " * 3])
def test_what_is_in_sight_stays_in_a_full_log(log: LogView, words: str) -> None:
    log.resize(300, 200)
    log.show()
    log.append_output(0, [f"line {number} {words}" for number in range(MAX_LINES)])
    bar = log.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    top = log.cursorForPosition(QPoint(5, 5)).block().text()
    log.append_output(0, [f"more {words}"] * 500)
    assert log.cursorForPosition(QPoint(5, 5)).block().text() == top
    log.append_output(0, [f"more {words}"] * (MAX_LINES - 1000))
    assert bar.value() == 0, "it is forgotten, and so is all that came before"
