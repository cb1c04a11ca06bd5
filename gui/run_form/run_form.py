"""The run form: recipe, strategy, devices and settings, with each problem beside its field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from PySide6.QtCore import Signal
from PySide6.QtGui import QEnterEvent, QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from engine.runs.checkpoint_files import CheckpointInfo
from engine.runs.run_info import RunInfo
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec, batch_arithmetic
from engine.spec.validation import Problem, problems
from engine.templates.kinds import TemplateKind, kind_for
from gui.bridge.recipes import read_run_recipe
from gui.run_form.advanced_fields import AdvancedFields, form_rows
from gui.run_form.choices import RecipeChoice, StrategyChoice
from gui.run_form.device_choice import DeviceChoice
from gui.run_form.device_conflicts import overlap
from gui.run_form.form_layout import align, side_by_side, stack
from gui.run_form.form_mode import Continuation, FormMode, NewRun
from gui.run_form.heading import FormHeading
from gui.run_form.preset_menu import adapt_preset, unknown_settings_note
from gui.run_form.spec_entry import apply_refusals, entered_spec
from gui.widgets.entry_fields import Field, FieldNote
from gui.widgets.fitting_scroll import FittingScroll
from gui.widgets.plain_text import Label, plain_tip

_MAIN_FIELDS = ("batch_size", "epochs", "learning_rate")
"""The fields of a spec that matter in every run; recipes have defaults for them."""

_LEAST_HEIGHT = 120
"""Minimum height of the fields in logical pixels, while the part Advanced is open."""


class RunForm(QFrame):
    """Edits a RunSpec; the start button is enabled while the spec has no problems."""

    start_requested = Signal(object)
    """RunSpec of a new run."""

    continue_requested = Signal(object)
    """ResumeRequest of a run that continues with the settings in the form."""

    message = Signal(str)
    """A sentence for the status bar."""

    template_changed = Signal(object)
    """The form needs another template: the new value of `template`."""

    entered = Signal()
    """The mouse or the keyboard has come into the form: the user may start a run soon."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.recipe = RecipeChoice()
        self.recipe_note = FieldNote()
        self.strategy = StrategyChoice()
        self.strategy_note = FieldNote()
        self.devices = DeviceChoice()
        self.advanced = AdvancedFields(
            info for name, info in FIELDS.items() if name not in _MAIN_FIELDS
        )
        self._main_fields = {name: Field(FIELDS[name]) for name in _MAIN_FIELDS}
        self.note = FieldNote()
        """Problems of no field, or a note about a loaded preset."""

        self._mode: FormMode = NewRun()
        self._continuation_requested = False
        self.heading = FormHeading()
        self.heading.show_mode(self._mode)
        self.start_button = QPushButton(self._mode.start_text)
        self.start_button.setObjectName("go")
        self.start_button.setProperty("pictured", True)
        self.advanced_button = QPushButton(self.tr("Advanced"))
        self.advanced_button.setCheckable(True)
        self.advanced.setVisible(False)
        self.presets, self.copy_button = self.heading.presets, self.heading.copy_button
        self._spec: RunSpec | None = None
        self.template: TemplateKind | None = None
        """The kind of template whose workers train with these settings; None: they start cold."""

        self._active: list[RunInfo] = []
        self._lay_out()
        self.recipe.chosen.connect(self._recipe_chosen)
        self.strategy.currentIndexChanged.connect(self._check)
        self.devices.changed.connect(self._check)
        for field in self._main_fields.values():
            field.changed.connect(self._check)
        self.advanced.changed.connect(self._check)
        self.start_button.clicked.connect(self.start)
        self.advanced_button.toggled.connect(self._show_advanced)
        self.presets.loaded.connect(self.load_preset)
        self.presets.done.connect(self.message)
        self.presets.failed.connect(lambda sentence: self.note.set_note(f"⚠ {sentence}"))
        self.copy_button.clicked.connect(self.copy_command)
        self.heading.mode_changed.connect(self._set_mode)
        if isinstance(app := QApplication.instance(), QApplication):
            app.focusChanged.connect(self._focus_moved)
        self._recipe_chosen()

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.entered.emit()

    def spec(self) -> RunSpec | None:
        """Return the spec in the form, or None while it has problems."""
        return self._spec

    def field(self, name: str) -> Field:
        """Return the entry field of a field of the spec, or of the setting `settings.<name>`."""
        prefix, dot, setting = name.partition(".")
        return self.advanced.settings[setting] if dot else self._fields()[prefix]

    def load(self, spec: RunSpec) -> None:
        """Fill the form with `spec`, for a new run."""
        self._set_mode(NewRun())
        self._fill(spec)

    def continue_run(self, info: RunInfo, checkpoint: CheckpointInfo | None) -> None:
        """Fill the form with the settings of a run, to continue it from `checkpoint`; None: from
        the beginning."""
        self._set_mode(NewRun())  # remove the fixed values of another run
        self._fill(info.spec, read_run_recipe(info))
        self._set_mode(Continuation(info, checkpoint))
        self._main_fields["epochs"].setFocus()

    def run_started(self, run_id: str) -> None:
        """Leave the mode Continuation if its run is the one that has started."""
        mode = self._mode
        if isinstance(mode, Continuation) and mode.was_started_as(
            run_id, requested=self._continuation_requested
        ):
            self._set_mode(NewRun())

    def _fill(self, spec: RunSpec, recipe: RecipeInfo | None = None) -> None:
        self.recipe.choose(spec.recipe, recipe)
        self.devices.set_devices(spec.devices)
        self.strategy.choose(spec.strategy)
        for name, field in self._fields().items():
            field.set_value(getattr(spec, name))
        for name, value in spec.settings.items():
            if name in self.advanced.settings:
                self.advanced.settings[name].set_value(value)

    def load_preset(self, spec: RunSpec) -> None:
        """Fill the form with `spec` adapted to this machine, and show which values it ignored."""
        devices = self.devices
        spec, note = adapt_preset(
            spec, devices.devices(), devices.known_gpus, self.strategy.names()
        )
        self.load(spec)
        unknown = [name for name in spec.settings if name not in self.advanced.settings]
        if not self.recipe_note.problem:  # the settings of a missing recipe are unknown
            note = f"{note} {unknown_settings_note(unknown)}".strip()
        self.note.set_note(note)

    def copy_command(self) -> None:
        """Copy the equivalent command line to the clipboard."""
        if self._spec is not None:
            command = self._mode.command(self._spec)
            QGuiApplication.clipboard().setText(command)
            self.message.emit(self.tr("On the clipboard: {}").format(command))

    def show_runs(self, runs: Iterable[RunInfo]) -> None:
        """Show beside the devices which of `runs` use them."""
        self._active = [info for info in runs if not info.state.is_over]
        self._show_overlap()

    def show_problems(self, found: Iterable[Problem]) -> None:
        """Show each problem beside its field."""
        texts: dict[str, list[str]] = {}
        for problem in found:
            texts.setdefault(problem.field, []).append(problem.text)
        for name, widget in self._problem_widgets().items():
            widget.set_problem("\n".join(texts.pop(name, [])))
        self.note.set_problem("\n".join(text for group in texts.values() for text in group))
        wrong = self.advanced.open_problems()
        if wrong and not self.advanced_button.isChecked():
            self.advanced_button.setChecked(True)
            self._scroll.scroll_to(wrong)

    def start(self) -> None:
        """Request to start or continue the run if the spec has no problems."""
        self._check()
        if self._spec is None:
            return
        if isinstance(self._mode, Continuation):
            self._continuation_requested = True
            self.continue_requested.emit(self._mode.request(self._spec))
        else:
            self.start_requested.emit(self._spec)

    def _set_mode(self, mode: FormMode) -> None:
        before, self._mode, self._continuation_requested = self._mode, mode, False
        if isinstance(before, Continuation) and not isinstance(mode, Continuation):
            self._forget_copy()
        self.heading.show_mode(mode)
        self.start_button.setText(mode.start_text)
        self.recipe.setEnabled(not isinstance(mode, Continuation))
        self._check()

    def _forget_copy(self) -> None:
        """Show the settings of the recipe's file, which a new run trains, and not of a copy."""
        settings, copy = self.advanced.settings, self.recipe.recipe()
        recipe = self.recipe.read_again()
        if recipe.fields == copy.fields:
            return
        entered = {name: field.value_or_default() for name, field in settings.items()}
        self.advanced.show_settings(recipe.fields)
        for name in entered.keys() & self.advanced.settings.keys():
            self.advanced.settings[name].set_value(entered[name])

    def _fields(self) -> Mapping[str, Field]:
        """Return all fields of the spec, in their order."""
        return {name: self._main_fields.get(name) or self.advanced.fields[name] for name in FIELDS}

    def _problem_widgets(self) -> Mapping[str, Field | FieldNote | DeviceChoice]:
        """Return the widget that shows the problems of each field of the spec."""
        settings = {f"settings.{name}": field for name, field in self.advanced.settings.items()}
        return {
            "recipe": self.recipe_note,
            "strategy": self.strategy_note,
            "devices": self.devices,
            **self._fields(),
            **settings,
        }

    def _recipe_chosen(self) -> None:
        recipe = self.recipe.recipe()
        self.recipe.setToolTip(plain_tip(recipe.doc or recipe.path))
        for name, field in self._main_fields.items():
            field.set_value(getattr(recipe, name))
        self.advanced.show_settings(recipe.fields)
        self._check()

    def _check(self) -> None:
        """Find the problems, show them beside the fields, and set the spec if there are none."""
        recipe, devices = self.recipe.recipe(), self.devices.devices()
        self.strategy.offer(recipe, devices)
        strategy, fields = self.strategy.strategy(), self._fields()
        entry = (fields, self.advanced.settings, recipe, strategy, devices, self._mode.name)
        apply_refusals(fields, strategy, self._mode, entered_spec(*entry)[0])
        spec, found = entered_spec(*entry)
        found += problems(spec, recipe, strategy, self.devices.known_gpus)
        wrong = {problem.field for problem in found}  # do not report an invalid value twice
        found += [each for each in self._mode.problems(spec) if each.field not in wrong]
        replicas = strategy.replicas(spec.slots) if devices else 0
        arithmetic = batch_arithmetic(spec.batch_size, replicas, spec.accumulation)
        self._main_fields["batch_size"].set_note(arithmetic)
        self._spec = None if found else spec
        self._show_overlap()
        self.start_button.setEnabled(not found)
        self.heading.set_spec(self._spec)
        self.advanced.show_changes()
        self.show_problems(found)
        kind = kind_for(strategy.framework, recipe.framework)
        self._set_template(None if spec.cold_start else kind)

    def _set_template(self, template: TemplateKind | None) -> None:
        if self.template is not template:
            self.template = template
            self.template_changed.emit(template)

    def _focus_moved(self, before: QWidget | None, now: QWidget | None) -> None:
        is_inside = now is not None and self.isAncestorOf(now)
        if is_inside and not (before is not None and self.isAncestorOf(before)):
            self.entered.emit()

    def _show_overlap(self) -> None:
        devices = self.devices
        devices.set_overlap(
            overlap(self._spec, self._active, devices.display_name) if self._spec else ""
        )

    def _lay_out(self) -> None:
        rows = form_rows()
        recipe, strategy = Label(self.tr("&Recipe")), Label(self.tr("&Strategy"))
        recipe.setBuddy(self.recipe)
        strategy.setBuddy(self.strategy)
        align([recipe, strategy, self.devices.label])
        rows.addRow(recipe, stack(self.recipe, self.recipe_note))
        rows.addRow(strategy, stack(self.strategy, self.strategy_note))
        rows.addRow(self.devices)
        buttons = QHBoxLayout()
        buttons.addWidget(self.start_button, 1)
        buttons.addWidget(self.advanced_button)
        content = QWidget()
        self._content_layout = inside = QVBoxLayout(content)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(4)
        inside.addLayout(rows)
        inside.addLayout(side_by_side(self._main_fields.values()))
        inside.addWidget(self.note)
        inside.addWidget(self.advanced)
        self._scroll = FittingScroll(content)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 4, 10, 7)
        layout.setSpacing(4)
        layout.addWidget(self.heading)
        layout.addWidget(self._scroll, 1)
        layout.addLayout(buttons)

    def _show_advanced(self, shown: bool) -> None:
        """Show or hide the part Advanced; while it is shown, the form scrolls."""
        self.advanced.setVisible(shown)
        self._content_layout.setContentsMargins(0, 0, 4 if shown else 0, 0)  # beside the scroll bar
        self._scroll.set_min_height(_LEAST_HEIGHT if shown else None)
