"""The bar that says what is raced: strategies, batch sizes, precisions, devices, and steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from engine.spec.run_spec import FIELDS, RunSpec
from gui.widgets.boxes import row_of
from gui.widgets.entry_fields import Combo, show_fault
from gui.widgets.layouts.flow_layout import FlowLayout
from gui.widgets.plain_text import Label, set_wrapped_tip

_STEPS = 60
_LEAST_STEPS, _MOST_STEPS = 5, 10_000
_WIDE, _SHORT = 116, 56
"""Logical pixels: the widths of the fields."""

T = TypeVar("T", int, str)


class RaceChoice(NamedTuple):
    """What is raced; an empty part has the value of the form."""

    all_strategies: bool = True
    """All that can run with the other values, or only the one of the form."""

    batch_sizes: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    device_counts: tuple[int, ...] = ()
    """Of each number, the first devices of the form."""

    steps: int = _STEPS
    problem: str = ""
    """What is wrong with an entry, in a sentence; empty: nothing."""


class RaceChoiceBar(QWidget):
    """Fields side by side, in as many lines as they need."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.strategies = Combo()
        self.strategies.addItems(["All that can run", "That of the form"])
        self.strategies.setFixedWidth(150)
        self.batch_sizes, self.precisions = QLineEdit(), QLineEdit()
        self.device_counts, self.steps = QLineEdit(), QLineEdit(str(_STEPS))
        flow = FlowLayout(self, gap=10)
        lists = "One or several, with commas; empty: that of the form."
        numbers = (
            "Numbers of devices, with commas: the first ones of the form. Empty: all of the form."
        )
        for text, field, width, tip in (
            ("Strategies", self.strategies, 150, ""),
            ("Batch sizes", self.batch_sizes, _WIDE, lists),
            ("Precisions", self.precisions, _WIDE, lists),
            ("Numbers of devices", self.device_counts, _SHORT, numbers),
            ("Steps", self.steps, _SHORT, "That each of them is measured."),
        ):
            field.setAccessibleName(text)
            field.setFixedWidth(width)
            set_wrapped_tip(field, tip)
            flow.addWidget(_labelled(text, field))
        self.strategies.currentIndexChanged.connect(lambda _: self.changed.emit())
        for line in self._lines:
            line.textChanged.connect(lambda _: self._check())

    @property
    def _lines(self) -> tuple[QLineEdit, ...]:
        return self.batch_sizes, self.precisions, self.device_counts, self.steps

    def show_spec(self, spec: RunSpec | None) -> None:
        """Show the values of the form where nothing is entered; None: it has problems."""
        self.batch_sizes.setPlaceholderText(str(spec.batch_size) if spec else "")
        self.precisions.setPlaceholderText(spec.precision if spec else "")
        self.device_counts.setPlaceholderText(str(len(spec.devices)) if spec else "")

    def choice(self) -> RaceChoice:
        """Return what is entered."""
        problems: list[str] = []

        def read(line: QLineEdit, parse: Callable[[str], T]) -> tuple[T, ...]:
            try:
                words = (word.strip() for word in line.text().split(","))
                found = tuple(dict.fromkeys(parse(word) for word in words if word))
                problem = ""
            except ValueError as error:
                found, problem = (), str(error)
            show_fault(line, problem)
            if problem:
                problems.append(problem)
            return found

        steps = read(self.steps, self._steps)
        return RaceChoice(
            self.strategies.currentIndex() == 0,
            read(self.batch_sizes, _batch_size),
            read(self.precisions, _precision),
            read(self.device_counts, self._device_count),
            steps[0] if steps else _STEPS,
            problems[0] if problems else "",
        )

    def _check(self) -> None:
        self.choice()
        self.changed.emit()

    def _steps(self, text: str) -> int:
        least, most = _LEAST_STEPS, _MOST_STEPS
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"Steps must be a number from {least} to {most:,}.")
        return int(text)

    def _device_count(self, text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise ValueError("Numbers of devices are such as 1, 2, 4.")
        return int(text)


def _batch_size(text: str) -> int:
    value = FIELDS["batch_size"].parse(text)
    if problem := FIELDS["batch_size"].problem(value):
        raise ValueError(problem)
    return int(value)


def _precision(text: str) -> str:
    return str(FIELDS["precision"].parse(text))


def _labelled(text: str, field: QWidget) -> QWidget:
    part = QWidget()
    label = Label(text, objectName="note")
    label.setBuddy(field)
    row_of(label, field, parent=part, margins=0, spacing=6)
    return part
