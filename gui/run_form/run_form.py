"""The run form: recipe or script, strategy, devices and settings; problems are at their fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QLocale, Qt, QTime, Signal
from PySide6.QtGui import QEnterEvent, QGuiApplication
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QFrame,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_info import RunInfo
from engine.spec.device_names import all_on_cpu
from engine.spec.field_info import Setting
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec, batch_arithmetic
from engine.spec.script_spec import resumes_by_calls
from engine.spec.strategy import Strategy
from engine.spec.validation import Problem, problems
from engine.templates.kinds import TemplateKind, kind_for
from gui.bridge.environments import WorkerChecks, package_of
from gui.bridge.files.editor import Place
from gui.bridge.files.file_watch import FileWatch
from gui.bridge.files.gpu_builds import build_problems
from gui.bridge.files.recent_forms import RecentForms
from gui.bridge.files.recipes import read_recipe, read_run_recipe
from gui.bridge.files.run_recipes import NotForTheForm, origin_of, settings_here
from gui.bridge.files.script_files import (
    fitting_strategy,
    name_of_run,
    script_problems,
    shown_command,
)
from gui.bridge.machines.environments_there import EnvironmentsThere
from gui.bridge.machines.machines import is_elsewhere, place_of
from gui.run_form.advanced_fields import AdvancedFields, form_rows
from gui.run_form.button_row import ButtonRow
from gui.run_form.choices import RecipeChoice, ScriptChoice, StrategyChoice
from gui.run_form.devices.device_choice import DeviceChoice
from gui.run_form.devices.device_conflicts import measured_overlap, overlap
from gui.run_form.environment.environment_row import EnvironmentRow
from gui.run_form.form_layout import OutlinedNote, ShowsProblem, align, beside, side_by_side
from gui.run_form.form_mode import Continuation, FormMode, NewRun
from gui.run_form.heading import FormHeading
from gui.run_form.machine_choice import MachineChoice
from gui.run_form.name_row import NameRow
from gui.run_form.notice_area import NoticeArea
from gui.run_form.planning_row import PlanningRow
from gui.run_form.preset_menu import adapt_preset, unknown_settings_note
from gui.run_form.script.command_view import CommandView
from gui.run_form.script.script_page import ScriptPage
from gui.run_form.spec_entry import apply_refusals, entered_spec
from gui.widgets.boxes import column_of
from gui.widgets.entry_fields import Field, FieldNote
from gui.widgets.icon_button import IconButton
from gui.widgets.layouts.fitting_scroll import FittingScroll
from gui.widgets.plain_text import Label, plain_tip, set_wrapped_tip
from gui.widgets.steady_button import SteadyButton

_MAIN_FIELDS = ("batch_size", "epochs", "steps", "learning_rate")
"""The fields of a spec that matter in every run; recipes have defaults for them."""

_LEAST_HEIGHT = 120
"""Minimum height of the fields in logical pixels, while the part Advanced is open."""

_LINE = re.compile(r"\bline (\d+)")
"""The line of the file that a problem of a recipe names."""


class RunForm(QFrame):
    """Edits a RunSpec; the start button is enabled while the spec has no problems."""

    start_requested = Signal(object, tuple)
    """RunSpec and tags of a new run."""

    continue_requested = Signal(object)
    """ResumeRequest of a run that continues with the settings in the form."""

    sweep_requested = Signal(object, object)
    """RunSpec and RecipeInfo, from which the user wants to make a sweep."""

    message = Signal(str)
    """A sentence for the status bar."""

    template_changed = Signal(object)
    """The form needs another template: the new value of `template`."""

    edit_clicked = Signal(object)
    """Place in the recipe, to be opened in an editor."""

    entered = Signal()
    """The mouse or the keyboard has come into the form: the user may start a run soon."""

    spec_changed = Signal(object)
    """The form has another RunSpec, or None: it has problems."""

    def __init__(
        self,
        parent: QWidget | None = None,
        recent: RecentForms | None = None,
        environments_there: EnvironmentsThere | None = None,
    ) -> None:
        """`recent`: what was in the form for files of the user; None: nothing is remembered.
        `environments_there`: asks other machines for their Pythons; None: none is asked."""
        super().__init__(parent)
        self._recent: RecentForms | None = None  # until the form shows what is remembered
        self._is_filling = False
        """Whether a spec is being shown: its values are not to be replaced by remembered ones."""

        self._entered: RunSpec | None = None
        """What is in the form; a value that is not valid has its default."""

        self.setObjectName("card")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.recipe = RecipeChoice()
        self.script = ScriptChoice()
        self._source = QStackedWidget()
        for choice in (self.recipe, self.script):
            self._source.addWidget(choice)
        self.recipe_note = FieldNote()
        self.edit_button = IconButton("pencil", "Open in editor", "")
        self.strategy = StrategyChoice()
        self.strategy_note = FieldNote()
        self._environments_there = environments_there or EnvironmentsThere(parent=self)
        self.environment = EnvironmentRow(self._environments_there)
        self.environment_button = IconButton("gear", "Environment", "")
        self.environment_button.setCheckable(True)
        self.machine = MachineChoice()
        self._worker_checks = WorkerChecks()
        self.devices = DeviceChoice()
        self.name_row = NameRow()
        self.advanced = AdvancedFields(
            info for name, info in FIELDS.items() if name not in _MAIN_FIELDS
        )
        self._main_fields = {name: Field(FIELDS[name]) for name in _MAIN_FIELDS}
        self.command = CommandView()
        self.script_page = ScriptPage(self.command.arguments)
        self.note = FieldNote()
        """Problems of no field, or a note about a loaded preset."""

        self._mode: FormMode = NewRun()
        self._continuation_requested = self._start_requested = False
        self.heading = FormHeading()
        self.heading.show_mode(self._mode)
        self.start_button = SteadyButton((self._mode.start_text,), "")
        self.start_button.setObjectName("go")
        self.start_button.setProperty("pictured", True)
        self.advanced_button = SteadyButton(("Advanced", "Options"), "")
        self.advanced_button.setCheckable(True)
        self.sweep_button = SteadyButton(("Sweep…",), "")
        set_wrapped_tip(self.sweep_button, "Train many runs with other settings, and find the best")
        self.presets, self.copy_button = self.heading.presets, self.heading.copy_button
        self.planning = PlanningRow()
        self.preflight_button = SteadyButton(
            ("Preflight",), "Trains the first steps, and says what would fail and what is slow"
        )
        self._spec: RunSpec | None = None
        self.template: TemplateKind | None = None
        """The kind of template whose workers train with these settings; None: they start cold."""

        self._found: list[Problem] = []
        """The problems of what is in the form."""

        self._active: list[RunInfo] = []
        self._measured: tuple[str, tuple[str, ...]] = ("", ())
        """A machine, and its devices on which something is measured."""

        self._watch = FileWatch(self)
        self._described = self.recipe.recipe()
        """The recipe whose settings are shown; the file may have a problem since."""

        self._lay_out()
        self.recipe.chosen.connect(self._recipe_chosen)
        self.script.chosen.connect(self._script_chosen)
        for choice in (self.recipe, self.script):
            choice.open_requested.connect(self.open_file)
        self.heading.kind.chosen.connect(self._show_kind)
        self.script_page.changed.connect(self._check)
        self.strategy.currentIndexChanged.connect(self._check)
        self.environment.changed.connect(self._check)
        self.environment_button.toggled.connect(self._show_environment)
        self.environment.message.connect(self.message)
        self._environments_there.checked.connect(self._check)
        self._environments_there.listed.connect(self._list_for_script)
        self.devices.changed.connect(self._check)
        self.machine.chosen.connect(self._machine_chosen)
        for field in self._main_fields.values():
            field.changed.connect(self._check)
        self.advanced.changed.connect(self._check)
        self.name_row.changed.connect(self._check)
        self.start_button.clicked.connect(self.start)
        self.sweep_button.clicked.connect(self.request_sweep)
        self.planning.sweep.triggered.connect(self.request_sweep)
        self.advanced_button.toggled.connect(self._show_advanced)
        self.preflight_button.clicked.connect(self.planning.preflight.trigger)
        self.planning.set_display(self.devices.display_name)
        self.presets.loaded.connect(self.load_preset)
        self.presets.done.connect(self.message)
        self.presets.failed.connect(lambda sentence: self.note.set_note(f"⚠ {sentence}"))
        self.copy_button.clicked.connect(self.copy_command)
        self.heading.mode_changed.connect(self._set_mode)
        self.edit_button.clicked.connect(self._edit)
        self._watch.changed.connect(self._file_changed)
        self.entered.connect(self._watch.check)
        self.entered.connect(self._environments_there.ask_again)
        if isinstance(app := QApplication.instance(), QApplication):
            app.focusChanged.connect(self._focus_moved)
        self._show_kind(False)
        self._recipe_chosen()
        if recent is not None:
            self._offer(recent)

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.entered.emit()

    def spec(self) -> RunSpec | None:
        """Return the spec in the form, or None while it has problems."""
        return self._spec

    def field(self, name: str) -> Field:
        """Return the entry field of a field of the spec, or of the setting `settings.<name>`."""
        prefix, dot, setting = name.partition(".")
        if prefix == "options":
            return self.script_page.options.fields[setting]
        return self.advanced.settings[setting] if dot else self._fields()[prefix]

    @property
    def is_script(self) -> bool:
        """Whether the form is for a script, and not for a recipe."""
        return self.heading.kind.script.isChecked()

    @property
    def _is_new_run(self) -> bool:
        return not isinstance(self._mode, Continuation)

    @property
    def goes_on_elsewhere(self) -> bool:
        """Whether the form is for a run of another machine that goes on there."""
        return isinstance(self._mode, Continuation) and is_elsewhere(self._mode.info)

    def remember(self) -> None:
        """Remember what is in the form for this recipe or script."""
        if self._recent is not None and self._entered and not isinstance(self._mode, Continuation):
            tags, spec = ", ".join(self.name_row.entered_tags()), self._entered
            if self.machine.machine:
                spec = replace(spec, interpreter="")  # it is one of that machine
            self._recent.remember(spec, tags, self.machine.machine or self.machine.wanted)

    def open_file(self) -> None:
        """Let the user choose a file; one that is no recipe is shown as a script."""
        known = self.source().path
        start = str(Path(known).parent) if known and not self.source().builtin else ""
        title = "Open a script" if self.is_script else "Open a recipe or a script"
        filters = "Python files (*.py);;All files (*)"
        path, _ = QFileDialog.getOpenFileName(self, title, start or str(Path.home()), filters)
        if path:
            self.open_path(path)

    def open_path(self, path: str) -> None:
        """Show the file `path`: as a script if the form is for one, or if it is no recipe."""
        self._set_mode(NewRun())
        if self.is_script or not path.endswith(".py") or read_recipe(path).is_script:
            self.heading.kind.script.setChecked(True)
            self.script.choose(path)
            self.advanced_button.setChecked(bool(self.script_page.options.options))
        else:
            self.recipe.choose(path)

    def load(self, spec: RunSpec, machine: str | None = None, note: str = "") -> None:
        """Fill the form with `spec`, for a new run on a machine (None: the one that is chosen), and
        say `note` about its recipe."""
        self._remember_before()
        self._set_mode(NewRun())
        if machine is not None:
            self.machine.choose(machine)
        self._fill_of(machine or "", spec)
        self.recipe_note.set_note(note)

    def continue_run(
        self,
        info: RunInfo,
        checkpoint: CheckpointInfo | None,
        recipe: RecipeInfo | None = None,
        *,
        as_new: bool = False,
    ) -> None:
        """Fill the form with the settings of a run and with its `recipe`, to continue it from
        `checkpoint`; None: from the beginning. `as_new`: a new run is to go on from there."""
        recipe = recipe or read_run_recipe(info)
        self._remember_before()
        self._set_mode(NewRun())  # remove the fixed values of another run
        self.machine.choose(place_of(info.id)[0])
        self._fill(info.spec, recipe)
        self._set_mode(Continuation(info, checkpoint, recipe, as_new=as_new))
        first = self.command.arguments if info.spec.is_script else self._main_fields["epochs"]
        first.widget.setFocus()

    def run_started(self, run_id: str) -> None:
        """Leave the mode Continuation if its run is the one that has started; forget the name of a
        new run that the form has started."""
        if self._start_requested or self._continuation_requested:  # a double click starts one run
            self.start_button.let_settle(keys=True, clicks=True)
        mode = self._mode
        if isinstance(mode, Continuation) and mode.was_started_as(
            run_id, requested=self._continuation_requested
        ):
            self._set_mode(NewRun())
        if self._start_requested:
            self._start_requested = False
            self.name_row.take_back_name()

    def _fill(
        self, spec: RunSpec, recipe: RecipeInfo | None = None, *, is_known: bool = False
    ) -> None:
        """Show `spec`; `is_known`: as what is remembered for a file, for a new run."""
        self._is_filling = True
        kind = self.heading.kind
        try:
            (kind.script if spec.is_script else kind.recipe).setChecked(True)
            if spec.is_script:
                self.script.choose(spec.recipe, recipe)
                self.script_page.load(spec)
            else:
                self.recipe.choose(spec.recipe, recipe)
        finally:
            self._is_filling = False
        if spec.devices != self.devices.devices():
            self.devices.set_devices(spec.devices)
        self.strategy.choose(spec.strategy)
        if not spec.is_script:
            show = self.environment.choose_known if is_known else self.environment.choose
            show(package_of(self.strategy.strategy()), spec.interpreter)
        # The page of recipes keeps its values while a script is shown.
        kept = _MAIN_FIELDS if spec.is_script else ()
        for name, field in self._fields().items():
            if name not in kept:
                field.set_value(getattr(spec, name))
        for name, value in spec.settings.items():
            if name in self.advanced.settings:
                self.advanced.settings[name].set_value(value)
        self._check()

    def load_preset(self, spec: RunSpec) -> None:
        """Fill the form with `spec` adapted to this machine, and show which values it ignored."""
        devices = self.devices
        spec, note = adapt_preset(
            spec, devices.devices(), devices.known_gpus, self.strategy.all_names()
        )
        self.load(spec)
        unknown = [name for name in spec.settings if name not in self.advanced.settings]
        if not self.recipe_note.problem:  # the settings of a missing recipe are unknown
            note = f"{note} {unknown_settings_note(unknown)}".strip()
        self.note.set_note(note)

    def copy_command(self) -> None:
        """Copy the equivalent command line to the clipboard."""
        if self._spec is not None:
            tags, machine = self.name_row.entered_tags(), self.machine.machine
            command = self._mode.command(self._spec, tags, machine)
            QGuiApplication.clipboard().setText(command)
            self.message.emit(f"On the clipboard: {command}")

    def show_runs(self, runs: Iterable[RunInfo]) -> None:
        """Show beside the devices which of `runs` use them; offer the tags of `runs`."""
        runs = list(runs)
        self._active = [info for info in runs if not info.state.is_over]
        tags = {tag for info in runs for tag in info.notes.tags}
        self.name_row.set_known_tags(sorted(tags, key=str.casefold))
        self._show_overlap()

    def show_measured(self, devices: Sequence[str], machine: str = "") -> None:
        """Warn of a measurement on `devices` of a machine; none: nothing is measured."""
        self._measured = (machine, tuple(devices))
        self._show_overlap()

    def show_problems(self, found: Iterable[Problem]) -> None:
        """Show each problem beside its field."""
        texts: dict[str, list[str]] = {}
        for problem in found:
            texts.setdefault(problem.field, []).append(problem.text)
        for name, widget in self._problem_widgets().items():
            widget.set_problem("\n".join(texts.pop(name, [])))
        self.note.set_problem("\n".join(text for group in texts.values() for text in group))
        wrong = self.script_page.open_problems() if self.is_script else None
        wrong = wrong or self.advanced.open_problems()
        if wrong and not self.advanced_button.isChecked():
            self.advanced_button.setChecked(True)
            self._scroll.scroll_to(wrong)

    def start(self) -> None:
        """Request to start or continue the run if the spec has no problems."""
        self._check()
        if self._spec is None:
            self._show_first_problem()
            return
        self.remember()
        if isinstance(self._mode, Continuation):
            self._continuation_requested = True
            self.continue_requested.emit(self._mode.request(self._spec))
        else:
            self._start_requested = True
            self.start_requested.emit(self._spec, self.name_row.entered_tags())

    def request_sweep(self) -> None:
        """Request a sweep over what is in the form, if that has no problems."""
        self._check()
        if refusal := self._sweep_refusal():
            self.message.emit(refusal)
        elif self._spec is None:
            self._show_first_problem()
        else:
            self.sweep_requested.emit(self._spec, self.source())

    def _sweep_refusal(self) -> str:
        """Return why there can be no sweep of what the form is for; empty: there can."""
        if self.is_script:
            return "Scripts cannot be swept: choose a recipe."
        if not self._is_new_run:
            return "A sweep trains new runs: choose New run instead."
        return ""

    def _show_first_problem(self) -> None:
        """Say why nothing starts, and go to the field at fault."""
        problem = self._found[0]
        self.message.emit(f"Not started: {problem.text}")
        at_fault = self._problem_widgets().get(problem.field)
        if isinstance(at_fault, Field):
            at_fault.widget.setFocus(Qt.FocusReason.OtherFocusReason)
        elif isinstance(at_fault, OutlinedNote):
            at_fault.set_focus()

    def _set_mode(self, mode: FormMode) -> None:
        before, self._mode, self._continuation_requested = self._mode, mode, False
        if isinstance(before, Continuation) and not isinstance(mode, Continuation):
            self._forget_copy(before)
        self.machine.setEnabled(not isinstance(mode, Continuation))
        self._lock_script_page()
        self.heading.show_mode(mode)
        self.start_button.setText(mode.start_text)
        self._source.setEnabled(not isinstance(mode, Continuation))
        self._rows_below.setRowVisible(self.name_row, self._is_new_run)
        self.offer_machines(self.machine.connections)  # one that is gone stays for a continuation
        self._check()

    def offer_machines(self, connections: Mapping[str, bool]) -> None:
        """Offer other machines to start a run on, by name: whether the connection stands now."""
        before, machine = self.machine.problem, self.machine.machine
        self.machine.offer(connections)
        self._rows.setRowVisible(self.machine, self.machine.has_choice)
        if self.machine.problem != before:
            self._check()
        if machine and not self.machine.machine:  # a run must not start here unnoticed
            self.message.emit(f"{machine} is disconnected: the form is for this machine now.")

    def _machine_chosen(self) -> None:
        self.devices.forget()
        self.environment.set_machine(self.machine.machine)
        self._lock_script_page()
        self._check()

    def _list_for_script(self) -> None:
        self._lock_script_page()
        self._check()

    def _lock_script_page(self) -> None:
        if isinstance(self._mode, Continuation) and self.goes_on_elsewhere:
            self.script_page.hold(self._mode.info.spec, self.machine.machine)
        else:
            there, machine = self._environments_there, self.machine.machine
            problem = there.problem if machine else ""
            self.script_page.set_machine(machine, there.environments or (), problem)

    def _forget_copy(self, mode: Continuation) -> None:
        """Show the settings of the recipe's file, which a new run trains, and not of a copy.

        The file of another machine is not here: a new run trains the copy.
        """
        if is_elsewhere(mode.info):
            self._take_copy(mode)
            return
        if self.is_script:
            self.script.read_again()
            self._show_source()
            return
        settings, recipe = self.advanced.settings, self.recipe.read_again()
        if recipe.fields != self._described.fields:
            self._show_settings(recipe, {name: f.entered() for name, f in settings.items()})
        self._described = recipe
        self._watch_file()

    def _take_copy(self, mode: Continuation) -> None:
        choice = self.script if self.is_script else self.recipe
        try:
            spec = settings_here(self._entered or mode.info.spec, mode.recipe)
        except NotForTheForm as error:
            choice.forget(mode.recipe)
            self.message.emit(str(error))
            return
        if not mode.recipe.builtin:
            self._fill_of(place_of(mode.info.id)[0], spec)
            choice.forget(mode.recipe)
            self.recipe_note.set_note(origin_of(mode.info, mode.recipe))

    def _file_changed(self) -> None:
        """Show the recipe as its file is now, and say so; what the user has typed stays."""
        if self.is_script:
            recipe = self.script.read_again()
            gone = self.script_page.read_again(recipe)
        else:
            recipe = self.recipe.read_again()
            gone = self._show_again(recipe)
        self._check()
        time = QLocale().toString(QTime.currentTime(), QLocale.FormatType.ShortFormat)
        text = f"Changed on disk, and read again at {time}."
        if gone:
            names = ", ".join(gone)
            text = f"{text} It has no setting {names} any more."
        self.recipe_note.set_note(text)
        self.message.emit(f"{recipe.name} has changed on disk: {text}")

    def _show_again(self, recipe: RecipeInfo) -> list[str]:
        """Show the settings and defaults of `recipe` in place of those of an earlier state of it.

        Values that differ from the earlier defaults stay. Return the names of such values that
        `recipe` does not have. A recipe with a problem changes nothing: its file is being edited.
        """
        if recipe.problem:
            return []
        before, self._described = self._described, recipe
        for name in _MAIN_FIELDS:
            if self.field(name).value_or_default() == getattr(before, name):
                self.field(name).set_value(getattr(recipe, name))
        if recipe.fields == before.fields:
            return []
        changed = {name: f for name, f in self.advanced.settings.items() if f.is_changed}
        return self._show_settings(recipe, {name: f.entered() for name, f in changed.items()})

    def _show_settings(self, recipe: RecipeInfo, entered: Mapping[str, Setting]) -> list[str]:
        """Show the settings of `recipe` with what was `entered`; return the names that are gone."""
        types = {name: field.info.type for name, field in self.advanced.settings.items()}
        self.advanced.show_settings(recipe.fields)
        settings = self.advanced.settings
        gone = []
        for name, value in entered.items():
            if name in settings and settings[name].info.type == types[name]:
                settings[name].set_value(value)
            else:
                gone.append(name)
        return gone

    def _watch_file(self) -> None:
        recipe = self.source()
        is_own = recipe.path and not (recipe.builtin or recipe.copy)
        self._watch.watch(recipe.file if is_own else None)

    def _edit(self) -> None:
        recipe = self.source()
        found = _LINE.search(recipe.problem)
        self.edit_clicked.emit(Place(recipe.file, int(found[1]) if found else 0))

    def _fields(self) -> Mapping[str, Field]:
        """Return all fields of the spec, in their order."""
        return {name: self._main_fields.get(name) or self.advanced.fields[name] for name in FIELDS}

    def _problem_widgets(self) -> Mapping[str, ShowsProblem]:
        """Return the widget that shows the problems of each field of the spec."""
        settings = {f"settings.{name}": field for name, field in self.advanced.settings.items()}
        own = self.script_page.widgets() if self.is_script else settings
        return {
            "recipe": OutlinedNote(
                self.recipe_note, self.script if self.is_script else self.recipe
            ),
            "strategy": OutlinedNote(self.strategy_note, self.strategy),
            "devices": self.devices,
            "interpreter": self.environment,
            **self._fields(),
            **own,
        }

    def source(self) -> RecipeInfo:
        """Return the chosen recipe, or the chosen script."""
        return self.script.recipe() if self.is_script else self.recipe.recipe()

    def _remember_before(self) -> None:
        """Remember what was in the form, before another file is shown in it."""
        if not self._is_filling:
            self.remember()

    def _show_kind(self, is_script: bool) -> None:
        """Show the page for a script, or the one for a recipe."""
        self._remember_before()
        choice = self.script if is_script else self.recipe
        self._source.setCurrentWidget(choice)
        self._source.setFocusProxy(choice)
        self._source_label.setText("S&cript" if is_script else "&Recipe")
        self._source_label.setBuddy(choice)
        self._rows.setRowVisible(self.command, is_script)
        self._main.setVisible(not is_script)
        self.advanced_button.setText("Options" if is_script else "Advanced")
        self._offer_more()
        self._show_advanced(self.advanced_button.isChecked())
        self.recipe_note.set_note("")
        self._show_source()
        if not is_script:
            self._recall()  # a script has other values for what both pages share

    def _show_source(self) -> None:
        """Follow the file of the chosen recipe or script."""
        source = self.source()
        choice = self.script if self.is_script else self.recipe
        choice.setToolTip(plain_tip(source.doc or source.path))
        self.edit_button.setEnabled(bool(source.path))
        tip = f"Open {source.file} in an editor" if source.path else ""
        self.edit_button.setToolTip(plain_tip(tip))
        self._watch_file()
        self._check()

    def _offer(self, recent: RecentForms) -> None:
        """List the files that are remembered, and show the newest one; behind the page of a script
        stands the newest recipe."""
        self.recipe.remember(recent.files(is_script=False))
        self.script.remember(recent.files(is_script=True))
        self.name_row.tags.setText(recent.tags())
        self.machine.wanted = recent.machine()
        last = recent.last()
        before = recent.newest_recipe() if last is not None and last.is_script else None
        for spec in (before, last):
            if spec is not None and self._is_there(spec):
                self.devices.want(spec.devices)
                self._fill_known(spec)
        self._recent = recent

    def _is_there(self, spec: RunSpec) -> bool:
        """Whether the recipe of `spec` is a file, or built into this version."""
        return "/" in spec.recipe or self.recipe.findData(spec.recipe) >= 0

    def _recall(self) -> None:
        """Show what was in the form for the chosen file the last time, on the devices of now."""
        source = self.source()
        if self._recent is None or source.copy or self._is_filling or not source.path:
            return
        spec = self._recent.of(source.reference, is_script=self.is_script)
        if spec is not None:
            self._fill_known(replace(spec, devices=self.devices.devices()))

    def _fill_of(self, machine: str, spec: RunSpec) -> None:
        """Show `spec`, whose Python is one of `machine`, which need not be the chosen one."""
        if machine == self.machine.machine:
            self._fill(spec)
        else:
            self._fill(self._with_listed_python(spec), is_known=True)

    def _with_listed_python(self, spec: RunSpec) -> RunSpec:
        """Return `spec`, which may be one of another machine, with a Python of the chosen one."""
        choice = self.script_page.interpreter.choice if spec.is_script else self.environment
        return spec if choice.is_listed(spec.interpreter) else replace(spec, interpreter="")

    def _fill_known(self, spec: RunSpec) -> None:
        if self.machine.machine:
            spec = self._with_listed_python(spec)
        devices = self.devices
        spec, _ = adapt_preset(
            spec, devices.devices(), devices.known_gpus, self.strategy.all_names()
        )
        self._fill(spec, is_known=True)

    def _recipe_chosen(self) -> None:
        self._remember_before()
        recipe = self.recipe.recipe()
        for name in _MAIN_FIELDS:
            self.field(name).set_value(getattr(recipe, name))
        self._described = recipe
        self.advanced.show_settings(recipe.fields)
        self.recipe_note.set_note("")
        self._show_source()
        self._recall()

    def _script_chosen(self) -> None:
        self._remember_before()
        script = self.script.recipe()
        self.script_page.show_script(script)
        self.recipe_note.set_note("")
        if not script.problem and not self._is_filling:
            name = fitting_strategy(script, (script.path,), self.devices.devices())
            self.strategy.offer(script, self.devices.devices(), is_script=True)
            self.strategy.choose(name)
        self._show_source()
        self._recall()

    def _check(self) -> None:
        """Find the problems, show them beside the fields, and set the spec if there are none."""
        recipe, devices = self.source(), self.devices.devices()
        self.strategy.offer(recipe, devices, is_script=self.is_script)
        strategy, fields = self.strategy.strategy(), self._fields()
        settings = {} if self.is_script else self.advanced.settings
        name = self.name_row.entered_name() if self._is_new_run else self._mode.name
        entry = (fields, settings, recipe, strategy, devices, name)
        apply_refusals(fields, strategy, self._mode, entered_spec(*entry)[0], recipe)
        spec, found = entered_spec(*entry)
        if self.is_script:
            self.script_page.show_resuming(by_calls=resumes_by_calls(spec, recipe))
            spec = self.script_page.fill(spec, found)
            if recipe.path and not self.goes_on_elsewhere:  # the Traindeck there knows
                found += self._script_problems(spec, recipe)
        else:
            self.environment.follow(package_of(strategy))
            spec = replace(spec, interpreter=self.environment.interpreter())
            found += self._kind_problems(recipe)
            found += self._environment_problems(spec, recipe, strategy)
        shown = [name for name, each in fields.items() if not (self.is_script and each.refusal)]
        self.advanced.show_only(shown, is_script=self.is_script)
        given = self.devices.given
        found += problems(
            spec,
            recipe,
            strategy,
            self.devices.known_gpus,
            given.refusal,
            is_in_cluster=self.devices.is_in_cluster,
        )
        if not self.machine.machine:  # the Traindeck there knows
            found += build_problems(spec, strategy, found)
        if lost := self.devices.lost_machines():
            machines = ", ".join(lost)
            found.append(
                Problem(
                    "devices", f"{machines}: not in the cluster now. Choose other devices, or wait."
                )
            )
        if self.machine.problem:
            found.append(Problem("machine", self.machine.problem))
        wrong = {problem.field for problem in found}  # do not report an invalid value twice
        found += [each for each in self._mode.problems(spec) if each.field not in wrong]
        self._found = found
        self._describe(spec, strategy, bool(devices))
        before, self._spec = self._spec, None if found else spec
        self._entered = spec
        self._show_overlap()
        self.start_button.setEnabled(not found)
        self._offer_more()
        for offer in (self.sweep_button, self.planning.sweep):
            offer.setEnabled(not found and not self._sweep_refusal())
        self.name_row.show_default(name_of_run(recipe))
        self.heading.set_spec(self._spec)
        self.advanced.show_changes()
        self.script_page.show_changes()
        self.show_problems(found)
        self.devices.line.setHidden(bool(found))  # the problems take its place
        self._show_environment()
        is_cold = spec.cold_start or self.is_script or bool(spec.interpreter)
        self._set_template(None if is_cold else kind_for(strategy.framework, recipe.framework))
        if self._spec != before:
            self.spec_changed.emit(self._spec)

    def _show_environment(self) -> None:
        """Show the row of the environment where there is something to choose, or when asked."""
        is_shown = self.environment_button.isChecked() or self.environment.has_choice
        self._rows.setRowVisible(self.environment, is_shown and not self.is_script)
        text = f"Environment: {self.environment.combo.currentText()}"
        self.environment_button.setToolTip(plain_tip(text))
        self.environment_button.setEnabled(not self.environment.has_choice)
        self.environment_button.setVisible(not self.is_script)

    def _script_problems(self, spec: RunSpec, recipe: RecipeInfo) -> list[Problem]:
        """Return why the command cannot be started, or the Python there cannot start it."""
        if not (self.machine.machine and spec.interpreter):
            return script_problems(spec)
        found = script_problems(replace(spec, interpreter=""))
        if not (found or recipe.problem or self.machine.problem):
            found = self._environments_there.problems(spec, recipe)
        return found

    def _environment_problems(
        self, spec: RunSpec, recipe: RecipeInfo, strategy: Strategy
    ) -> list[Problem]:
        """Return why the chosen Python cannot train; offer a new environment where that helps."""
        if recipe.problem or self.machine.problem:  # each says enough
            found = []
        elif self.machine.machine:
            found = self._environments_there.problems(spec, recipe)
        else:
            found = self._worker_checks.problems(spec, recipe, strategy)
        on_gpus = bool(spec.devices) and not all_on_cpu(spec.devices)
        self.environment.set_offer(bool(found) and on_gpus and package_of(strategy) == "tensorflow")
        return found

    def _kind_problems(self, recipe: RecipeInfo) -> list[Problem]:
        """Return that the file of a recipe is none, in the words of this form."""
        if not recipe.is_script:
            return []
        text = (
            f"{recipe.name} has no model() and datasets(): choose Script above to run it as it is."
        )
        return [Problem("recipe", text)]

    def _describe(self, spec: RunSpec, strategy: Strategy, has_devices: bool) -> None:
        """Show how the devices share the work, and which command runs."""
        replicas = strategy.replicas(spec.slots) if has_devices else 0
        arithmetic = batch_arithmetic(spec.batch_size, replicas, spec.accumulation)
        is_told = not (self._found or self.is_script)  # problems take the place
        self._main_fields["batch_size"].set_note(arithmetic if is_told else "")
        note = ""
        if self.is_script:
            count = len(strategy.pool(spec.slots)) if has_devices else 0
            note = f"Starts {count} processes (ranks)."
            note = note if count > 1 and not self._found else ""
            self.command.show_words(shown_command(spec, spec.command))
        self.strategy_note.set_note(note)

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
        there = [info for info in self._active if place_of(info.id)[0] == self.machine.machine]
        lines = [overlap(self._spec, there, devices.display_name)] if self._spec else []
        machine, measured = self._measured
        if self._spec and machine == self.machine.machine:
            lines.append(measured_overlap(self._spec, measured, devices.display_name))
        devices.set_overlap("\n".join(filter(None, lines)))

    def _offer_more(self) -> None:
        """Offer what can be done with a recipe, and with a new run, beside its start."""
        self.planning.setVisible(not self.is_script)
        can_sweep = self._is_new_run and not self.is_script
        self._buttons.set_wanted(self.preflight_button, not self.is_script)
        self._buttons.set_wanted(self.sweep_button, can_sweep)
        self.planning.sweep.setVisible(can_sweep)

    def _lay_out(self) -> None:
        self._rows = rows = form_rows()
        self._source_label, strategy = Label("&Recipe"), Label("&Strategy")
        strategy.setBuddy(self.strategy)
        self._rows_below = below = form_rows()
        labels = [self._source_label, strategy, self.environment.label, self.devices.label]
        labels.append(self.machine.label)
        align([*labels, self.command.arguments.label, self.name_row.label])
        rows.addRow(self._source_label, beside(self._source, self.edit_button))
        rows.addRow(strategy, beside(self.strategy, self.environment_button))
        rows.addRow(self.machine.label, self.machine)
        rows.setRowVisible(self.machine, False)
        rows.addRow(self.environment.label, self.environment)
        rows.addRow(self.devices.caption, self.devices)
        rows.addRow(self.command)
        below.addRow(self.name_row.label, self.name_row)
        main = self._main_fields.values()
        self._notices = NoticeArea(
            (
                self.note, self.recipe_note, self.strategy_note, self.devices.problem_note,
                *(field.note_label for field in main), self.devices.line,
            )
        )  # fmt: skip
        self._main = QWidget()
        self._main.setLayout(side_by_side(main))
        self._buttons = ButtonRow(
            self.start_button, (self.preflight_button, self.sweep_button), self.advanced_button
        )
        content = QWidget()
        self._content_layout = inside = QVBoxLayout(content)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(3)
        inside.addLayout(rows)
        inside.addWidget(self._main)
        inside.addLayout(below)
        inside.addWidget(self.script_page)
        inside.addWidget(self.advanced)
        self._scroll = FittingScroll(content)
        column_of(
            self.heading,
            (self._scroll, 1),
            self.planning,
            self._notices,
            self._buttons,
            parent=self,
            margins=(10, 4, 10, 7),
            spacing=3,
        )

    def _show_advanced(self, shown: bool) -> None:
        """Show or hide the part Advanced; while it is shown, the form scrolls."""
        self.advanced.setVisible(shown)
        self.script_page.setVisible(shown and self.is_script)
        self._content_layout.setContentsMargins(0, 0, 4 if shown else 0, 0)  # beside the scroll bar
        self._scroll.set_min_height(_LEAST_HEIGHT if shown else None)
