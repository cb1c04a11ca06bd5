"""The cards of all other machines, one above the other, in the left column."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from engine.telemetry.snapshot import Snapshot
from gui.machines.machine_card import MachineCard
from gui.widgets.boxes import column_of
from gui.widgets.layouts.fitting_scroll import FittingScroll

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus

_MIN_HEIGHT = 62
"""Logical pixels: with little room, a card and the beginning of the next one; the rest scrolls."""

_FOLDED = "machines/folded"


class MachineCards(FittingScroll):
    """Takes no room while there is no other machine."""

    action_clicked = Signal(str)
    """Name of the machine to connect to, or whose question is to be answered."""

    detail_wanted = Signal(str, str)
    """Name of a machine, and the UUID of the GPU whose details are open; empty: of none."""

    def __init__(self, settings: QSettings | None = None) -> None:
        """`settings` remember which cards are folded."""
        content = QWidget()
        self.cards: dict[str, MachineCard] = {}
        self._settings = settings
        self._column = column_of(parent=content, margins=0, spacing=6)
        super().__init__(content, _MIN_HEIGHT)
        self.setAccessibleName("Other machines")
        self.hide()

    def show_machines(self, names: Iterable[str]) -> None:
        """Show a card for each of these machines, in their order."""
        wanted = list(names)
        for name in self.cards.keys() - set(wanted):
            card = self.cards.pop(name)
            card.setParent(None)
            card.deleteLater()
        for place, name in enumerate(wanted):
            card = self.cards.get(name) or self._new_card(name)
            if self._column.indexOf(card) != place:
                self._column.insertWidget(place, card)
        self.setVisible(bool(wanted))

    def show_status(self, name: str, status: LinkStatus | None) -> None:
        """Show the state of the connection to a machine."""
        if card := self.cards.get(name):
            card.show_status(status)

    def show_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Show the devices of a machine."""
        if card := self.cards.get(name):
            card.show_snapshot(snapshot)

    def _new_card(self, name: str) -> MachineCard:
        card = self.cards[name] = MachineCard(name)
        card.set_folded(name in self._folded_names())
        card.action_clicked.connect(partial(self.action_clicked.emit, name))
        card.detail_wanted.connect(partial(self.detail_wanted.emit, name))
        card.folded.connect(lambda _: self._remember())
        return card

    def _folded_names(self) -> list[str]:
        stored = self._settings.value(_FOLDED) if self._settings is not None else ""
        return str(stored or "").split()

    def _remember(self) -> None:
        if self._settings is not None:
            folded = [name for name, card in self.cards.items() if card.is_folded]
            self._settings.setValue(_FOLDED, " ".join(folded))
