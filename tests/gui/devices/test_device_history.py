"""The charts of a device's past: what is known is drawn, what is not is a gap or no chart."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.devices.device_history import DevicePast
from gui.style.theme import DARK, palette

START = 1_000_000.0


@pytest.fixture
def past(qtbot: QtBot) -> DevicePast:
    made = DevicePast()
    qtbot.addWidget(made)
    made.setPalette(palette(DARK))
    made.resize(600, 300)
    made.show()
    return made


def see(past: DevicePast, second: float, power: float | None) -> None:
    devices = (
        DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="C", utilisation=1.0),
        DeviceSnapshot(
            id="GPU-1", kind="gpu", label="0", name="G", power=power, memory_used=3 * 2**30
        ),
    )
    past.take_snapshot(Snapshot(time=START + second, devices=devices))


def columns(past: DevicePast) -> list[bool]:
    """Where, from left to right, the curve of the power has ink."""
    QApplication.processEvents()
    image = past.charts["power"].grab().toImage()

    def inked(x: int) -> bool:  # the second device is orange; caption, line and ground are bluish
        pixels = (image.pixelColor(x, y) for y in range(image.height()))
        return any(pixel.red() > pixel.blue() + 40 for pixel in pixels)

    return [inked(x) for x in range(image.width())]


def test_the_watched_device_is_drawn_in_its_colour_with_its_gaps(past: DevicePast) -> None:
    for second in range(601):
        see(past, second, None if 200 <= second < 400 else 300.0)
    past.watch("GPU-1")
    inked = columns(past)
    third = len(inked) // 3
    assert all(inked[5 : third - 5])
    assert not any(inked[third + 5 : 2 * third - 5])
    assert all(inked[2 * third + 5 : -5])
    assert past.charts["power"].accessibleName() == "Power 300 W, at most 300 W"
    assert past.charts["memory_used"].caption == "Memory 3 GiB, at most 3 GiB"


def test_what_was_never_known_has_no_chart(past: DevicePast) -> None:
    see(past, 0, None)
    past.watch("GPU-1")
    shown = [field for field, chart in past.charts.items() if not chart.isHidden()]
    assert shown == ["memory_used"]
    past.watch("cpu")
    shown = [field for field, chart in past.charts.items() if not chart.isHidden()]
    assert shown == ["utilisation"]


def test_a_longer_span_reaches_further_back(past: DevicePast) -> None:
    past.watch("GPU-1")
    for second in range(0, 3600, 5):
        see(past, second, 500.0 if second < 1800 else 100.0)
    assert past.charts["power"].caption == "Power 100 W, at most 100 W"
    past.span.setCurrentText("1 hour")
    assert past.charts["power"].caption == "Power 100 W, at most 500 W"


def test_a_value_that_is_not_known_now_is_not_zero(past: DevicePast) -> None:
    past.watch("GPU-1")
    see(past, 0, 300.0)
    see(past, 1, None)
    assert past.charts["power"].caption == "Power n/a, at most 300 W"


def test_an_odd_chart_has_a_line_of_its_own(past: DevicePast) -> None:
    see(past, 0, None)
    past.watch("GPU-1")
    QApplication.processEvents()
    assert past.charts["memory_used"].width() > past.width() * 0.9
    see(past, 1, 300.0)
    QApplication.processEvents()
    assert past.charts["memory_used"].width() < past.width() / 2
    assert past.charts["power"].x() > past.width() / 2
