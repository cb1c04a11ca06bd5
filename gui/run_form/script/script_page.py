"""The page of the run form for a script: its options, arguments, environment and resuming."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from engine.environments.registry import Environment
from engine.scripts.options import resume_suggestion
from engine.spec.field_info import FieldInfo
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.bridge.files.script_files import script_options
from gui.run_form.advanced_fields import FieldGroup
from gui.run_form.script.command import program_of, split_command
from gui.run_form.script.environment_fields import FolderField, InterpreterField
from gui.run_form.script.option_fields import PREFIX, OptionFields
from gui.run_form.script.variables import VariablesField
from gui.widgets.boxes import column_of
from gui.widgets.entry_fields import Field, FieldNote

ARGUMENTS = FieldInfo(
    "command", "str", "",
    doc="Further arguments of the command, as in a shell.",
    label="Arguments",
)  # fmt: skip
"""The line for further words of the command."""

_WORKING_FOLDER = FieldInfo(
    "working_folder", "str", "",
    doc="Where the command runs. Empty: the folder of the script.",
    label="Working folder",
)  # fmt: skip
_INTERPRETER = FieldInfo(
    "interpreter", "str", "",
    doc="The Python that runs the script, with its own packages.",
    label="Python",
)  # fmt: skip
_RESUME_ARGUMENTS = FieldInfo(
    "resume_arguments", "str", "",
    doc="What Resume adds to the command, such as --resume {latest}. {latest} is the newest "
        "checkpoint that the script itself has written. Empty: it starts from the beginning.",
    label="Resume arguments",
)  # fmt: skip
_OUTPUT_FIGURES = FieldInfo(
    "output_figures", "bool", True,
    doc="Metrics such as `loss: 0.12` are read from printed lines, unless the script logs them "
        "in another way.",
    label="Parse metrics from output",
)  # fmt: skip


class ScriptPage(QWidget):
    """All that a run of a script has and a run of a recipe has not."""

    changed = Signal()

    def __init__(self, arguments: Field, parent: QWidget | None = None) -> None:
        """`arguments`: the line for further words, which the form shows elsewhere."""
        super().__init__(parent)
        self.arguments = arguments
        self._program: tuple[str, ...] = ()
        self._program_of: tuple[str, str] = ("", "")
        """Script and working folder that `_program` names."""

        self._loaded: tuple[object, tuple[str, ...]] | None = None
        """What was entered when a command was shown, and this command."""

        self._script = ""
        self.options = OptionFields()
        self.environment = FieldGroup("Environment", is_wide=True)
        self.after = FieldGroup("Resume and metrics", is_wide=True)
        self.working_folder = FolderField(_WORKING_FOLDER)
        self.interpreter = InterpreterField(_INTERPRETER)
        self.variables = VariablesField()
        self.resume_arguments = Field(_RESUME_ARGUMENTS)
        self.output_figures = Field(_OUTPUT_FIGURES)
        self.environment.add("interpreter", self.interpreter)
        self.environment.add("working_folder", self.working_folder)
        self.environment.add("variables", self.variables)
        self.after.add("resume_arguments", self.resume_arguments)
        self.after.add("output_figures", self.output_figures)
        column_of(*self.groups(), parent=self, margins=0, spacing=4)
        self.options.heading.setChecked(True)
        self.environment.heading.setChecked(True)
        self.options.changed.connect(self.changed)
        self.variables.changed.connect(self.changed)
        for field in (
            self.arguments, self.working_folder, self.interpreter, self.resume_arguments,
            self.output_figures,
        ):  # fmt: skip
            field.changed.connect(self.changed)

    def groups(self) -> tuple[FieldGroup, ...]:
        """Return the groups of fields, in their order."""
        return self.options, self.environment, self.after

    def widgets(self) -> dict[str, Field | FieldNote | VariablesField]:
        """Return the widget that shows the problems of each field."""
        options = {PREFIX + name: field for name, field in self.options.fields.items()}
        return {
            "command": self.arguments,
            "working_folder": self.working_folder,
            "interpreter": self.interpreter,
            "variables": self.variables,
            "resume_arguments": self.resume_arguments,
            "output_figures": self.output_figures,
            **options,
        }

    def show_script(self, recipe: RecipeInfo) -> None:
        """Show another script, with the defaults of its options."""
        self._script = recipe.path
        self._loaded = None
        self._program_of = ("", "")
        self.options.show_options(script_options(str(recipe.file)), {})
        self.arguments.set_value("")
        self.variables.set_variables({}, ())
        for field in (self.working_folder, self.output_figures):
            field.set_value(field.info.default)
        self.resume_arguments.set_value(resume_suggestion(self.options.options))
        self.interpreter.choice.set_by_user(False)
        self._show_place(recipe)

    def read_again(self, recipe: RecipeInfo) -> list[str]:
        """Show the options that the changed source declares; return the names that are gone.

        What the user has entered stays.
        """
        entered = self.options.entered()
        before = {option.name: option for option in self.options.options}
        options = script_options(recipe.path)
        if not options and recipe.path.endswith(".py") and entered:
            return []  # it is being edited, and cannot be read
        kept = {
            option.name: entered[option.name]
            for option in options
            if option.name in entered and before[option.name].type == option.type
        }
        if options != self.options.options:
            self.options.show_options(options, kept)
            self._loaded = None
        return [before[name].title for name in entered if name not in kept]

    def load(self, spec: RunSpec) -> None:
        """Show the command and the environment of `spec`, whose script is shown."""
        self.working_folder.set_value(spec.working_folder)
        self.interpreter.set_value(spec.interpreter)
        self.variables.set_variables(spec.variables, spec.secret_variables, spec.stored_variables)
        self.resume_arguments.set_value(spec.resume_arguments)
        self.output_figures.set_value(spec.output_figures)
        program, words = split_command(spec.command)
        rest = self.options.read_words(self.options.options, words)
        self.arguments.set_value(shlex.join(rest))
        self._program, self._program_of = program, (spec.recipe, spec.working_folder)
        self._loaded = (self._entered(), spec.command)

    def fill(self, spec: RunSpec, found: list[Problem]) -> RunSpec:
        """Return `spec` with the values of this page; add the problems of the fields to `found`."""
        folder = str(self.working_folder.value_or_default()).strip()
        if problem := self.variables.entry_problem():
            found.append(Problem("variables", problem))
        variables = self.variables.variables()
        values = {
            "command": self._command(folder, found),
            "working_folder": folder,
            "interpreter": self.interpreter.choice.interpreter(),
            "variables": variables,
            "stored_variables": self.variables.stored_names(),
            "secret_variables": self.variables.secret_names(),
            "resume_arguments": str(self.resume_arguments.value_or_default()),
            "output_figures": bool(self.output_figures.value_or_default()),
        }
        return replace(spec, **values)

    def show_changes(self) -> None:
        """Show in each heading how many of its fields differ from their defaults."""
        for group in self.groups():
            group.show_changes()

    def open_problems(self) -> QWidget | None:
        """Unfold the groups with problems; return the first field with a problem, or None."""
        first = None
        for group in self.groups():
            field = group.first_problem()
            if field is not None:
                group.heading.setChecked(True)
                first = first or field
        return first

    def set_machine(self, machine: str, found: Sequence[Environment], problem: str = "") -> None:
        """List the Pythons that a machine has `found`, or why it has none, and lock what has no
        meaning there; an empty name: the script runs on this machine."""
        self.interpreter.set_refusal("")
        self.interpreter.choice.go_to(machine, found)
        self.interpreter.set_note(f"⚠ {problem}" if problem else "")
        folder = f"The script runs in the folder of {machine} to which it is sent."
        self.working_folder.set_refusal(folder if machine else "")

    def hold(self, spec: RunSpec, machine: str) -> None:
        """Lock what does not change while a run of another machine goes on there."""
        text = f"The run goes on there, on {machine}."
        self.interpreter.set_refusal(text, spec.interpreter)
        self.working_folder.set_refusal(text, spec.working_folder)

    def show_resuming(self, *, by_calls: bool) -> None:
        """Enable the arguments of a resume where the script decides how it goes on."""
        text = "The script uses the calls of the module traindeck: it goes on exactly where it was."
        self.resume_arguments.set_refusal(text if by_calls else "")

    def _show_place(self, recipe: RecipeInfo) -> None:
        self.working_folder.set_empty_text(str(Path(recipe.path).parent) if recipe.path else "")
        self.interpreter.choice.offer(recipe.path)

    def _command(self, folder: str, found: list[Problem]) -> tuple[str, ...]:
        words = self.options.words(found)
        try:
            rest = shlex.split(str(self.arguments.value_or_default()))
        except ValueError:
            text = "The arguments have a quotation mark without its partner."
            found.append(Problem("command", text))
            rest = []
        if self._loaded is not None and self._loaded[0] == self._entered():
            return self._loaded[1]  # also in its order of words
        if self._program_of != (self._script, folder):
            self._program = program_of(self._script, folder) if self._script else ()
            self._program_of = (self._script, folder)
        return (*self._program, *words, *rest)

    def _entered(self) -> object:
        folder = str(self.working_folder.value_or_default()).strip()
        return self._script, folder, self.options.entered(), self.arguments.entered()
