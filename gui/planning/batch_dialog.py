"""The dialog Find batch size: each size that was tried, and what the form could have."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QHeaderView, QProgressBar, QPushButton, QSpinBox, QWidget

from engine.doctor.finding import Change
from engine.planning.results import BatchSearch, Doing, Tried
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.system import units
from gui.devices.device_tables import FactTable
from gui.planning.findings import is_about, is_done
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.plain_text import Label, set_wrapped_tip

MOST_MIB = 2**24
"""Of the memory limit."""


class BatchDialog(QDialog):
    """Stays beside the window; the search ends when it is closed."""

    search_wanted = Signal()
    stop_wanted = Signal()
    change_clicked = Signal(object)
    """The Change that the user wants in the form."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._tried: dict[int, Tried] = {}
        self._changes: list[tuple[Change, QPushButton]] = []
        self._spec: RunSpec | None = None
        self._searched: RunSpec | None = None
        self._machine = self._form_machine = ""
        """Where it is searched, and the machine of the form; empty: this one."""

        self._is_running = self._has_answer = False
        self.setWindowTitle("Find batch size")
        self.text = Label(wordWrap=True)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setRange(0, 0)
        self.progress.setAccessibleName("The search goes on")
        captions = ("Batch size", "Result", "Samples/s")
        self.table = FactTable((*captions, "Memory"), "Sizes that were tried")
        header = self.table.header()  # a reason is long: the column ends it with dots
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self.run = QPushButton()
        self.run.setAutoDefault(False)
        self.run.clicked.connect(self._toggle)
        self.limit = QSpinBox()
        self.limit.setRange(0, MOST_MIB)
        self.limit.setSingleStep(256)
        self.limit.setSuffix(" MiB")
        self.limit.setSpecialValueText("what is free")
        set_wrapped_tip(
            self.limit, "The memory that all workers on CPUs may hold together, in the next search."
        )
        self._limit_row = QWidget()
        limit = row_of(parent=self._limit_row, margins=0)
        label = Label("&Memory limit")
        label.setBuddy(self.limit)
        limit.addWidget(label)
        limit.addWidget(self.limit)
        limit.addStretch(1)
        close = QPushButton("Close")
        close.setAutoDefault(False)
        close.clicked.connect(self.close)
        self._buttons = row_of(self.run, STRETCH, close)
        column_of(
            self.text,
            self.progress,
            self.table,
            STRETCH,
            self._limit_row,
            self._buttons,
            parent=self,
            margins=(18, 14, 18, 14),
            spacing=10,
        )
        self.resize(520, 420)
        self.finished.connect(lambda _: self.stop_wanted.emit())

    def limit_for(self, spec: RunSpec) -> int:
        """Return the memory for a search with `spec` in MiB; 0: what its devices have free."""
        return self.limit.value() if all_on_cpu(spec.devices) else 0

    def begin(self, spec: RunSpec, machine: str = "") -> None:
        """A search with `spec` begins on a machine: forget the one before."""
        self._searched, self._machine = spec, machine
        self.setWindowTitle(f"Find batch size on {machine}" if machine else "Find batch size")
        self._limit_row.setVisible(all_on_cpu(spec.devices))
        self._tried.clear()
        for _, button in self._changes:
            self._buttons.removeWidget(button)
            button.deleteLater()
        self._changes.clear()
        self._is_running, self._has_answer = True, False
        self._say("The search begins…")
        self._show()

    def show_doing(self, doing: Doing) -> None:
        """Say what is tried now."""
        self._say(doing.text)

    def add(self, tried: Tried) -> None:
        """Show one more size that was tried."""
        self._tried[tried.batch_size] = tried
        self._show()

    def show_search(self, search: BatchSearch) -> None:
        """Show all that was found, and offer it to the form."""
        self._has_answer = True
        self._tried = {each.batch_size: each for each in search.tried}
        self._say(search.problem or search.text, is_problem=bool(search.problem))
        for change in _changes(search):
            button = QPushButton(change.label)
            button.setAutoDefault(False)
            button.clicked.connect(lambda _, change=change: self.change_clicked.emit(change))
            self._buttons.insertWidget(self._buttons.count() - 1, button)
            self._changes.append((change, button))
        self._show()
        self.show_spec(self._spec, self._form_machine)

    def show_refusal(self, text: str) -> None:
        """Say why nothing was tried."""
        self._has_answer = True
        self._say(text, is_problem=True)

    def end(self) -> None:
        """The search is over."""
        if self._is_running:
            self._is_running = False
            if not self._has_answer:
                self._say("The search was stopped.")
            self._show()

    def show_spec(self, spec: RunSpec | None, machine: str = "") -> None:
        """Follow the form: which of the buttons are done, or are not for what it has."""
        self._spec, self._form_machine = spec, machine
        is_of_form = machine == self._machine and is_about(self._searched, (), spec)
        other = "The form has another machine, recipe, strategy or devices than this search."
        for change, button in self._changes:
            done = is_of_form and is_done(change, spec)
            button.setEnabled(is_of_form and not done)
            button.setText("✓ In the form" if done else change.label)
            set_wrapped_tip(button, "" if is_of_form else other)

    def _toggle(self) -> None:
        if self._is_running:
            self.stop_wanted.emit()
        else:
            self.search_wanted.emit()

    def _say(self, text: str, *, is_problem: bool = False) -> None:
        self.text.setText(f"⚠ {text}" if is_problem else text)
        self.text.setObjectName("problem" if is_problem else "")
        self.text.style().polish(self.text)

    def _show(self) -> None:
        self.run.setText("Stop" if self._is_running else "Search again")
        self.progress.setVisible(self._is_running)
        rows, tips = [], []
        for size, tried in sorted(self._tried.items()):
            fits = "✓ fits" if tried.fits else "✕ does not fit"
            if tried.is_failure:
                fits = f"✕ fails: {tried.problem}"
            rate = f"{tried.samples_per_second:,.0f}" if tried.samples_per_second else "–"
            memory = units.gib(tried.memory, 2) if tried.memory else "–"
            rows.append((f"{size:,}", fits, rate, memory))
            tips.append(tried.problem)
        self.table.show_rows(rows, tips)


def _changes(search: BatchSearch) -> list[Change]:
    """Return what the search proposes, and the fastest and the largest size unless that is it."""
    found = list(search.changes or filter(None, (search.change,)))
    taken = {change.fields.get("batch_size") for change in found}
    for size in (search.fastest, search.largest):
        if size and size not in taken:
            taken.add(size)
            found.append(Change(f"Use {size:,}", {"batch_size": size}))
    return found
