"""What a preflight has found: a line for each finding, with the button of what would help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton

from engine.doctor.finding import MARKS, Change, Finding, Level
from engine.planning.results import Preflight
from engine.spec.run_spec import RunSpec
from engine.system import units
from gui.doctor.finding_row import FindingRow
from gui.planning import race_text
from gui.planning.figures import FigureCharts
from gui.planning.race_text import DisplayName
from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, plain_tip, set_wrapped_tip

_ORDER: Mapping[Level, int] = {level: place for place, level in enumerate(MARKS)}


def is_done(change: Change, spec: RunSpec | None) -> bool:
    """Whether the form has the values of `change` already."""
    if spec is None:
        return False
    values = _plain(spec)
    return all(values.get(name) == value for name, value in _plain(change.fields).items())


def is_about(measured: RunSpec | None, changes: Iterable[Change], spec: RunSpec | None) -> bool:
    """Whether what was measured with one spec says something about the form with another: recipe,
    strategy and devices are the same, but for what `changes` advise."""
    if measured is None or spec is None:
        return True
    before, now = _plain(measured), _plain(spec)
    advised = [_plain(change.fields) for change in changes]
    return all(
        now[name] == before[name] or any(fields.get(name) == now[name] for fields in advised)
        for name in ("recipe", "strategy", "devices")
    )


def _plain(values: object) -> dict[str, object]:
    """Return values as they are in a file, where a tuple is a list."""
    found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(values))
    return found


class FixableRow(FindingRow):
    """A finding with a button that does what it advises."""

    change_clicked = Signal(object)
    """The Change that the user wants in the form."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.text.setObjectName("mut" if finding.level == "ok" else "ttl")
        self.button: QPushButton | None = None
        if finding.change is not None:
            self.button = QPushButton(finding.change.label)
            self.button.setObjectName("low")
            self.button.clicked.connect(lambda: self.change_clicked.emit(finding.change))
            self.row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)

    def show_spec(self, spec: RunSpec | None, *, is_of_form: bool) -> None:
        """Let the button say whether the form has its values; grey what is not about the form."""
        self.setEnabled(is_of_form)
        name = "ttl" if is_of_form and self.finding.level != "ok" else "mut"
        if self.text.objectName() != name:
            self.text.setObjectName(name)
            self.text.style().polish(self.text)
        change, button = self.finding.change, self.button
        if change is None or button is None:
            return
        done = is_done(change, spec)
        button.setEnabled(not done)
        button.setText("✓ In the form" if done else change.label)
        button.setAccessibleName(f"{change.label}: {button.text()}" if done else "")
        tip = f"The form has it: {change.label}" if done else f"In the form: {change.label}"
        set_wrapped_tip(button, tip)


class FindingsCard(QFrame):
    """All findings, the worst ones first, with pictures of the figures behind them."""

    preflight_clicked = Signal()
    stop_clicked = Signal()
    changes_clicked = Signal(list)
    """list[Change]: what the user wants in the form."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")
        self.rows: list[FixableRow] = []
        self._spec: RunSpec | None = None
        self._measured: RunSpec | None = None
        """What the shown findings are about; None: nothing is shown."""

        self._machine = self._form_machine = ""
        """Where they were found, and the machine of the form; empty: this one."""

        self._is_about_form = True
        self._display: DisplayName = str
        self._is_running = False
        self._preflight: Preflight | None = None
        title = Label("PREFLIGHT FINDINGS", objectName="h")
        self.facts = ElidedLabel(objectName="note")
        self.facts.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.fix = QPushButton()
        self.fix.setObjectName("low")
        self.fix.clicked.connect(self._fix)
        self.again = QPushButton()
        self.again.setObjectName("low")
        self.again.clicked.connect(self._toggle)
        self.about = ElidedLabel(objectName="note")
        self.other = Label(
            "⚠ The form has another machine, recipe, strategy or devices: these findings are "
            "not about it. A preflight tries what it has.",
            objectName="note",
            wordWrap=True,
        )
        self.other.setProperty("tone", "warning")
        self.note = Label(objectName="note", wordWrap=True)
        self.figures = FigureCharts()
        top = row_of(title, (self.facts, 1), self.fix, self.again, spacing=8)
        self._column = column_of(spacing=0)
        column_of(
            top,
            self.about,
            self.other,
            self.note,
            self._column,
            self.figures,
            parent=self,
            margins=(12, 8, 12, 10),
            spacing=4,
        )
        self._show_facts()
        self._show_note("")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown of a preflight, and none is made."""
        return not (self.rows or self._preflight or self._is_running)

    @property
    def machine(self) -> str:
        """Where the shown findings were found; empty: on this machine."""
        return self._machine

    def begin(self, spec: RunSpec, machine: str = "") -> None:
        """A preflight of `spec` begins on a machine: forget the one before."""
        self._is_running, self._machine = True, machine
        self._clear(spec)

    def end(self) -> None:
        """No preflight is made any more."""
        self._is_running = False
        self.again.setText(self._again_text())

    def set_display(self, display: DisplayName) -> None:
        """Set what devices are called."""
        self._display = display
        self._show_about()

    def _clear(self, measured: RunSpec) -> None:
        self._preflight, self._measured = None, measured
        for row in self.rows:
            self._column.removeWidget(row)
            row.setParent(None)
            row.deleteLater()
        self.rows.clear()
        self.figures.show_figures({})
        self._show_facts()

    def show_doing(self, text: str) -> None:
        """Say what is measured now."""
        self._show_note(text)

    def show_problem(self, text: str) -> None:
        """Say why there is no result."""
        self._show_note(text, is_problem=True)

    def add(self, finding: Finding) -> None:
        """Show one more finding."""
        row = FixableRow(finding)
        row.change_clicked.connect(lambda change: self.changes_clicked.emit([change]))
        place = sum(_ORDER[each.finding.level] <= _ORDER[finding.level] for each in self.rows)
        self.rows.insert(place, row)
        self._column.insertWidget(place, row)
        self._show_facts()

    def show_preflight(self, preflight: Preflight, machine: str = "") -> None:
        """Show all that a preflight on a machine has found."""
        self._machine = machine
        if [row.finding for row in self.rows] != sorted(preflight.findings, key=_level_order):
            self._clear(preflight.spec)
            for finding in preflight.findings:
                self.add(finding)
        self._preflight, self._measured = preflight, preflight.spec
        self.figures.show_figures(preflight.figures)
        self._show_note("")
        self._show_facts()

    def show_spec(self, spec: RunSpec | None, machine: str = "") -> None:
        """Follow the form: which findings are dealt with, and whether they are about it."""
        self._spec, self._form_machine = spec, machine
        self._show_about()

    def changes(self) -> list[Change]:
        """Return what can be fixed by the form, and is not."""
        return [change for change in self._fixable() if not is_done(change, self._spec)]

    def _fixable(self) -> list[Change]:
        """Return what the form can fix; of two changes that contradict, that of the worse one."""
        found: list[Change] = []
        taken: set[str] = set()
        for row in self.rows:
            change = row.finding.change
            if change is None or row.finding.level == "ok" or taken & change.fields.keys():
                continue
            taken |= change.fields.keys()
            found.append(change)
        return found

    def _show_about(self) -> None:
        """Say what the findings are about; no button puts them into a form for something else."""
        measured = self._measured
        text = race_text.subject(measured, self._display, self._machine) if measured else ""
        self.about.setText(text)
        set_wrapped_tip(self.about, text)
        self.about.setVisible(bool(text))
        advised = [row.finding.change for row in self.rows if row.finding.change]
        is_there = measured is None or self._machine == self._form_machine
        if measured is None or self._spec is not None:  # of a form with problems, it is as before
            self._is_about_form = is_about(measured, advised, self._spec)
        is_of_form = is_there and self._is_about_form
        self.other.setVisible(not is_of_form)
        for row in self.rows:
            row.show_spec(self._spec, is_of_form=is_of_form)
        self.figures.setEnabled(is_of_form)
        self._show_fix(is_of_form=is_of_form)

    def _fix(self) -> None:
        self.changes_clicked.emit(self.changes())

    def _toggle(self) -> None:
        if self._is_running:
            self.stop_clicked.emit()
        else:
            self.preflight_clicked.emit()

    def _again_text(self) -> str:
        if self._is_running:
            return "Stop preflight"
        return "Preflight again" if self._preflight else "Preflight"

    def _show_note(self, text: str, *, is_problem: bool = False) -> None:
        empty = (
            "A preflight trains the first steps with the settings of the form, and says what would "
            "fail, what is slow, and what to change. It takes about a minute."
        )
        is_empty = self.is_empty and not text
        self.note.setText(empty if is_empty else f"⚠ {text}" if is_problem else text)
        self.note.setProperty("tone", "bad" if is_problem else "")
        self.note.style().polish(self.note)
        self.note.setVisible(bool(self.note.text()))

    def _show_facts(self) -> None:
        counts = dict.fromkeys(_ORDER, 0)
        for row in self.rows:
            counts[row.finding.level] += 1
        texts = [counted(level, counts[level]) for level in ("error", "warning", "hint")]
        preflight = self._preflight
        if self.rows and not any(texts):
            texts = ["nothing to change"]
        if preflight is not None and preflight.expected_seconds:
            length = units.short_duration(preflight.expected_seconds)
            text = f"the whole run: about {length}"
            if preflight.expected_wh:
                text += f", {preflight.expected_wh:,.0f} Wh"
            texts.append(text)
        text = " · ".join(filter(None, texts))
        self.facts.setText(text)
        self.facts.setToolTip(plain_tip(text))
        self.again.setText(self._again_text())
        self._show_about()

    def _show_fix(self, *, is_of_form: bool) -> None:
        left, count = self.changes(), len(self._fixable())
        self.fix.setVisible(bool(count))
        self.fix.setEnabled(is_of_form and bool(left))
        self.fix.setText(f"Fix {len(left)} of {count}" if left else "✓ In the form")
        names = "\n".join(change.label for change in left)
        set_wrapped_tip(self.fix, names or "Nothing is left that the form can fix.")


def counted(level: Level, count: int) -> str:
    """Return such as `2 warnings`; empty: there are none, or these are in order."""
    if not count or level == "ok":
        return ""
    return f"1 {level}" if count == 1 else f"{count} {level}s"


def _level_order(finding: Finding) -> int:
    return _ORDER[finding.level]
