"""A list of devices and its snapshots, for the tests of the rows and their states."""

from __future__ import annotations

import time

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.devices.device_list import DeviceList
from gui.style.theme import DARK, palette
from tests.support import pixels
from tests.support.device_states import GIB


@pytest.fixture
def devices(qtbot: QtBot) -> DeviceList:
    made = DeviceList()
    qtbot.addWidget(made)
    made.setPalette(palette(DARK))
    made.resize(296, 400)
    made.show()
    return made


def gpu(number: int = 0, used: float | None = 40, **known: object) -> DeviceSnapshot:
    figures: dict[str, object] = {"utilisation": 90.0, "temperature": 60.0, "power": 300.0}
    return DeviceSnapshot(
        id=f"GPU-{number}",
        kind="gpu",
        label=str(number),
        index=number,
        name="NVIDIA H100",
        memory_total=80 * GIB,
        memory_used=None if used is None else int(used * GIB),
        **(figures | known),  # type: ignore[arg-type]
    )


def snapshot(*devices: DeviceSnapshot, note: str = "") -> Snapshot:
    return Snapshot(time=time.time(), devices=devices, gpu_note=note)


def colours(devices: DeviceList, id: str) -> set[str]:
    QApplication.processEvents()
    return pixels.colours(devices.row(id).grab().toImage())
