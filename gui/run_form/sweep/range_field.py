"""One setting in the dialog of a sweep: a range or a list, checked while it is typed."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from engine.spec.field_info import FieldInfo, Setting
from engine.sweeps.ranges import CannotSweep, Range, parse_setting
from gui.widgets.boxes import column_of
from gui.widgets.entry_fields import FieldNote, show_fault
from gui.widgets.plain_text import Label, set_wrapped_tip

_FACTOR = 10.0


class RangeField(QWidget):
    """Empty: all runs have the value of the form."""

    changed = Signal()

    def __init__(self, info: FieldInfo, value: Setting, parent: QWidget | None = None) -> None:
        """`value`: what the form has."""
        super().__init__(parent)
        self.info = info
        self.line = QLineEdit()
        self.line.setPlaceholderText(_shown(info, value))
        self.line.setAccessibleName(f"{info.title}: range or list")
        self.label = Label(info.title)
        self.label.setBuddy(self.line)
        example = f"For example {self._example(value)}"
        tip = "\n".join(filter(None, (info.help(in_form=False), example)))
        for widget in (self.line, self.label):
            set_wrapped_tip(widget, tip)
        self.note = FieldNote()
        self.value: Range | Setting | None = None
        """What was entered; None: nothing, or nothing valid."""

        column_of(self.line, self.note, parent=self, margins=0, spacing=2)
        self.line.textChanged.connect(self._check)

    @property
    def problem(self) -> str:
        """The displayed problem, or empty."""
        return self.note.problem

    @property
    def is_changed(self) -> bool:
        """Whether something was entered."""
        return bool(self.text())

    def text(self) -> str:
        """Return what was entered."""
        return self.line.text().strip()

    def setting(self) -> str:
        """Return what was entered as `--set` takes it; empty: nothing."""
        return f"{self.info.name}={self.text()}" if self.text() else ""

    def show_problem(self, problem: str) -> None:
        """Show a problem below the line."""
        self.note.set_problem(problem)
        show_fault(self.line, problem)

    def _check(self) -> None:
        self.value, problem = None, ""
        if setting := self.setting():
            try:
                _, self.value = parse_setting(setting, {self.info.name: self.info})
            except CannotSweep as error:
                problem = str(error)
        self.show_problem(problem)
        is_single = isinstance(self.value, bool | int | float | str)
        self.note.set_note("One value: all runs have it." if is_single else "")
        self.changed.emit()

    def _example(self, value: Setting) -> str:
        info = self.info
        if info.type == "choice":
            return ",".join(map(str, info.choices))
        if info.type == "bool":
            return "true,false"
        if isinstance(value, str):
            return "first,second"
        if isinstance(value, float):
            if value > 0:
                return f"{value / _FACTOR:g}..{value * _FACTOR:g}:log"
            return "0..0.5" if info.least is None or info.least >= 0 else "-1..1"
        return f"{max(1, value // 2)},{max(1, value)},{max(1, value) * 2}" if value else "0..4"


def _shown(info: FieldInfo, value: Setting) -> str:
    """Return the value of the form as the form shows it."""
    if info.texts:
        return info.choice_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return info.zero if info.zero and not value else str(value)
