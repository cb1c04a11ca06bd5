"""The page Machines: this machine and the others, with curves and what can be done."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from engine.remote.connection import LinkState, LinkStatus
from engine.remote.frames import MAJOR, MINOR, Hello
from engine.system.machines import RemoteMachine
from engine.telemetry.memory_attribution import memory_uses
from gui.machines.machine_block import MachineBlock
from gui.machines.machines_page import MachinesPage
from tests.gui.devices.device_lists import gpu, snapshot
from tests.support.device_states import GIB, cpu, process

GPUS = RemoteMachine(name="gpus", destination="ada@gpus")
HELLO = Hello(MAJOR, MINOR, "0.1.0", "node-7")


@pytest.fixture
def page(qtbot: QtBot) -> MachinesPage:
    page = MachinesPage()
    qtbot.addWidget(page)
    return page


def test_this_machine_has_curves_of_its_gpus_and_who_uses_them(page: MachinesPage) -> None:
    busy = replace(gpu(0), processes=(process(4242, 4 * GIB),))
    seen = snapshot(busy, gpu(1), cpu())
    page.own.show_snapshot(seen, memory_uses(seen.devices, []))
    assert [curve.name for curve in page.own.utilisation.curves] == ["0", "1"]
    assert "Memory" in page.own.memory.accessibleName()
    texts = [page.own.users.topLevelItem(0).text(column) for column in range(5)]
    assert texts[1] == "0"
    assert texts[3] == "4242"


def test_no_part_is_a_window_for_a_moment(qapp: QApplication, qtbot: QtBot) -> None:
    shown: list[QWidget] = []

    class Windows(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # of Qt
            if event.type() == QEvent.Type.Show and isinstance(watched, QWidget):
                shown.extend([watched] if watched.isWindow() else [])
            return False

    windows = Windows()
    qapp.installEventFilter(windows)
    try:
        for machine in (None, GPUS):
            qtbot.addWidget(MachineBlock(machine))
    finally:
        qapp.removeEventFilter(windows)
    assert shown == []


def test_a_machine_without_gpus_shows_its_cpu(page: MachinesPage) -> None:
    seen = snapshot(cpu())
    page.own.show_snapshot(seen, {})
    assert [curve.name for curve in page.own.utilisation.curves] == ["CPU"]


def test_what_a_connected_machine_is_and_can(page: MachinesPage, qtbot: QtBot) -> None:
    assert not page.empty.isHidden()
    page.show_machines([GPUS])
    assert page.empty.isHidden()
    page.show_status("gpus", LinkStatus(LinkState.CONNECTED, round_trip=0.02, hello=HELLO))
    page.show_snapshot("gpus", snapshot(gpu(0)))
    block = page.blocks["gpus"]
    assert block.facts.text() == "ada@gpus · ssh · 20 ms · 1 GPU · node-7 · Traindeck 0.1.0"
    for button, signal in (
        (block.disconnect_button, page.disconnect_clicked),
        (block.remove, page.remove_clicked),
        (block.copy, page.copy_clicked),
    ):
        with qtbot.waitSignal(signal) as asked:
            button.click()
        assert asked.args == ["gpus"]


def test_a_machine_whose_destination_has_changed_is_another_one(page: MachinesPage) -> None:
    page.show_machines([GPUS])
    before = page.blocks["gpus"]
    page.show_machines([GPUS])
    assert page.blocks["gpus"] is before
    page.show_machines([RemoteMachine(name="gpus", destination="ada@other")])
    assert page.blocks["gpus"] is not before
