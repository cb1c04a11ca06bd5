"""The section with the run from which this one goes on, and with those that go on from it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QWidget

from engine.runs.run_info import RunInfo
from gui.overview.section import Section
from gui.run_list.branches import branches_of
from gui.widgets.layouts.flow_layout import FlowLayout
from gui.widgets.plain_text import plain_tip

_MOST = 24
_LETTERS = 56


class BranchesSection(Section):
    """A click opens a run; the section is hidden for a run that stands alone."""

    run_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__("Branches")
        self.buttons: list[QPushButton] = []
        self._shown: object = None
        inside = QWidget()
        self._row = FlowLayout(inside)
        self.column.addWidget(inside)
        self.hide()

    def show_runs(self, run_id: str, infos: Sequence[RunInfo]) -> None:
        """Show parent and branches of a run, of all runs newest first."""
        own = next((info for info in infos if info.id == run_id), None)
        parent = own.origin.parent if own else ""
        names = {info.id: info.name for info in infos if info.id == parent}
        found = branches_of(infos).get(run_id, []) if own else []
        shown = (own and own.origin, names, [(each.id, each.name) for each in found])
        if shown == self._shown:
            return
        self._shown = shown
        self._clear()
        if own and parent:
            text = f"from step {own.origin.parent_step:,} of #{parent}"
            self._add(parent, f"{text} {names.get(parent, '(deleted)')}", "The run before")
        for each in found[:_MOST]:
            text = f"step {each.origin.parent_step:,}: #{each.id} {each.name}"
            self._add(each.id, text, "A branch of this run")
        count = len(found)
        self.set_note(f"{count:,} branch{'es' * (count != 1)}" if count else "")
        self.setVisible(bool(self.buttons))

    def _add(self, run_id: str, text: str, what: str) -> None:
        button = QPushButton(text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…")
        button.setToolTip(plain_tip(f"{what}: {text}"))
        button.setAccessibleName(f"{what}: {text}")
        button.setAutoDefault(False)
        button.clicked.connect(lambda: self.run_wanted.emit(run_id))
        self.buttons.append(button)
        self._row.addWidget(button)

    def _clear(self) -> None:
        self.buttons = []
        while item := self._row.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
