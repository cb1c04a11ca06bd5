"""The page Race: which strategy is the fastest here, and what a preflight has found."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QProgressBar, QPushButton, QWidget

from engine.planning.requests import AskRace
from engine.planning.results import Doing, Entry, Race
from engine.spec.run_spec import RunSpec
from engine.system import units
from gui.planning import race_text
from gui.planning.findings import FindingsCard
from gui.planning.race_choice import RaceChoiceBar
from gui.planning.race_table import RaceTable
from gui.planning.race_text import DisplayName
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, plain_tip, set_wrapped_tip

_BUTTONS_BESIDE = 700
"""Width from which on the buttons stand beside the title, in logical pixels."""


class RacePage(QWidget):
    """Shows a race while it is measured; what is chosen goes into the form."""

    race_clicked = Signal()
    stop_clicked = Signal()
    spec_chosen = Signal(object)
    """The RunSpec of an entry, for the form."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[bytes, Entry] = {}
        self._request: AskRace | None = None
        self._race: Race | None = None
        self._doing: Doing | None = None
        self._is_running = False
        self._form_spec: RunSpec | None = None
        self.machine = self._form_machine = ""
        """Where what is shown was raced, and the machine of the form; empty: this one."""

        self._display: DisplayName = str
        self._refusal = ""
        self.title = Label("Strategy race", objectName="welcome")
        self.facts = ElidedLabel(objectName="note")
        self.again = QPushButton()
        self.stop = QPushButton("Stop")
        self.use = QPushButton()
        self.use.setObjectName("go")
        self.choice = RaceChoiceBar()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the race")
        self.doing = Label(objectName="note", wordWrap=True)
        self.table = RaceTable()
        self.detail = Label(objectName="note", wordWrap=True)
        self.findings = FindingsCard()
        self.begin = QPushButton()
        self.begin.setObjectName("go")
        self._lay_out()
        self.again.clicked.connect(self.race_clicked)
        self.begin.clicked.connect(self.race_clicked)
        self.stop.clicked.connect(self.stop_clicked)
        self.use.clicked.connect(self._use)
        self.table.chosen.connect(lambda entry: self.spec_chosen.emit(entry.spec))
        self.table.current_changed.connect(lambda _: self._show_chosen())
        self._show_all()

    def show_request(self, request: AskRace) -> None:
        """A race begins: forget the one before."""
        self._request, self._race, self._doing = request, None, None
        self.machine = request.machine
        self._entries.clear()
        self._refusal = ""
        self._is_running = True
        self.table.show_entries(())
        self._show_all()

    def show_doing(self, doing: Doing) -> None:
        """Say what is measured now."""
        self._doing = doing
        self._show_state()

    def add(self, entry: Entry) -> None:
        """Show one more entry, or new figures of one."""
        self._entries[_key(entry)] = entry
        self.table.show_entries(self._entries.values())
        self._show_all()

    def show_race(self, race: Race, machine: str = "") -> None:
        """Show all that a race on a machine has found."""
        self._race, self.machine = race, machine
        self._entries = {_key(entry): entry for entry in race.entries}
        self.table.show_entries(race.entries)
        self._show_all()

    def show_refusal(self, text: str) -> None:
        """Say why nothing is raced."""
        self._refusal = text
        self._show_all()

    def end(self) -> None:
        """Nothing is raced any more."""
        if self._is_running:
            self._is_running, self._doing = False, None
            self._show_all()

    def show_spec(self, spec: RunSpec | None, machine: str = "") -> None:
        """Follow the form; None: it has problems. `machine`: the one that is chosen there."""
        self._form_spec, self._form_machine = spec, machine
        self.choice.show_spec(spec)
        self.findings.show_spec(spec, machine)
        self._show_use()

    def show_count(self, count: int, why_not: str) -> None:
        """Offer a race of `count` entries, or say `why_not`."""
        text = f"Race {count} entries"
        text = "Race 1 entry" if count == 1 else text
        text = f"{text} {race_text.place(self._form_machine)}".rstrip()
        for button in (self.again, self.begin):
            button.setEnabled(not why_not)
            set_wrapped_tip(button, why_not or text)
        self.begin.setText("Race" if why_not else text)
        self.why_not.setText(why_not)
        self.why_not.setVisible(bool(why_not))

    def set_devices(self, totals: Mapping[str, float], display: DisplayName) -> None:
        """Set the memory of the devices of a race, in bytes, and what they are called."""
        self._display = display
        self.table.set_devices(totals, display)
        self._show_state()
        self._show_chosen()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is shown of a race, and none is measured."""
        return not (self._entries or self._is_running)

    @property
    def running_text(self) -> str:
        """How far the race is, such as `3/8`; empty: none is measured."""
        if not self._is_running:
            return ""
        done, of = (self._doing.done, self._doing.of) if self._doing else (0, 0)
        return f"{done}/{of}" if of else "…"

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the buttons beside the title, or below it where there is no room."""
        super().resizeEvent(event)
        self._place_buttons()

    def _show_all(self) -> None:
        self._empty.setVisible(self.is_empty)
        self._table_card.setVisible(not self.is_empty)
        self._show_state()
        self._show_chosen()

    def _show_state(self) -> None:
        running, doing = self._is_running, self._doing
        has_entries = bool(self._entries)
        self.again.setText("Race again")
        self.again.setVisible(has_entries and not running)
        self.stop.setVisible(running)
        self.progress.setVisible(running)
        if running:
            self.progress.setRange(0, doing.of if doing else 0)
            self.progress.setValue(doing.done if doing else 0)
        now = race_text.doing_text(doing) if doing else "The race begins…"
        texts = [now] if running else []
        if self._race is not None:
            texts += self._race.notices
            if self._race.is_stopped:
                texts.append("It was stopped: entries may be missing.")
        warnings = [f"⚠ {self._refusal}"] if self._refusal else []
        self.doing.setText(" ".join([*warnings, *texts]))
        self.doing.setProperty("tone", "warning" if warnings else "")
        self.doing.style().polish(self.doing)
        self.doing.setVisible(bool(self.doing.text()))
        facts = self._facts()
        self.facts.setText(facts)
        self.facts.setToolTip(plain_tip(facts))

    def _facts(self) -> str:
        """Return what is raced: `digits · batch 64 · fp32 · GPU 0, GPU 1 · 8 entries in 2:14`, with
        the name of another machine before it."""
        request, race = self._request, self._race
        asked = request.entrants if request is not None else ()
        entrants = asked or tuple(entry.spec for entry in self.table.entries)
        if not entrants:
            return ""
        sizes = ", ".join(f"{size:,}" for size in sorted({each.batch_size for each in entrants}))
        devices = dict.fromkeys(device for each in entrants for device in each.devices)
        parts = [
            *filter(None, (race_text.place(self.machine),)),
            entrants[0].recipe.rpartition("/")[2],
            f"batch {sizes}",
            ", ".join(dict.fromkeys(each.precision for each in entrants)),
            ", ".join(self._display(device) for device in devices),
        ]
        if race is not None:
            length = units.short_duration(race.seconds)
            parts.append(f"{len(race.entries)} entries in {length}")
        return " · ".join(parts)

    def _chosen(self) -> Entry | None:
        """Return the entry of the chosen row, or the fastest one."""
        current = self.table.current()
        if current is not None and not current.problem:
            return current
        return race_text.winner(self.table.entries)

    def _show_chosen(self) -> None:
        current = self.table.current()
        hint = "Enter or a double click fills the form with it."
        text = self.table.sentence(current) if current is not None else ""
        self.detail.setText(f"{text} {hint}" if text else "")
        self.detail.setVisible(bool(text))
        self.detail.setProperty("tone", "bad" if current and current.problem else "")
        self.detail.style().polish(self.detail)
        self._show_use()

    def _show_use(self) -> None:
        entry = self._chosen()
        self.use.setVisible(entry is not None)
        if entry is None:
            return
        spec = self._form_spec
        is_there = self.machine == self._form_machine
        is_same = spec is not None and replace(spec, name="") == replace(entry.spec, name="")
        is_used = is_there and is_same
        name = race_text.name(entry, race_text.differing(self.table.entries))
        name = f"{name} {race_text.place(self.machine)}".rstrip()
        self.use.setText(f"{name} is in the form" if is_used else f"Use {name}")
        self.use.setEnabled(not is_used)
        tip = "Fills the form with its settings"
        if self.machine:
            tip = f"Fills the form with its settings, and chooses {self.machine} there"
        set_wrapped_tip(self.use, tip)

    def _use(self) -> None:
        if (entry := self._chosen()) is not None:
            self.spec_chosen.emit(entry.spec)

    def _place_buttons(self) -> None:
        if self.width() >= _BUTTONS_BESIDE:
            self._top.addWidget(self._buttons, 0, 2)
        else:
            self._top.addWidget(self._buttons, 1, 0, 1, 3)

    def _lay_out(self) -> None:
        self._buttons = QWidget()
        row_of(self.again, self.stop, self.use, STRETCH, parent=self._buttons, margins=0, spacing=8)
        self._top = QGridLayout()
        self._top.setContentsMargins(4, 0, 0, 0)
        self._top.setHorizontalSpacing(10)
        self._top.addWidget(self.title, 0, 0)
        self._top.addWidget(self.facts, 0, 1)
        self._top.setColumnStretch(1, 1)
        self._place_buttons()
        self._table_card = QFrame()
        self._table_card.setObjectName("card")
        column_of(self.table, self.detail, parent=self._table_card, margins=(6, 6, 6, 8), spacing=6)
        column_of(
            self._top,
            self.choice,
            self.progress,
            self.doing,
            self._table_card,
            self._make_empty(),
            self.findings,
            STRETCH,
            parent=self,
            spacing=8,
        )

    def _make_empty(self) -> QWidget:
        self._empty = QFrame()
        self._empty.setObjectName("card")
        heading = Label("Which strategy is the fastest here?", objectName="ttl")
        text = Label(
            "A race trains the recipe of the form for some steps with each strategy that can "
            "run on its devices, one after the other. It shows speed, memory, efficiency, and "
            "where the time of a step goes. These runs are in no list, and leave no files.",
            objectName="mut",
            wordWrap=True,
        )
        self.why_not = Label(objectName="note", wordWrap=True)
        self.why_not.setProperty("tone", "warning")
        row = row_of(self.begin, STRETCH)
        column_of(
            heading,
            text,
            self.why_not,
            row,
            parent=self._empty,
            margins=(20, 16, 20, 16),
            spacing=10,
        )
        return self._empty


def _key(entry: Entry) -> bytes:
    """Return what tells an entry from the others: two may have the same strategy."""
    return msgspec.json.encode(entry.spec)
