"""The button Presets of the run form: settings kept as files, loaded, passed on, deleted."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QInputDialog,
    QMenu,
    QMessageBox,
    QPushButton,
    QWidget,
)

from engine.spec import presets
from engine.spec.device_names import is_logical_cpu
from engine.spec.presets import UnreadablePreset
from engine.spec.run_spec import RunSpec
from gui.style.translation import translate
from gui.widgets.entry_fields import wrapped
from gui.widgets.save_dialog import ask_where_to_save

_FILTER = "TOML (*.toml)"


class PresetMenu(QPushButton):
    """Reads the folder of the presets whenever it drops down."""

    loaded = Signal(object)
    """RunSpec of the preset that was chosen."""

    done = Signal(str)
    """A sentence: what was saved or deleted."""

    failed = Signal(str)
    """A sentence: what could not be done, and why."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText(self.tr("Presets"))
        self.setToolTip(self.tr("Keep these settings under a name, or load some"))
        self._spec: RunSpec | None = None
        menu = QMenu(self)
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.fill)
        self.setMenu(menu)
        self.fill()

    def set_spec(self, spec: RunSpec | None) -> None:
        """What there is to save; None while something is wrong with it."""
        self._spec = spec

    def fill(self) -> None:
        """List the presets there are now."""
        menu = self.menu()
        menu.clear()
        names = presets.names()
        for name in names:
            self._add_preset(menu, name)
        if not names:
            menu.addAction(self.tr("No presets yet")).setEnabled(False)
        menu.addSeparator()
        save = menu.addAction(self.tr("Save as…"), self.save_as)
        menu.addAction(self.tr("Load a file…"), self.load_file)
        write = menu.addAction(self.tr("Save to a file…"), self.save_file)
        for action in (save, write):
            action.setEnabled(self._spec is not None)
        menu.addSeparator()
        delete = menu.addMenu(self.tr("Delete"))
        delete.setEnabled(bool(names))
        for name in names:
            delete.addAction(_shown(name), partial(self.delete, name))

    def load(self, file: Path) -> None:
        """Load the preset in `file`; answered by `loaded` or `failed`."""
        try:
            spec = presets.read(file)
        except UnreadablePreset as error:
            self.failed.emit(str(error))
        else:
            self.loaded.emit(spec)

    def save_as(self) -> None:
        """Ask for a name and keep the settings under it."""
        title, label = self.tr("Save as a preset"), self.tr("Name of the preset:")
        name, wanted = QInputDialog.getText(self, title, label)
        name = name.strip()
        if not wanted or self._spec is None:
            return
        question = self.tr("There is a preset “{name}” already. Replace it?").format(name=name)
        exists = not presets.name_problem(name) and presets.path_of(name).exists()
        if exists and not self._agreed(title, question):
            return
        try:
            presets.save(name, self._spec)
        except ValueError as error:
            self.failed.emit(self.tr("The preset was not saved. {why}").format(why=error))
        except OSError as error:
            self.failed.emit(
                self.tr("The preset was not saved: {file} cannot be written ({why}).").format(
                    file=presets.path_of(name), why=error.strerror
                )
            )
        else:
            self.done.emit(self.tr("Saved as the preset “{name}”.").format(name=name))

    def load_file(self) -> None:
        """Let the user choose a file: a preset, or the spec.toml of a run."""
        path, _ = QFileDialog.getOpenFileName(self, self.tr("Load settings"), "", _FILTER)
        if path:
            self.load(Path(path))

    def save_file(self) -> None:
        """Let the user choose a file and write the settings into it."""
        path = ask_where_to_save(self, self.tr("Save settings"), "preset.toml", _FILTER)
        if not path or self._spec is None:
            return
        try:
            presets.write(Path(path), self._spec)
        except OSError as error:
            text = self.tr("{file} was not written: {why}.")
            self.failed.emit(text.format(file=path, why=error.strerror))
        else:
            self.done.emit(self.tr("Saved to {file}.").format(file=path))

    def delete(self, name: str) -> None:
        """Delete the preset `name`, if the user means it."""
        title = self.tr("Delete a preset")
        if not self._agreed(title, self.tr("Delete the preset “{name}”?").format(name=name)):
            return
        try:
            presets.delete(name)
        except OSError as error:
            text = self.tr("“{name}” was not deleted: {why}.")
            self.failed.emit(text.format(name=name, why=error.strerror))
        else:
            self.done.emit(self.tr("The preset “{name}” is deleted.").format(name=name))

    def _add_preset(self, menu: QMenu, name: str) -> None:
        file = presets.path_of(name)
        try:
            spec = presets.read(file)
        except UnreadablePreset as error:
            action = menu.addAction(self.tr("⚠ {name} (cannot be read)").format(name=_shown(name)))
            action.setToolTip(wrapped(str(error)))
        else:
            action = menu.addAction(_shown(name))
            action.setToolTip(f"{Path(spec.recipe).stem} · {spec.strategy}")
        action.triggered.connect(partial(self.load, file))

    def _agreed(self, title: str, question: str) -> bool:
        box = QMessageBox(self)
        box.setWindowTitle(title)
        box.setText(question)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setStandardButtons(QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.No)
        return box.exec() == QMessageBox.StandardButton.Yes


def suited(
    spec: RunSpec,
    chosen: tuple[str, ...],
    gpus: Collection[str],
    strategies: Collection[str],
) -> tuple[RunSpec, str]:
    """A preset for this machine, and in words what it had to leave out: devices that are not here
    make way for those that are `chosen`."""
    notes = []
    if any(not is_logical_cpu(device) and device not in gpus for device in spec.devices):
        spec = replace(spec, devices=chosen)
        notes.append(
            translate(
                "Presets", "The GPUs of the preset are not on this machine: yours stay chosen."
            )
        )
    if spec.strategy not in strategies:
        notes.append(
            translate("Presets", "There is no strategy {strategy}: yours stays chosen.").format(
                strategy=spec.strategy
            )
        )
    return spec, " ".join(notes)


def left_out(settings: Collection[str]) -> str:
    """The sentence about settings of a preset that its recipe does not have; or empty."""
    names = ", ".join(settings)
    text = translate("Presets", "The recipe has no setting {names}: left out.")
    return text.format(names=names) if names else ""


def _shown(name: str) -> str:
    """As a menu has to be told, which takes & for a mnemonic."""
    return name.replace("&", "&&")
