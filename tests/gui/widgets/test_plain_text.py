"""Names, notes and messages are shown as they are, not as HTML."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QAbstractListModel, QModelIndex, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from engine.messages.events import Failure, Metrics, Notice, Points, RunEnded
from engine.runs.run_notes import RunNotes, write_notes
from gui.app import AppController
from gui.widgets.plain_text import Label, plain_tip, set_wrapped_tip, wrapped
from tests.gui.conftest import OpenApp, Record, wait_for_runs

GUI = Path(__file__).parents[3] / "gui"
TAG = "<img src=file:///etc/passwd> <b>loud</b>"
_HARMLESS = ("wrapped", "plain_tip")
"""Calls whose result is shown as it is."""


def test_a_label_shows_a_tag(qtbot: QtBot) -> None:
    label = Label(TAG)
    qtbot.addWidget(label)
    assert label.textFormat() is Qt.TextFormat.PlainText
    assert label.text() == TAG


def test_a_tip_is_changed_only_if_qt_would_take_it_for_html() -> None:
    assert plain_tip("loss < 0.5 & falling") == "loss < 0.5 & falling"
    assert plain_tip(TAG) == wrapped(TAG)
    assert "<img" not in wrapped(TAG)


def test_the_window_has_only_plain_labels_and_tips() -> None:
    """`gui.widgets.plain_text` has a Label, and `plain_tip`."""
    found = [f"{path}:{line}" for path in sorted(GUI.rglob("*.py")) for line in _rich(path)]
    assert found == []


def _rich(path: Path) -> Iterator[int]:
    """The lines that make a label or a tip that Qt may take for HTML."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name("QLabel")) if path.name != "crosshair.py":
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr="setToolTip")) if not _is_harmless(node.args[-1]):
                yield node.lineno


def _is_harmless(tip: ast.expr) -> bool:
    if isinstance(tip, ast.IfExp):
        return _is_harmless(tip.body) and _is_harmless(tip.orelse)
    is_call = isinstance(tip, ast.Call) and ast.unparse(tip.func).split(".")[-1] in _HARMLESS
    return is_call or isinstance(tip, ast.Constant)


def test_texts_with_tags_are_shown_as_such(record: Record, open_app: OpenApp, qtbot: QtBot) -> None:
    recording = record()
    recording.begin()
    write_notes(recording.folder, RunNotes(name=TAG, tags=(TAG,), note=TAG))
    points = [Points(f"validation/{TAG}", [1, 2], [0.5, 0.25])]
    recording.add(Metrics(1.0, 2.0, points), Notice(TAG))
    recording.add(RunEnded("failed", TAG, Failure(0, "cpu:0", 1, "", TAG, TAG, TAG)))
    recording.store.close()
    app = open_app()
    wait_for_runs(app, qtbot)
    qtbot.waitUntil(lambda: _shows(app, TAG))
    for widget in app.window.findChildren(QWidget):
        tip = widget.toolTip()
        assert not GuiQt.mightBeRichText(tip) or "<img" not in tip, (widget, tip)
        if isinstance(widget, QLabel) and GuiQt.mightBeRichText(widget.text()):
            is_plain = widget.textFormat() is Qt.TextFormat.PlainText
            assert is_plain or "<img" not in widget.text(), (widget, widget.text())
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            for tip in _item_tips(widget):
                assert not GuiQt.mightBeRichText(tip) or "<img" not in tip, (widget, tip)


def _shows(app: AppController, text: str) -> bool:
    labels = app.window.findChildren(QLabel)
    return any(text in label.text() for label in labels if label.isVisible())


def _item_tips(view: QAbstractItemView) -> list[str]:
    model = view.model()
    root = QModelIndex()
    columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount(root)
    places = (
        model.index(row, k, root) for row in range(model.rowCount(root)) for k in range(columns)
    )
    return [str(place.data(Qt.ItemDataRole.ToolTipRole) or "") for place in places]


def test_a_screen_reader_reads_a_tip_in_lines_without_its_markup(qtbot: QtBot) -> None:
    button = QPushButton("Stop")
    qtbot.addWidget(button)
    set_wrapped_tip(button, "a < b\nsecond line")
    assert button.toolTip() == "<p>a &lt; b<br>second line</p>"
    interface = QAccessible.queryAccessibleInterface(button)
    assert interface.text(QAccessible.Text.Description) == "a < b\nsecond line"
