"""The list of devices: what each row says and shows, also when nothing is known."""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.attribution import Worker, memory_uses
from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess, Link, MigSlice, Snapshot
from gui import device_words as words
from gui.device_list import DeviceList, gone_text
from gui.theme import DARK, palette
from tests.support.device_states import (
    ASLEEP,
    BUSY,
    GIB,
    HOT,
    IDLE,
    LOST,
    MIG,
    OTHERS,
    SILENT,
    TIME,
    last_minutes,
    process,
    workers,
)


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


def is_inked(devices: DeviceList, id: str, colour: str) -> bool:
    """Whether something is in `colour`, as nearly as the edges of letters are."""
    wanted = QColor(colour)
    return any(
        abs(seen.red() - wanted.red()) + abs(seen.green() - wanted.green()) < 24
        and abs(seen.blue() - wanted.blue()) < 24
        for seen in map(QColor, colours(devices, id))
    )


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
    assert "no news since 14:02:11" in devices.row("GPU-0").accessibleName()
    assert "No news since 14:02:11" in devices.row("GPU-0").toolTip()
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
    last = snapshot(gpu(1))
    devices.show_snapshot(last)
    gone = gpu(0, lost=gone_text(), lost_since=last.time, utilisation=None)
    assert devices.row("GPU-0").device == gone
    assert not devices.row("GPU-1").greyed


def test_many_gpus_get_one_line_each(devices: DeviceList) -> None:
    cpu = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="EPYC", utilisation=3.0)
    devices.show_snapshot(snapshot(cpu, *(gpu(n) for n in range(4))))
    tall = devices.row("GPU-0").height()
    devices.show_snapshot(snapshot(cpu, *(gpu(n) for n in range(5))))
    assert devices.row("GPU-0").height() == devices.row("cpu").height() < tall / 2
    assert devices.row("cpu").accessibleName() == "EPYC, utilisation 3 %, memory n/a"


def test_the_cpu_beside_gpus_is_one_quiet_line(devices: DeviceList) -> None:
    cpu = DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="EPYC", utilisation=50.0)
    devices.show_snapshot(snapshot(cpu))
    tall = devices.row("cpu").height()
    assert DARK.cycle[0] in colours(devices, "cpu")
    devices.show_snapshot(snapshot(cpu, gpu(0)))
    assert devices.row("cpu").height() < tall / 2
    assert not colours(devices, "cpu") & set(DARK.cycle)


def test_the_smallest_bar_is_still_a_bar(devices: DeviceList) -> None:
    devices.show_snapshot(snapshot(gpu(0, 0, utilisation=0.2)))
    QApplication.processEvents()
    image = devices.row("GPU-0").grab().toImage()
    wanted = QColor(DARK.cycle[0])
    inked = [
        (x, y) for x in range(30, 150) for y in range(18, 34) if image.pixelColor(x, y) == wanted
    ]
    assert len({x for x, _ in inked}) >= 2
    assert len({y for _, y in inked}) >= 4


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

    begin = time.time()

    def show(seconds: range, utilisation: float | None) -> None:
        for second in seconds:
            devices.show_snapshot(
                Snapshot(time=begin + second, devices=(gpu(0, utilisation=utilisation),))
            )

    show(range(120), 50.0)
    whole = sparkline()
    show(range(120, 180), None)
    assert 0 < sparkline() < 0.7 * whole
    show(range(180, 300), 50.0)
    assert sparkline() == whole
    show(range(360, 362), 50.0)
    assert 0 < sparkline() < 0.7 * whole  # nobody sampled for a minute


def test_every_row_is_reached_by_tab_and_opened_by_enter(devices: DeviceList, qtbot: QtBot) -> None:
    devices.show_snapshot(snapshot(gpu(0), gpu(1)))
    devices.activateWindow()
    first, second = devices.row("GPU-0"), devices.row("GPU-1")
    first.setFocus()
    qtbot.waitUntil(first.hasFocus)
    plain = second.grab().toImage()
    QTest.keyClick(first, Qt.Key.Key_Tab)
    assert second.hasFocus()
    assert second.grab().toImage() != plain  # the ring of the focus
    with qtbot.waitSignal(devices.detail_wanted) as wanted:
        QTest.keyClick(second, Qt.Key.Key_Return)
    assert wanted.args == ["GPU-1"]
    assert devices.detail.isVisible()
    assert devices.detail.windowTitle() == "GPU 1 NVIDIA H100"
    QTest.keyClick(second, Qt.Key.Key_Up)
    assert first.hasFocus()


def test_a_click_opens_the_details_and_closing_them_is_told(
    devices: DeviceList, qtbot: QtBot
) -> None:
    devices.show_snapshot(snapshot(gpu(0)))
    with qtbot.waitSignal(devices.detail_wanted) as wanted:
        QTest.mouseClick(devices.row("GPU-0"), Qt.MouseButton.LeftButton)
    assert wanted.args == ["GPU-0"]
    devices.show_snapshot(snapshot(gpu(0, utilisation=12.0)))
    assert devices.detail.value("Utilisation").text() == "12 %"
    with qtbot.waitSignal(devices.detail_wanted) as wanted:
        devices.detail.close()
    assert wanted.args == [""]


def test_the_bar_shows_who_uses_the_memory(devices: DeviceList) -> None:
    worker = Worker("digits", 0, 10, TIME - 3599, ("GPU-0",), 20.0 * GIB, 26.0 * GIB)
    device = gpu(0, 40, processes=(process(10, 28), process(4242, 11.8)))
    devices.show_snapshot(snapshot(device))
    before = colours(devices, "GPU-0")
    devices.show_uses(memory_uses([device], [worker]))
    row = devices.row("GPU-0")
    assert colours(devices, "GPU-0") != before
    assert DARK.other in colours(devices, "GPU-0")
    assert "python of guest (pid 4242): 11.8 GiB" in row.toolTip()
    assert "pid 10): 28.0 GiB (tensors 20.0, cache 6.0, context 2.0)" in row.toolTip()
    assert row.accessibleName().endswith("busy: python of guest, 11.8 GiB")


@pytest.mark.parametrize("flat", [False, True])
def test_every_state_is_told_in_words_and_not_by_colour_alone(
    devices: DeviceList, flat: bool
) -> None:
    for one in last_minutes(3):
        shown = one if flat else msgspec.structs.replace(one, devices=one.devices[:4])
        devices.show_snapshot(shown)
        devices.show_uses(memory_uses(one.devices, workers()))
    said = {
        device.id: devices.row(device.id).accessibleName()
        for device in (one.devices if flat else one.devices[:4])
    }
    assert "hot: 85 / 87 °C" in said[HOT]
    assert "slowed down: hardware thermal slowdown" in said[HOT]
    assert f"lost since {words.clock(TIME - 754)}" in said[LOST]
    assert "divided in 3" in said[MIG]
    assert "utilisation n/a" in said[MIG]
    assert "not supported on a divided GPU" in devices.row(MIG).toolTip()
    assert is_inked(devices, HOT, DARK.warn)
    assert not is_inked(devices, BUSY, DARK.warn)
    if flat:
        assert "busy: python of guest and 1 more, 47.8 GiB" in said[OTHERS]
        assert said[ASLEEP].endswith("asleep")
        assert "n/a (not supported)" in devices.row(SILENT).toolTip()
        assert is_inked(devices, OTHERS, DARK.warn)
        assert not is_inked(devices, IDLE, DARK.warn)
    else:
        assert "1g.10gb: 3.3 of 9.8 GiB" in devices.row(MIG).toolTip()
        assert devices.row(MIG).height() > devices.row(BUSY).height() > devices.row(LOST).height()


ODD = [
    {"utilisation": math.nan, "temperature": math.inf, "power": -math.inf},
    {"utilisation": 250.0, "memory_used": 900 * GIB, "memory_reserved": -5},
    {"utilisation": -3.0, "memory_total": 0},
    {"memory_total": -1, "memory_used": -1, "memory_free": None},
    {"name": "", "label": "", "silent": {"no such field": ""}},
    {"name": "<b>x</b>\n" * 40, "label": "&" * 99, "pci_bus": None},
    {"lost": "", "lost_since": math.nan},
    {"lost": "Gone.", "lost_since": 1e300, "asleep": True},
    {"kind": "cpu", "slices": (MigSlice(uuid="", name=""),)},
    {"slices": tuple(MigSlice(uuid="m", name="", memory_total=0, memory_used=5) for _ in "abc")},
    {"processes": (GpuProcess(0), GpuProcess(0, "<i>&", "\0", -7, math.nan))},
    {"throttle_reasons": ("", "&<x>"), "performance_state": -1, "ecc_uncorrected": -1},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("count", [1, 16])
def test_no_snapshot_is_too_odd_to_be_shown(
    devices: DeviceList, odd: dict[str, Any], count: int
) -> None:
    strange = msgspec.structs.replace(gpu(0), **odd)
    links = (Link("GPU-0", "GPU-none", "NVLink"), Link("GPU-0", "GPU-0", "system"))
    picture = Snapshot(
        time=time.time(),
        devices=(strange, *(gpu(number) for number in range(1, count)), strange),
        links=links,
    )
    everywhere = [Worker("r", 0, 0, math.nan, (strange.id, "x"), math.nan, -1.0)]
    devices.show_uses(memory_uses(picture.devices, everywhere))
    devices.show_snapshot(picture)
    devices.show_uses(memory_uses(picture.devices, everywhere))
    devices.open_detail(strange.id)
    devices.set_stale(math.nan)
    colours(devices, strange.id)
    devices.detail.grab()
    devices.show_snapshot(Snapshot(time=0.0, devices=()))
    devices.detail.close()
