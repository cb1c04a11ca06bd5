"""The list of devices: what each row says and shows, also when nothing is known."""

from __future__ import annotations

import time

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.device_list import GONE, DeviceList
from gui.theme import DARK, palette

GIB = 2**30


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
        name="NVIDIA H100",
        memory_total=80 * GIB,
        memory_used=None if used is None else int(used * GIB),
        **(figures | known),  # type: ignore[arg-type]
    )


def snapshot(*devices: DeviceSnapshot, note: str = "") -> Snapshot:
    return Snapshot(time=time.time(), devices=devices, gpu_note=note)


def colours(devices: DeviceList, id: str) -> set[str]:
    QApplication.processEvents()
    image = devices.row(id).grab().toImage()
    return {
        QColor(image.pixel(x, y)).name()
        for x in range(image.width())
        for y in range(image.height())
    }


def test_a_row_is_painted_in_its_colour_and_says_its_figures(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(gpu(0), gpu(1)))
    assert DARK.cycle[0] in colours(devices, "GPU-0")
    assert DARK.cycle[1] in colours(devices, "GPU-1")
    spoken = devices.row("GPU-1").accessibleName()
    assert spoken == "GPU 1 NVIDIA H100, utilisation 90 %, memory 40.0 of 80.0 GiB"
    assert "300 W" in devices.row("GPU-1").toolTip()


def test_what_is_not_known_is_not_zero(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(gpu(0, None, utilisation=None, power=None, temperature=None)))
    spoken = devices.row("GPU-0").accessibleName()
    assert spoken == "GPU 0 NVIDIA H100, utilisation n/a, memory n/a"
    unknown = colours(devices, "GPU-0")
    devices.show_snapshot(snapshot(gpu(0, 0, utilisation=0.0)))
    assert "utilisation 0 %" in devices.row("GPU-0").accessibleName()
    assert colours(devices, "GPU-0") != unknown


@pytest.mark.parametrize(
    ("used", "colour"), [(60, None), (65, DARK.warn), (77, DARK.bad)], ids=["calm", "amber", "red"]
)
@pytest.mark.parametrize("count", [1, 5])
def test_full_memory_is_amber_and_then_red(
    devices: DeviceList, used: float, colour: str | None, count: int
) -> None:
    devices.show_snapshot(snapshot(gpu(0, used), *(gpu(n) for n in range(1, count))))
    seen = colours(devices, "GPU-0") & {DARK.warn, DARK.bad}
    assert seen == ({colour} if colour else set())


def test_old_figures_are_grey_and_say_since_when(devices: DeviceList) -> None:
    since = time.mktime((2026, 5, 4, 14, 2, 11, 0, 0, -1))
    devices.show_snapshot(snapshot(gpu(0)))
    devices.set_stale(since)
    assert devices.stale_note.text() == "no news since 14:02:11"
    assert DARK.cycle[0] not in colours(devices, "GPU-0")
    devices.show_snapshot(snapshot(gpu(0)))
    assert devices.stale_note.text() == ""
    assert DARK.cycle[0] in colours(devices, "GPU-0")


def test_a_lost_device_keeps_its_row_with_the_reason(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(gpu(0), gpu(1)))
    devices.show_snapshot(snapshot(gpu(0), gpu(1, lost="It fell off the bus.")))
    row = devices.row("GPU-1")
    assert row.greyed
    assert row.accessibleName() == "GPU 1 NVIDIA H100, lost: It fell off the bus."
    assert "It fell off the bus." in row.toolTip()
    assert DARK.cycle[1] not in colours(devices, "GPU-1")
    devices.show_snapshot(snapshot(gpu(1)))
    assert devices.row("GPU-0").device == gpu(0, lost=GONE, utilisation=None)
    assert not devices.row("GPU-1").greyed


def test_many_gpus_get_one_line_each(devices: DeviceList) -> None:
    cpu = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="EPYC", utilisation=3.0)
    devices.show_snapshot(snapshot(cpu, *(gpu(n) for n in range(4))))
    tall = devices.row("GPU-0").height()
    devices.show_snapshot(snapshot(cpu, *(gpu(n) for n in range(5))))
    assert devices.row("GPU-0").height() == devices.row("cpu").height() < tall / 2
    assert devices.row("cpu").accessibleName() == "EPYC, utilisation 3 %, memory n/a"


def test_the_reason_for_no_gpu_is_told(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(note="No NVIDIA driver answers."))
    assert devices.gpu_note.isVisible()
    assert devices.gpu_note.text() == "No NVIDIA driver answers."
    devices.show_snapshot(snapshot(gpu(0)))
    assert not devices.gpu_note.isVisible()


def test_the_last_minute_is_a_curve_with_gaps(devices: DeviceList) -> None:
    def sparkline() -> int:
        QApplication.processEvents()
        row = devices.row("GPU-0")
        image = row.grab().toImage()
        wanted = QColor(DARK.cycle[0])
        return sum(
            abs(image.pixelColor(x, y).red() - wanted.red()) < 60
            and abs(image.pixelColor(x, y).blue() - wanted.blue()) < 60
            for x in range(row.width() - 72, row.width())
            for y in range(24, row.height())
        )

    for _ in range(60):
        devices.show_snapshot(snapshot(gpu(0, utilisation=50.0)))
    whole = sparkline()
    for _ in range(30):
        devices.show_snapshot(snapshot(gpu(0, utilisation=None)))
    assert 0 < sparkline() < 0.7 * whole
