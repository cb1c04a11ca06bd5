"""The top of the run form: its mode, the presets, and a button to copy the command line."""

from __future__ import annotations

from msgspec.structs import replace
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QCheckBox, QPushButton, QToolButton, QWidget

from engine.spec.run_spec import RunSpec
from gui.run_form.form_mode import Continuation, FormMode, NewRun
from gui.run_form.preset_menu import PresetMenu
from gui.widgets.boxes import column_of, row_of
from gui.widgets.icon_button import IconButton
from gui.widgets.plain_text import Label, set_wrapped_tip


class KindChoice(QWidget):
    """Two joined buttons: the form is for a recipe, or for a script."""

    chosen = Signal(bool)
    """Whether the user has chosen a script."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.recipe = self._button(
            "Recipe",
            "A file with model() and datasets(): trained with any strategy, and resumed exactly",
        )
        self.script = self._button(
            "Script", "A training script, or any other program: it runs as it is, and is watched"
        )
        self.recipe.setChecked(True)
        group = QButtonGroup(self)
        layout = row_of(parent=self, margins=0, spacing=0)
        for button in (self.recipe, self.script):
            group.addButton(button)
            layout.addWidget(button)
        self.script.toggled.connect(self.chosen)

    def _button(self, text: str, tip: str) -> QToolButton:
        button = QToolButton()
        button.setObjectName("kind")
        button.setText(text)
        set_wrapped_tip(button, tip)
        button.setCheckable(True)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return button


class FormHeading(QWidget):
    """Shows the mode of the form; the user can change from a continuation to a new run."""

    mode_changed = Signal(object)
    """The FormMode that the user chose."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = Label(objectName="h")
        self.kind = KindChoice()
        self.presets = PresetMenu()
        self.presets.setObjectName("quiet")
        self.copy_button = IconButton("copy", "Copy command", "Copy the equivalent command line")
        self.origin = _Origin()
        """The step from which a run continues."""

        self.origin.setObjectName("note")
        self.new_run_button = QPushButton("New run instead")
        self.new_run_button.setObjectName("quiet")
        self.new_run_button.clicked.connect(lambda: self.mode_changed.emit(NewRun()))
        self.as_new = QCheckBox("As a new run")
        set_wrapped_tip(
            self.as_new,
            (
                "A new run continues from this checkpoint, with the curves up to it. The "
                "old run is not changed."
            ),
        )
        self.as_new.toggled.connect(self._set_as_new)
        self._mode: FormMode = NewRun()
        top = row_of(
            (self.title, 1),
            self.kind,
            self.new_run_button,
            self.presets,
            self.copy_button,
            spacing=2,
        )
        column_of(top, self.as_new, self.origin, parent=self, margins=0, spacing=2)

    def show_mode(self, mode: FormMode) -> None:
        """Show the mode of the form."""
        self._mode = mode
        self.title.setText(mode.heading)
        continues = isinstance(mode, Continuation)
        if isinstance(mode, Continuation):
            other = mode._replace(as_new=not mode.as_new)
            self.origin.show_text(mode.origin, other.origin)
            self.as_new.setChecked(mode.as_new)
        for widget in (self.origin, self.as_new, self.new_run_button):
            widget.setVisible(continues)
        if isinstance(mode, Continuation) and mode.checkpoint is None:
            self.as_new.setVisible(False)  # there is nothing to copy
        self.kind.setVisible(not continues)
        self.presets.setVisible(not continues)

    def set_spec(self, spec: RunSpec | None) -> None:
        """Set the spec to save, without its name, or to copy; None while the form has problems."""
        self.presets.set_spec(replace(spec, name="") if spec else None)
        self.copy_button.setEnabled(spec is not None)

    def _set_as_new(self, as_new: bool) -> None:
        if isinstance(self._mode, Continuation) and self._mode.as_new != as_new:
            self.mode_changed.emit(self._mode._replace(as_new=as_new))


class _Origin(Label):
    """A label whose height fits its wrapped text.

    It does not offer `heightForWidth` to the layout: the layout would then give the form its full
    height, and the side panel would scroll instead of the form.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self._other = Label(objectName="note", wordWrap=True)
        self._other.setParent(self)
        self._other.hide()

    def show_text(self, text: str, other: str) -> None:
        """Show `text`; keep room for `other`, so that nothing moves when it takes its place."""
        self._other.setText(other)
        self.setText(text)

    def hasHeightForWidth(self) -> bool:
        return False

    def minimumSizeHint(self) -> QSize:
        width = self.width()
        return QSize(0, max(self.heightForWidth(width), self._other.heightForWidth(width)))

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()
