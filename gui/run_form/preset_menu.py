"""The button Presets of the run form: saves settings as files, loads and deletes them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMenu, QMessageBox, QPushButton, QWidget

from engine.spec.device_names import is_logical_cpu
from engine.spec.run_spec import RunSpec
from gui.bridge.files import preset_files
from gui.bridge.files.preset_files import PresetError
from gui.widgets.plain_text import plain_tip, wrapped
from gui.widgets.save_dialog import ask_where_to_save
from gui.widgets.steady_button import let_go_of_menu

_FILTER = "TOML (*.toml)"


class PresetMenu(QPushButton):
    """Opens a menu of all presets; it reads them whenever the menu opens."""

    loaded = Signal(object)
    """RunSpec of the preset that was chosen."""

    done = Signal(str)
    """A sentence: what was saved or deleted."""

    failed = Signal(str)
    """A sentence: what could not be done, and why."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText("Presets")
        self.setToolTip("Save these settings under a name, or load saved ones")
        self._spec: RunSpec | None = None
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.fill)
        self.setMenu(menu)
        let_go_of_menu(self)
        self.fill()

    def set_spec(self, spec: RunSpec | None) -> None:
        """Set the settings to save; None while they are not valid."""
        self._spec = spec

    def fill(self) -> None:
        """Fill the menu with the presets that exist now."""
        menu = self.menu()
        menu.clear()
        saved = preset_files.saved_presets()
        for name, spec in saved.items():
            self._add_preset(menu, name, spec)
        if not saved:
            menu.addAction("No presets yet").setEnabled(False)
        menu.addSeparator()
        save = menu.addAction("Save as…", self.save_as)
        menu.addAction("Load a file…", self.load_file)
        write = menu.addAction("Save to a file…", self.save_file)
        for action in (save, write):
            action.setEnabled(self._spec is not None)
        menu.addSeparator()
        delete = menu.addMenu("Delete")
        delete.setEnabled(bool(saved))
        for name in saved:
            delete.addAction(_menu_text(name), partial(self.delete, name))

    def load(self, file: Path) -> None:
        """Load the preset in `file`. Emits `loaded` or `failed`."""
        try:
            spec = preset_files.read_preset(file)
        except PresetError as error:
            self.failed.emit(str(error))
        else:
            self.loaded.emit(spec)

    def save_as(self) -> None:
        """Ask for a name and save the settings under it."""
        title, label = "Save as a preset", "Name of the preset:"
        name, accepted = QInputDialog.getText(self, title, label)
        name, spec = name.strip(), self._spec
        if not accepted or spec is None:
            return
        question = f"There is a preset “{name}” already. Replace it?"
        if preset_files.has_preset(name) and not self._confirmed(title, question):
            return
        done = f"Saved as the preset “{name}”."
        self._carry_out(lambda: preset_files.save_preset(name, spec), done)

    def load_file(self) -> None:
        """Let the user choose a file: a preset, or the spec.toml of a run."""
        path, _ = QFileDialog.getOpenFileName(self, "Load settings", "", _FILTER)
        if path:
            self.load(Path(path))

    def save_file(self) -> None:
        """Let the user choose a file and write the settings into it."""
        path = ask_where_to_save(self, "Save settings", "preset.toml", _FILTER)
        spec = self._spec
        if path and spec is not None:
            done = f"Saved to {path}."
            self._carry_out(lambda: preset_files.write_preset(Path(path), spec), done)

    def delete(self, name: str) -> None:
        """Ask the user, then delete the preset `name`."""
        title = "Delete a preset"
        if self._confirmed(title, f"Delete the preset “{name}”?"):
            done = f"The preset “{name}” is deleted."
            self._carry_out(lambda: preset_files.delete_preset(name), done)

    def _carry_out(self, work: Callable[[], None], done: str) -> None:
        """Call `work`; emit the sentence `done`, or why `work` failed."""
        try:
            work()
        except PresetError as error:
            self.failed.emit(str(error))
        else:
            self.done.emit(done)

    def _add_preset(self, menu: QMenu, name: str, spec: RunSpec | PresetError) -> None:
        if isinstance(spec, PresetError):
            text = f"⚠ {_menu_text(name)} (cannot be read)"
            action = menu.addAction(text, lambda: self.failed.emit(str(spec)))
            action.setToolTip(wrapped(str(spec)))
        else:
            action = menu.addAction(_menu_text(name), lambda: self.loaded.emit(spec))
            action.setToolTip(plain_tip(f"{Path(spec.recipe).stem} · {spec.strategy}"))

    def _confirmed(self, title: str, question: str) -> bool:
        box = QMessageBox(self)
        box.setWindowTitle(title)
        box.setText(question)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setStandardButtons(QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No)
        return box.exec() == QMessageBox.StandardButton.Yes


def adapt_preset(
    spec: RunSpec,
    chosen: tuple[str, ...],
    gpus: Collection[str],
    strategies: Collection[str],
) -> tuple[RunSpec, str]:
    """Return a preset adapted to this machine, and sentences about values that were ignored.

    If a device of the preset is not on this machine, the `chosen` devices replace its devices.
    """
    notes = []
    if any(not is_logical_cpu(device) and device not in gpus for device in spec.devices):
        spec = replace(spec, devices=chosen)
        notes.append("The GPUs of the preset are not on this machine: your choice is kept.")
    if spec.strategy not in strategies:
        notes.append(f"There is no strategy {spec.strategy}: your choice is kept.")
    return spec, " ".join(notes)


def unknown_settings_note(settings: Collection[str]) -> str:
    """Return a sentence about settings that the recipe does not have; empty if there are none."""
    names = ", ".join(settings)
    return f"The recipe has no setting {names}: left out." if names else ""


def _menu_text(name: str) -> str:
    """Return `name` for a menu entry, in which a single & would mark a mnemonic."""
    return name.replace("&", "&&")
