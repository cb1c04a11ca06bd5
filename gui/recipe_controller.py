"""Connects the menus with new recipes and with checks of the recipe in the form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QInputDialog, QMessageBox, QWidget

from gui.bridge.background import Background
from gui.bridge.files.editor import Place, place_in
from gui.bridge.files.recipe_tools import (
    CannotWrite,
    CheckResult,
    RecipeCheck,
    recipe_kinds,
    write_recipe,
)
from gui.run_form.run_form import RunForm
from gui.widgets.save_dialog import ask_where_to_save

_TITLES = {
    "torch": "PyTorch", "keras": "Keras", "lightning": "Lightning", "huggingface": "Hugging Face",
}  # fmt: skip


class RecipeController(QObject):
    """Writes new recipes, and shows what a check has found."""

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(
        self,
        form: RunForm,
        background: Background,
        open_editor: Callable[[Place], None],
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._form, self._window, self._open_editor = form, window, open_editor
        self.recipe_check = RecipeCheck(background, self)
        self.recipe_check.checked.connect(self.show_result)

    def new_recipe(self) -> None:
        """Ask for what the recipe is and where to save it; write it, and show it in the form."""
        kinds = recipe_kinds()
        titles = [_TITLES.get(kind, kind) for kind in kinds]
        first = titles.index("PyTorch") if "PyTorch" in titles else 0
        title, accepted = QInputDialog.getItem(
            self._window, "New recipe", "A recipe for:", titles, first, False
        )
        if not accepted:
            return
        text = "Save the new recipe"
        path = ask_where_to_save(self._window, text, "recipe.py", "Python files (*.py)")
        if path:
            self.write(Path(path), kinds[titles.index(title)])

    def write(self, file: Path, kind: str) -> None:
        """Write a new recipe, and show it in the form."""
        try:
            write_recipe(file, kind)
        except CannotWrite as error:
            self.message.emit(str(error))
            return
        self._form.heading.kind.recipe.setChecked(True)
        self._form.open_path(str(file))
        self.message.emit(f"{file.name} is written: the pencil beside it opens it in your editor.")

    def check(self) -> None:
        """Try the recipe in the form on one batch; end the check, if one is going on."""
        spec = self._form.spec()
        if self.recipe_check.is_checking:
            self.recipe_check.stop()
            text = "The check is being stopped."
        elif self._form.is_script:
            text = "A script runs as it is: only recipes are checked."
        elif spec is None:
            text = "The form has problems: solve them first."
        else:
            machine = self._form.machine.machine
            self.recipe_check.start(spec, machine)
            text = f"Checking {Path(spec.recipe).stem} on one batch…"
            if machine:
                text = f"Checking {Path(spec.recipe).stem} on one batch, on {machine}…"
        self.message.emit(text)

    def show_result(self, result: CheckResult, machine: str = "") -> None:
        """Show what a check has found on a machine; empty: on this one."""
        self.message.emit("")
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Information if result.ok else QMessageBox.Icon.Warning)
        there = f" on {machine}" if machine else ""
        box.setWindowTitle(f"Check of {Path(result.recipe).stem}{there}")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(f"One batch was trained{there}." if result.ok else result.problem)
        box.setInformativeText("\n".join(self._facts(result)))
        if result.details:
            box.setDetailedText(result.details)
        place = place_in(result.where)
        if place is not None:
            button = box.addButton("Open in editor", QMessageBox.ButtonRole.ActionRole)
            button.clicked.connect(lambda: self._open_editor(place))
        box.addButton(QMessageBox.StandardButton.Close)
        box.open()

    def _facts(self, result: CheckResult) -> list[str]:
        facts = list(result.notices)
        if result.parameters:
            facts.append(f"The model has {result.parameters:,} trainable parameters.")
        if result.loss is not None:
            facts.append(f"The loss of the first batch is {result.loss:.4g}.")
        return facts
