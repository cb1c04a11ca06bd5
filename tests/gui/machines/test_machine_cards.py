"""The cards of other machines: state, what can be done, and one line for each device."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from engine.remote.connection import LinkState, LinkStatus
from gui.machines.machine_cards import MachineCards
from tests.gui.devices.device_lists import gpu, snapshot
from tests.support.device_states import cpu

CONNECTED = LinkStatus(LinkState.CONNECTED, round_trip=0.018)
WHY = "There is no way to gpus: the network is gone, or the host is off."


@pytest.fixture
def cards(qtbot: QtBot) -> MachineCards:
    cards = MachineCards()
    qtbot.addWidget(cards)
    cards.show_machines(["gpus", "lab"])
    return cards


def test_a_machine_that_was_added_can_be_connected_and_one_that_is_gone_has_no_card(
    qtbot: QtBot, cards: MachineCards
) -> None:
    card = cards.cards["lab"]
    assert card.note.text() == "not connected"
    with qtbot.waitSignal(cards.action_clicked) as asked:
        card.button.click()
    assert asked.args == ["lab"]
    assert card.button.accessibleName() == "Connect lab"
    assert not cards.isHidden()
    cards.show_machines([])
    assert cards.isHidden()
    assert not cards.cards


def test_a_connected_machine_shows_its_devices(cards: MachineCards) -> None:
    cards.show_status("gpus", CONNECTED)
    cards.show_snapshot("gpus", snapshot(gpu(0), gpu(1), cpu()))
    card = cards.cards["gpus"]
    assert card.note.text() == "ssh · 18 ms · 2 GPUs"
    assert card.button.isHidden()
    assert list(card.rows) == ["GPU-0", "GPU-1", "cpu"]
    assert "GPU 1" in card.rows["GPU-1"].accessibleName()
    assert not cards.cards["lab"].rows


def test_a_connection_without_news_says_so_and_one_that_is_not_wanted_has_no_figures(
    cards: MachineCards,
) -> None:
    cards.show_status("gpus", CONNECTED._replace(quiet=7.4))
    assert cards.cards["gpus"].note.text() == "ssh · no news for 7 s"
    cards.show_status("gpus", CONNECTED)
    assert cards.cards["gpus"].note.text() == "ssh · 18 ms"
    cards.show_status("gpus", CONNECTED)
    cards.show_snapshot("gpus", snapshot(gpu(0)))
    cards.show_status("gpus", None)
    assert not cards.cards["gpus"].rows


def test_a_machine_that_waits_says_why_and_when_it_tries_again(cards: MachineCards) -> None:
    cards.show_status("gpus", CONNECTED)
    cards.show_snapshot("gpus", snapshot(gpu(0)))
    cards.show_status("gpus", LinkStatus(LinkState.WAITING, WHY, time.time() + 3600.0))
    card = cards.cards["gpus"]
    assert card.note.text().startswith("next try in 3")
    assert card.button.text() == "Try now"
    assert card.sentence.text() == WHY
    assert card.rows["GPU-0"].greyed
    cards.show_status("gpus", CONNECTED)
    assert card.sentence.isHidden()


@pytest.mark.parametrize(
    ("state", "button"),
    [(LinkState.FAILED, "Try again"), (LinkState.ASKING, "Answer…"), (LinkState.CONNECTING, "")],
)
def test_each_state_offers_what_helps(cards: MachineCards, state: LinkState, button: str) -> None:
    cards.show_status("gpus", LinkStatus(state, "A sentence."))
    assert cards.cards["gpus"].button.text() == button


def test_a_card_stays_folded_in_the_next_window(qtbot: QtBot, tmp_path: object) -> None:
    settings = QSettings(f"{tmp_path}/window.ini", QSettings.Format.IniFormat)
    for is_next in (False, True):
        cards = MachineCards(settings)
        qtbot.addWidget(cards)
        cards.show_machines(["gpus", "lab"])
        assert cards.cards["lab"].is_folded is is_next
        if not is_next:
            cards.cards["lab"].fold_button.click()
    assert not cards.cards["gpus"].is_folded
