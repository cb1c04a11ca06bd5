"""The part Advanced of the run form: all further fields, in groups that can be folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFormLayout, QSizePolicy, QToolButton, QWidget

from engine.spec.field_info import FieldInfo
from engine.spec.spec_fields import GROUPS
from gui.run_form.form_layout import COLUMN_GAP
from gui.widgets.boxes import column_of
from gui.widgets.entry_fields import Field
from gui.widgets.plain_text import Label

RECIPE = "Recipe"
"""Name of the group with the settings of the recipe."""

_OPEN_AT_START = (RECIPE, GROUPS[0])
_LABEL_WIDTH = 126
"""Width of the labels in logical pixels: the same in all groups."""


class AdvancedFields(QWidget):
    """The fields of a spec that are rarely changed, and the settings of the recipe."""

    changed = Signal()

    def __init__(self, infos: Iterable[FieldInfo], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.groups = {RECIPE: FieldGroup("Recipe")}
        self.groups |= {title: FieldGroup(title) for title in GROUPS}
        self.fields = {info.name: Field(info) for info in infos}
        """The fields of the spec, by name."""

        self.settings: dict[str, Field] = {}
        """The settings of the recipe, by name."""

        layout = column_of(parent=self, margins=0, spacing=4)
        for title, group in self.groups.items():
            group.heading.setChecked(title in _OPEN_AT_START)
            layout.addWidget(group)
        for name, field in self.fields.items():
            self.groups[field.info.group].add(name, field)
            field.changed.connect(self.changed)
        self.show_settings(())

    def show_settings(self, infos: Iterable[FieldInfo]) -> None:
        """Show the settings of a recipe, with their defaults."""
        recipe = self.groups[RECIPE]
        recipe.clear()
        self.settings = {info.name: Field(info) for info in infos}
        for name, field in self.settings.items():
            recipe.add(name, field)
            field.changed.connect(self.changed)
        recipe.setVisible(bool(self.settings))

    def show_changes(self) -> None:
        """Show in each heading how many of its fields differ from their defaults."""
        for group in self.groups.values():
            group.show_changes()

    def show_only(self, names: Collection[str], *, is_script: bool) -> None:
        """Show the fields of the spec with these names; of a script, no settings of a recipe."""
        for title, group in self.groups.items():
            if title != RECIPE:
                group.show_only(names)
        self.groups[RECIPE].setVisible(bool(self.settings) and not is_script)

    def open_problems(self) -> QWidget | None:
        """Unfold the groups with problems; return the first field with a problem, or None."""
        found = [(group, group.first_problem()) for group in self.groups.values()]
        problems = [(group, field) for group, field in found if field is not None]
        for group, _ in problems:
            group.heading.setChecked(True)
        return problems[0][1] if problems else None


class GroupField(Protocol):
    """What a group needs of its fields."""

    label: Label

    @property
    def problem(self) -> str:
        """The displayed problem, or empty."""

    @property
    def is_changed(self) -> bool:
        """Whether the value differs from the default."""


class FieldGroup(QWidget):
    """A heading and its fields; the fields are visible while the heading is checked."""

    def __init__(self, title: str, parent: QWidget | None = None, *, is_wide: bool = False) -> None:
        """`is_wide`: each field is below its label, at full width."""
        super().__init__(parent)
        self._title = title
        self._is_wide = is_wide
        self._fields: dict[str, GroupField] = {}
        self.heading = QToolButton()
        self.heading.setObjectName("group")
        self.heading.setCheckable(True)
        self.heading.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.heading.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._content = QWidget()
        self._rows = form_rows()
        self._rows.setContentsMargins(0, 0, 0, 6)
        self._rows.setVerticalSpacing(4)
        if is_wide:
            self._rows.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        self._content.setLayout(self._rows)
        column_of(self.heading, self._content, parent=self, margins=0, spacing=2)
        self.heading.toggled.connect(self._fold)
        self._fold(False)
        self.show_changes()

    def first_problem(self) -> QWidget | None:
        """Return the first field with a problem, or None."""
        found = next((field for field in self._fields.values() if field.problem), None)
        return found if isinstance(found, QWidget) else None

    def add(self, name: str, field: GroupField) -> None:
        """Add `field`, a widget, below the others."""
        assert isinstance(field, QWidget)
        self._fields[name] = field
        if self._is_wide:
            field.label.setObjectName("note")
        else:
            field.label.setFixedWidth(_LABEL_WIDTH)
            field.label.setWordWrap(True)
        self._rows.addRow(field.label, field)

    def show_only(self, names: Collection[str]) -> None:
        """Show the fields with these names, and the group if there is one of them."""
        for name, field in self._fields.items():
            assert isinstance(field, QWidget)
            self._rows.setRowVisible(field, name in names)
        self.setVisible(any(name in names for name in self._fields))

    def clear(self) -> None:
        """Remove all fields."""
        self._fields.clear()
        while self._rows.rowCount():
            self._rows.removeRow(0)

    def show_changes(self) -> None:
        """Show in the heading how many fields differ from their defaults."""
        count = sum(field.is_changed for field in self._fields.values())
        self.heading.setText(f"{self._title} · {count} changed" if count else self._title)

    def _fold(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.heading.setArrowType(arrow)
        self._content.setVisible(is_open)


def form_rows() -> QFormLayout:
    """Return a layout for rows of a label and a field, with the narrow spacing of the form."""
    rows = QFormLayout()
    rows.setContentsMargins(0, 0, 0, 0)
    rows.setVerticalSpacing(4)
    rows.setHorizontalSpacing(COLUMN_GAP)
    rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return rows
