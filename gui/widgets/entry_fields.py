"""Typed entry fields, built from the fields of a recipe or of a RunSpec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtGui import QPaintEvent, QStandardItemModel, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

from engine.spec.field_info import FieldInfo, Setting
from gui.widgets.boxes import column_of
from gui.widgets.plain_text import Label, set_wrapped_tip, wrapped


class Combo(QComboBox):
    """A combo box for a scrolling form: it leaves the mouse wheel to the form."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Elide a text that does not fit, instead of cutting it."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        width = self.style().subControlRect(
            QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, self
        )
        option.currentText = self.shown_text(width.width())
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)

    def shown_text(self, width: int) -> str:
        """Return the text while the list is closed, elided to `width` logical pixels."""
        right = Qt.TextElideMode.ElideRight
        return self.fontMetrics().elidedText(self.currentText(), right, width)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ignore the wheel: it scrolls the panel behind."""
        event.ignore()

    def set_entry(self, row: int, *, reason: str, tip: str = "") -> None:
        """Enable the entry in `row` with the tooltip `tip`, or disable it for `reason`."""
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        model.item(row).setEnabled(not reason)
        model.item(row).setToolTip(wrapped(reason or tip))


class Editor(NamedTuple):
    """A widget for one value, with functions that read and write it."""

    widget: QWidget
    get: Callable[[], Setting]
    """Raises ValueError with a sentence if the text is not a value."""

    set: Callable[[Setting], None]
    changed: SignalInstance


def _line(field: FieldInfo) -> Editor:
    line = QLineEdit()
    line.setClearButtonEnabled(False)
    line.setPlaceholderText(field.zero)

    def value() -> Setting:
        is_zero = field.zero and field.type != "str" and not line.text()
        return field.parse("0" if is_zero else line.text())

    def show(value: Setting) -> None:
        is_zero = field.zero and isinstance(value, int | float) and value == 0
        line.setText("" if is_zero else _as_text(value))
        line.setCursorPosition(0)  # of a long number, the first digits are what counts

    return Editor(line, value, show, line.textChanged)


def _check(field: FieldInfo) -> Editor:
    box = QCheckBox()
    return Editor(box, box.isChecked, lambda value: box.setChecked(bool(value)), box.toggled)


def _combo(field: FieldInfo) -> Editor:
    combo = Combo()
    combo.addItems([field.choice_text(choice) for choice in field.choices])
    for row, meaning in enumerate(field.meanings):
        combo.set_entry(row, reason="", tip=meaning)

    def choose(value: Setting) -> None:
        if value in field.choices:
            combo.setCurrentIndex(field.choices.index(value))

    return Editor(
        combo,
        lambda: field.choices[combo.currentIndex()],
        choose,
        combo.currentTextChanged,
    )


_EDITORS: dict[str, Callable[[FieldInfo], Editor]] = {
    "bool": _check,
    "int": _line,
    "float": _line,
    "str": _line,
    "choice": _combo,
}


class Field(QWidget):
    """One entry field, with a note or a problem below it."""

    changed = Signal()

    def __init__(
        self, field: FieldInfo, parent: QWidget | None = None, editor: Editor | None = None
    ) -> None:
        """`editor`: None for the usual one of the type."""
        super().__init__(parent)
        self.info = field
        self.refusal = ""
        """Why the value cannot be changed now, or empty."""

        self._unlocked_value = field.default
        self._editor = editor or _EDITORS[field.type](field)
        self.widget = self._editor.widget
        """The widget that gets the keyboard focus."""

        self.widget.setAccessibleName(field.title)
        self.label = Label(field.title)
        self.label.setBuddy(self.widget)
        self._set_tip(field.help(in_form=True))
        self._editor.changed.connect(lambda *_: self.changed.emit())
        self.note_label = FieldNote()
        """The label below the field; a form may place it elsewhere."""

        # Without a focus proxy: Tab would go to `widget` wherever a new field is in Qt's chain.
        column_of(self.widget, self.note_label, parent=self, margins=0, spacing=2)
        self.set_value(field.default)

    @property
    def problem(self) -> str:
        """The displayed problem, or empty."""
        return self.note_label.problem

    @property
    def is_changed(self) -> bool:
        """Whether the value differs from the default."""
        try:
            return self.value() != self.info.default
        except ValueError:
            return True

    @property
    def note(self) -> str:
        """The text below the field: its problem or its note."""
        return self.note_label.text()

    def value(self) -> Setting:
        """Return the value. Raises ValueError with a sentence if the text is not a value."""
        return self._editor.get()

    def entered(self) -> Setting:
        """Return what is entered, valid or not, for `set_value`."""
        return self.widget.text() if isinstance(self.widget, QLineEdit) else self.value()

    def value_or_default(self) -> Setting:
        """Return the value, or the default if the text is not a value."""
        try:
            return self.value()
        except ValueError:
            return self.info.default

    def set_value(self, value: Setting) -> None:
        """Set the value; while the field is locked, the value is shown as soon as it is
        unlocked."""
        if self.refusal:
            self._unlocked_value = value
        else:
            self._editor.set(value)

    def set_refusal(self, reason: str, held: Setting | None = None) -> None:
        """Lock the field at the value `held` (None: the default), with `reason` as the tooltip; an
        empty reason unlocks it and restores its value. Does not emit `changed`."""
        self.widget.blockSignals(True)
        if reason:
            if not self.refusal:
                self._unlocked_value = self.value_or_default()
            self._editor.set(self.info.default if held is None else held)
        elif self.refusal:
            self._editor.set(self._unlocked_value)
        self.widget.blockSignals(False)
        self.refusal = reason
        for widget in (self.widget, self.label):
            widget.setEnabled(not reason)
        self._set_tip(reason or self.info.help(in_form=True))

    def set_choice_refusals(self, reasons: Mapping[Setting, str]) -> None:
        """Disable each choice that has a reason; only for a field of type `choice`."""
        assert isinstance(self.widget, Combo)
        tips = self.info.meanings or ("",) * len(self.info.choices)
        for row, (choice, tip) in enumerate(zip(self.info.choices, tips, strict=True)):
            self.widget.set_entry(row, reason=reasons.get(choice, ""), tip=tip)

    def set_note(self, text: str) -> None:
        """Show a note below the field while there is no problem."""
        self.note_label.set_note(text)

    def set_problem(self, text: str) -> None:
        """Show a problem below the field, and outline the field; empty: there is none."""
        self.note_label.set_problem(text)
        show_fault(self.widget, text)

    def _set_tip(self, text: str) -> None:
        for widget in (self.widget, self.label):
            set_wrapped_tip(widget, text)


def show_fault(widget: QWidget, problem: str) -> None:
    """Outline `widget` as the one at fault, and tell screen readers why; empty: it is not."""
    if widget.accessibleDescription() != problem:
        widget.setAccessibleDescription(problem)
    if bool(widget.property("fault")) != bool(problem):
        widget.setProperty("fault", bool(problem))
        widget.style().polish(widget)  # the style sheet selects by the property


class FieldNote(Label):
    """The label below a field: a problem if there is one, otherwise a note, otherwise hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.problem = ""
        self._note = ""
        self.setWordWrap(True)
        self.setVisible(False)

    def set_note(self, text: str) -> None:
        """Show `text` while there is no problem."""
        self._note = text
        self._show()

    def set_problem(self, text: str) -> None:
        """Show `text` as a problem; empty: there is none."""
        self.problem = text
        self._show()

    def _show(self) -> None:
        text = f"⚠ {self.problem}" if self.problem else self._note
        self.setObjectName("problem" if self.problem else "note")
        self.setText(text)
        self.setVisible(bool(text))
        self.style().polish(self)  # the style sheet selects by the object name


def _as_text(value: Setting) -> str:
    """Format a value as a person would type it: 0.001, 3e-05, 128."""
    return f"{value:g}" if type(value) is float and float(f"{value:g}") == value else str(value)
