"""The dialog that starts a sweep: a range for any setting of the form, and how runs are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCompleter, QDialog, QLineEdit, QPushButton, QWidget

from engine.spec.device_names import is_logical_cpu
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.spec_fields import GROUPS
from engine.sweeps.proposal import OPTIONS, SweepOptions, parse_settings, propose
from engine.sweeps.ranges import CannotSweep, Choices, Interval, sweepable
from engine.sweeps.sweep import Sweep
from gui.run_form.advanced_fields import RECIPE, FieldGroup, form_rows
from gui.run_form.sweep.range_field import RangeField
from gui.widgets.boxes import STRETCH, column_of, row_of, scrolled
from gui.widgets.entry_fields import Field
from gui.widgets.layouts.fitting_scroll import FittingScroll
from gui.widgets.plain_text import Label

_SIZE = (860, 600)
_SIDE_WIDTH = 300


class SweepDialog(QDialog):
    """Says what is wrong, or what will be trained, while the user types."""

    start_wanted = Signal(object, str)
    """Sweep, and the machine on which it is to run; empty: this one."""

    def __init__(
        self,
        spec: RunSpec,
        recipe: RecipeInfo,
        device_name: Callable[[str], str],
        metrics: Iterable[str],
        machine: str,
        parent: QWidget,
    ) -> None:
        """`spec` is what is in the form; `metrics` are those that runs of this recipe have logged;
        `machine` is where the sweep will run, empty: here."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        title = f"Sweep of {recipe.name}"
        if machine:
            title = f"Sweep of {recipe.name} on {machine}"
        self.setWindowTitle(title)
        self.machine = machine
        self._spec, self._recipe, self._device_name = spec, recipe, device_name
        self._known = sweepable(recipe)
        self._sweep: Sweep | None = None
        self._place_problem = ""
        """Why nothing can start on the machine now, in a sentence; empty: it can."""

        own = {info.name: info.default for info in recipe.fields}
        self.ranges = {
            name: RangeField(
                info, spec.settings.get(name, own[name]) if name in own else getattr(spec, name)
            )
            for name, info in self._known.items()
        }
        """By the name of the setting."""

        self.options = {name: Field(info) for name, info in OPTIONS.items()}
        """By the name of the option of `SweepOptions`."""

        self._offer_metrics(metrics)
        self.plan = Label()
        """What will be trained, or why nothing can be."""

        self.plan.setWordWrap(True)
        self.start = QPushButton("Start sweep")
        self.start.setObjectName("go")
        self.start.setDefault(True)
        self.cancel = QPushButton("Cancel")
        self.cancel.setAutoDefault(False)
        self._groups: list[FieldGroup] = []
        self._lay_out()
        for each in self.ranges.values():
            each.changed.connect(self._check)
        for field in self.options.values():
            field.changed.connect(self._check)
        self.start.clicked.connect(self._start)
        self.cancel.clicked.connect(self.reject)
        self.resize(*_SIZE)
        self._check()
        self.ranges["learning_rate"].line.setFocus()

    def set_place_problem(self, sentence: str) -> None:
        """Say why nothing can start on the machine now; empty: it can again."""
        if sentence != self._place_problem:
            self._place_problem = sentence
            self._check()

    def show_refusal(self, sentence: str) -> None:
        """Say why the sweep was not started."""
        self._say(sentence, is_problem=True)

    def _check(self) -> None:
        """Show the problems beside their fields, and what the sweep would be."""
        self._sweep = None
        self._hold_grid()
        for group in self._groups:
            group.show_changes()
        values = self._option_values()
        wrong = [each for each in self.ranges.values() if each.problem]
        if values is None or wrong:
            self._say("Correct what is marked above.", is_problem=True)
            return
        options = SweepOptions(**values, whole_grid=True)  # type: ignore[arg-type]
        try:
            ranges, fixed = parse_settings(
                filter(None, (each.setting() for each in self.ranges.values())), self._known
            )
            self._sweep = propose(self._spec, self._recipe, ranges, fixed, options)
        except CannotSweep as error:
            is_empty = not any(each.is_changed for each in self.ranges.values())
            hint = "Give at least one setting a range or a list."
            self._say(hint if is_empty else str(error), is_problem=not is_empty)
            return
        if self._place_problem:
            self._sweep = None
            self._say(self._place_problem, is_problem=True)
            return
        self._say(self._plan_of(self._sweep), is_problem=False)

    def _option_values(self) -> dict[str, object] | None:
        """Return the options; None: one of them is not valid, which is shown beside it."""
        values: dict[str, object] = {}
        for name, field in self.options.items():
            problem = ""
            if field.refusal:  # a grid decides, which may be too large
                values[name] = field.info.default
                continue
            try:
                values[name] = value = field.value()
                problem = field.info.problem(value)
            except ValueError as error:
                problem = str(error)
            field.set_problem(problem)
            if problem:
                values.pop(name, None)
        return values if len(values) == len(self.options) else None

    def _hold_grid(self) -> None:
        """A grid has as many runs as combinations."""
        is_grid = self.options["sampler"].value() == "grid"
        reason = "A grid has as many runs as there are combinations."
        self.options["trials"].set_refusal(reason if is_grid else "", self._combinations())

    def _combinations(self) -> int:
        count = 1
        for each in self.ranges.values():
            if isinstance(each.value, Choices):
                count *= len(each.value.values)
            elif isinstance(each.value, Interval):
                count *= max(1, int(each.value.high - each.value.low) + 1)
        return count

    def _plan_of(self, sweep: Sweep) -> str:
        """Return what will be trained, in a sentence."""
        count = len(sweep.base.devices)
        if sweep.parallel == 1:
            how = "one at a time,"
        elif count > 1:
            how = f"{sweep.parallel:,} at a time:"
        else:
            how = f"{sweep.parallel:,} at a time, all"
        shared = range(sweep.parallel if count > 1 else 1)
        slots = (", ".join(map(self._named, sweep.devices_of(each))) for each in shared)
        devices = "; on ".join(slots)
        text = f"{sweep.trials:,} runs, {how} on {devices}."
        return f"On {self.machine}: {text}" if self.machine else text

    def _named(self, device: str) -> str:
        name = self._device_name(device)
        return name.replace("cpu:", "CPU ") if is_logical_cpu(device) else name

    def _say(self, sentence: str, *, is_problem: bool) -> None:
        self.plan.setObjectName("problem" if is_problem else "")
        self.plan.style().polish(self.plan)
        self.plan.setText(sentence)
        self._enable_start(self._sweep is not None)

    def _enable_start(self, is_possible: bool) -> None:
        """Let the focus wait for the button: Qt would give it to a heading, which is next."""
        if not is_possible and self.focusWidget() is self.start:
            self.start.clearFocus()
        self.start.setEnabled(is_possible)
        if is_possible and self.focusWidget() is None:
            self.start.setFocus()

    def _start(self) -> None:
        if self._sweep is not None:
            self._say("Starting the sweep…", is_problem=False)
            self._enable_start(False)
            self.start_wanted.emit(self._sweep, self.machine)

    def _offer_metrics(self, metrics: Iterable[str]) -> None:
        line = self.options["metric"].widget
        assert isinstance(line, QLineEdit)
        completer = QCompleter(sorted(set(metrics)), self)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        line.setCompleter(completer)

    def _lay_out(self) -> None:
        about = Label(
            "1e-4..1e-1:log, 0..0.5 or 0..4 is a range; 16,32,64 is a list. What is left empty "
            "is as in the form.",
            objectName="note",
            wordWrap=True,
        )
        settings = QWidget()
        settings.setObjectName("content")
        rows = column_of(parent=settings, margins=(0, 0, 8, 0), spacing=4)
        for title, names in self._titled_groups():
            group = FieldGroup(title)
            self._groups.append(group)
            for name in names:
                group.add(name, self.ranges[name])
            group.heading.setChecked(len(self._groups) <= 3)
            rows.addWidget(group)
        rows.addStretch(1)
        scroll = scrolled(settings, sideways=False)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        how = QWidget()
        side = form_rows()
        side.setVerticalSpacing(8)
        how.setLayout(side)
        for field in self.options.values():
            side.addRow(field.label, field)
        heading = Label("HOW RUNS ARE CHOSEN", objectName="h")
        right = QWidget()
        right.setFixedWidth(_SIDE_WIDTH)
        column_of(heading, FittingScroll(how, 120), STRETCH, parent=right, margins=0, spacing=8)
        columns = row_of((scroll, 1), right, spacing=18)
        buttons = row_of((self.plan, 1), self.cancel, self.start)
        column_of(about, (columns, 1), buttons, parent=self, spacing=10)

    def _titled_groups(self) -> list[tuple[str, list[str]]]:
        """Return the names of the settings under the headings that the form has, too."""
        own = [info.name for info in self._recipe.fields]
        groups = {RECIPE: own} if own else {}
        for title in GROUPS:
            fields = [name for name in self.ranges if name not in own]
            groups[title] = [name for name in fields if FIELDS[name].group == title]
        order = sorted(groups, key=lambda title: title != GROUPS[0])  # what matters in every run
        return [(title, groups[title]) for title in order if groups[title]]
