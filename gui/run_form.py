"""The card NEW RUN: what to train, on what, and how; what is wrong stands beside its field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from engine import catalog
from engine.field_info import FieldInfo, Setting
from engine.problems import Problem, problems
from engine.spec import RunSpec, batch_arithmetic
from engine.telemetry.snapshot import Snapshot
from gui.choices import RecipeChoice, StrategyChoice
from gui.device_choice import DeviceChoice
from gui.fields import Below, Field

_DEFAULTS = RunSpec(recipe="", strategy="", devices=())
_NUMBERS = {
    "batch_size": FieldInfo(
        "The batch size",
        "int",
        _DEFAULTS.batch_size,
        doc="Global: samples per optimizer step over all devices together.",
    ),
    "epochs": FieldInfo(
        "The number of epochs", "int", _DEFAULTS.epochs, doc="Passes over the training data."
    ),
    "learning_rate": FieldInfo(
        "The learning rate",
        "float",
        _DEFAULTS.learning_rate,
        doc="Passed to the recipe's optimizer.",
    ),
    "seed": FieldInfo(
        "The seed",
        "int",
        _DEFAULTS.seed,
        doc="Decides the initial weights, the order of the samples and every random draw.",
    ),
}
_LABELS = {
    "batch_size": "&Batch size",
    "epochs": "&Epochs",
    "learning_rate": "&Learning rate",
    "seed": "See&d",
}


class RunForm(QFrame):
    """Asks for everything in a RunSpec, and lets it start only when nothing is wrong with it."""

    start_requested = Signal(object)
    """RunSpec."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.recipe = RecipeChoice()
        self._recipe_below = Below()
        self.strategy = StrategyChoice()
        self._strategy_below = Below()
        self.devices = DeviceChoice()
        self._numbers = {name: Field(field) for name, field in _NUMBERS.items()}
        self._settings: dict[str, Field] = {}
        self._below = Below()
        self.start_button = QPushButton("Start run")
        self.start_button.setObjectName("go")
        self._advanced_button = QPushButton("Advanced")
        self._advanced_button.setCheckable(True)
        self._advanced = QWidget()
        self._advanced.setVisible(False)
        self._spec: RunSpec | None = None
        self._lay_out()
        self.recipe.chosen.connect(self._recipe_chosen)
        self.strategy.currentIndexChanged.connect(self._check)
        self.devices.changed.connect(self._check)
        for field in self._numbers.values():
            field.changed.connect(self._check)
        self.start_button.clicked.connect(self.start)
        self._advanced_button.toggled.connect(self._advanced.setVisible)
        self._recipe_chosen()

    def spec(self) -> RunSpec | None:
        """What the form says, or None while something is wrong with it."""
        return self._spec

    @property
    def recipe_problem(self) -> str:
        """What is wrong with the recipe, or empty."""
        return self._recipe_below.problem

    @property
    def problem(self) -> str:
        """What is wrong with the run as a whole, or empty."""
        return self._below.problem

    def field(self, name: str) -> Field:
        """The field of a number in the spec, or of `settings.<name>` of the recipe."""
        prefix, dot, setting = name.partition(".")
        return self._settings[setting] if dot else self._numbers[prefix]

    def open_recipe(self) -> None:
        """Let the user choose a recipe file of their own."""
        self.recipe.open_file()

    def load(self, spec: RunSpec) -> None:
        """Fill the form with `spec`."""
        self.recipe.choose(spec.recipe)
        self.devices.set_devices(spec.devices)
        self.strategy.choose(spec.strategy)
        for name, field in self._numbers.items():
            field.set_value(getattr(spec, name))
        for name, value in spec.settings.items():
            if name in self._settings:
                self._settings[name].set_value(value)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Offer the GPUs that this machine has now."""
        self.devices.show_snapshot(snapshot)

    def show_problems(self, found: Iterable[Problem]) -> None:
        """Show why the engine did not start the run, each reason beside its field."""
        texts: dict[str, list[str]] = {}
        for problem in found:
            texts.setdefault(problem.field, []).append(problem.text)
        places = self._places()
        for name, place in places.items():
            place.set_problem("\n".join(texts.pop(name, [])))
        rest = [text for group in texts.values() for text in group]
        self._below.set_problem("\n".join(rest))
        if any(place.problem for place in (self._numbers["seed"], *self._settings.values())):
            self._advanced_button.setChecked(True)

    def start(self) -> None:
        """Ask for the run to be started, if nothing is wrong with it."""
        self._check()
        if self._spec is not None:
            self.start_requested.emit(self._spec)

    def _places(self) -> Mapping[str, Field | Below | DeviceChoice]:
        """Where the problems of each field of a spec are shown."""
        return {
            "recipe": self._recipe_below,
            "strategy": self._strategy_below,
            "devices": self.devices,
            **self._numbers,
            **{f"settings.{name}": field for name, field in self._settings.items()},
        }

    def _recipe_chosen(self) -> None:
        recipe = self.recipe.recipe()
        self.recipe.setToolTip(recipe.doc or recipe.path)
        for name in ("epochs", "batch_size", "learning_rate"):
            self._numbers[name].set_value(getattr(recipe, name))
        while self._advanced_rows.rowCount() > 1:  # the seed stays
            self._advanced_rows.removeRow(1)
        self._settings = {field.name: Field(field) for field in recipe.fields}
        for name, field in self._settings.items():
            self._advanced_rows.addRow(name.replace("_", " ").capitalize(), field)
            field.changed.connect(self._check)
        self._check()

    def _check(self) -> None:
        """Find what is wrong now, say it beside the fields, and make the spec if nothing is."""
        recipe, devices = self.recipe.recipe(), self.devices.devices()
        self.strategy.offer(recipe, devices)
        found: list[Problem] = []
        numbers = _values(self._numbers, "", found)
        settings = _values(self._settings, "settings.", found)
        changed = {
            field.name: settings[field.name]
            for field in recipe.fields
            if settings.get(field.name, field.default) != field.default
        }
        spec = RunSpec(
            recipe=recipe.reference,
            strategy=self.strategy.name(),
            devices=devices,
            settings=changed,
            **numbers,  # type: ignore[arg-type]  # each field parses to its own type
        )
        if spec.strategy:
            strategy = catalog.strategy(spec.strategy)
            found += problems(spec, recipe, strategy, self.devices.known_gpus)
            replicas = strategy.replicas(devices) if devices else 0
            self._numbers["batch_size"].set_note(batch_arithmetic(spec.batch_size, replicas))
        elif recipe.problem:
            found.append(Problem("recipe", recipe.problem))
        else:
            text = f"No strategy of this installation trains {recipe.framework} recipes."
            found.append(Problem("strategy", text))
        self._spec = None if found else spec
        self.start_button.setEnabled(not found)
        self.show_problems(found)

    def _lay_out(self) -> None:
        heading = QLabel("NEW RUN")
        heading.setObjectName("h")
        rows = _rows()
        rows.addRow("&Recipe", _stack(self.recipe, self._recipe_below))
        rows.addRow("&Strategy", _stack(self.strategy, self._strategy_below))
        rows.addRow("De&vices", self.devices)
        for name in ("batch_size", "epochs", "learning_rate"):
            rows.addRow(_LABELS[name], self._numbers[name])
        self._advanced_rows = _rows()
        self._advanced_rows.addRow(_LABELS["seed"], self._numbers["seed"])
        self._advanced.setLayout(self._advanced_rows)
        buttons = QHBoxLayout()
        buttons.addWidget(self.start_button, 1)
        buttons.addWidget(self._advanced_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 10)
        layout.setSpacing(6)
        layout.addWidget(heading)
        layout.addLayout(rows)
        layout.addWidget(self._below)
        layout.addLayout(buttons)
        layout.addWidget(self._advanced)


def _values(fields: Mapping[str, Field], prefix: str, found: list[Problem]) -> dict[str, Setting]:
    """What stands in `fields`; where that is no value, a problem instead."""
    values = {}
    for name, field in fields.items():
        try:
            values[name] = field.value()
        except ValueError as error:
            found.append(Problem(prefix + name, str(error)))
    return values


def _rows() -> QFormLayout:
    rows = QFormLayout()
    rows.setContentsMargins(0, 0, 0, 0)
    rows.setVerticalSpacing(6)
    rows.setHorizontalSpacing(10)
    rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return rows


def _stack(*widgets: QWidget) -> QWidget:
    """Widgets above each other, as one; the first takes the keys."""
    stack = QWidget()
    stack.setFocusProxy(widgets[0])
    layout = QVBoxLayout(stack)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(2)
    for widget in widgets:
        layout.addWidget(widget)
    return stack
