"""The options of a script as fields, and the words of its command that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from engine.scripts.options import Option, Value, values_in, words_of
from engine.spec.field_info import FieldInfo, Setting
from engine.spec.validation import Problem
from gui.run_form.advanced_fields import FieldGroup
from gui.widgets.entry_fields import Field

PREFIX = "options."
"""Of the name of an option in a problem."""


class OptionFields(FieldGroup):
    """One field for each option; what equals its default is left out of the command."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Options", parent)
        self.options: tuple[Option, ...] = ()
        self.fields: dict[str, Field] = {}
        """By the name of the option."""

        self._given: set[str] = set()
        """Names of options that stay in the command although they equal their default."""

        self.show_options((), {})

    def show_options(self, options: Iterable[Option], values: Mapping[str, Value]) -> None:
        """Show `options` with `values`, which may be texts that are not valid."""
        self.clear()
        self.options = tuple(options)
        self.fields = {option.name: Field(option_field(option)) for option in self.options}
        self._given = set(values)
        for option in self.options:
            field = self.fields[option.name]
            # A line breaks at spaces and dashes only.
            field.label.setText(field.info.title.replace("_", "_\u200b"))
            if isinstance(field.widget, QLineEdit):
                field.widget.setPlaceholderText(option.default_text)
            if option.name in values:
                field.set_value(values[option.name])
            self.add(option.name, field)
            field.changed.connect(self.changed)
        self.setVisible(bool(self.options))
        self.show_changes()

    def entered(self) -> dict[str, Setting]:
        """Return what is entered where it differs from the default, valid or not."""
        return {name: field.entered() for name, field in self.fields.items() if field.is_changed}

    def words(self, found: list[Problem]) -> list[str]:
        """Return the words of the command for the fields; add the problems to `found`."""
        values: dict[str, Value] = {}
        for option in self.options:
            field = self.fields[option.name]
            try:
                values[option.name] = "" if field.entered() == "" else field.value()
                if option.is_required and values[option.name] == "":
                    raise ValueError("The script needs this option.")
                words_of((option,), values, self._given)
            except ValueError as error:
                found.append(Problem(PREFIX + option.name, str(error)))
                values.pop(option.name, None)
        return words_of(self.options, values, self._given)

    def read_words(self, options: Sequence[Option], words: Sequence[str]) -> list[str]:
        """Show `options` with the values in the `words` of a command; return the other words."""
        values, rest = values_in(options, words)
        self.show_options(options, values)
        return rest


def option_field(option: Option) -> FieldInfo:
    """Return the field for an option; empty text means that it is not given."""
    choices = option.choices
    default: Setting = option.default if option.default is not None else ""
    if option.type == "choice" and option.default is None:
        choices = ("", *choices)
    elif option.type == "bool":
        default = bool(option.default)
    return FieldInfo(option.name, option.type, default, choices, option.doc, option.title)
