"""The cluster on the page Machines: its machines by name, and what is wrong with one."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.telemetry.snapshot import DeviceSnapshot
from gui.bridge.cluster_devices import ClusterDevices, ClusterMember, ClusterStatus
from gui.machines.cluster_card import ClusterCard

CPU = DeviceSnapshot(
    id="cpu", kind="cpu", label="CPU", name="A CPU", utilisation=12.0, memory_used=2**30
)
DESK = ClusterMember("desk", "10.0.0.1", True, True, True, "", (CPU, CPU), ())
LOST = ClusterMember("gpus", "10.0.0.2", False, False, False, "gpus is lost.", (), ())


@pytest.fixture
def card(qtbot: QtBot) -> ClusterCard:
    made = ClusterCard()
    qtbot.addWidget(made)
    return made


def rows(card: ClusterCard) -> list[list[str]]:
    items = [card.table.topLevelItem(n) for n in range(card.table.topLevelItemCount())]
    return [[item.text(column) for column in range(6)] for item in items if item]


def test_devices_are_below_their_machine(card: ClusterCard) -> None:
    card.show_status(ClusterStatus("", (DESK, LOST), 100.0))
    assert rows(card) == [
        ["desk (head, this machine)", "answers", "CPU", "A CPU", "12 %", "1.0 GiB"],
        ["", "", "CPU", "A CPU", "12 %", "1.0 GiB"],
        ["gpus", "lost", "", "", "", ""],
    ]
    assert card.sentence.text() == "gpus is lost."
    assert not card.isHidden()


def test_without_a_cluster_there_is_no_card(card: ClusterCard) -> None:
    card.show_status(ClusterStatus("", (DESK,), 100.0))
    card.show_status(ClusterStatus())
    assert card.isHidden()


def test_a_head_that_is_away_is_told(card: ClusterCard) -> None:
    card.show_status(ClusterStatus("The head of the cluster does not answer.", (), 100.0))
    assert card.sentence.text() == "The head of the cluster does not answer."
    assert card.table.isHidden()


def test_a_machine_that_leaves_its_cluster_is_told_once(qtbot: QtBot) -> None:
    devices = ClusterDevices()
    told: list[ClusterStatus] = []
    devices.told.connect(told.append)
    devices.status = ClusterStatus("", (DESK,), 100.0)
    for _ in range(2):
        devices.look()
    assert told == [ClusterStatus()]
    devices.close()
