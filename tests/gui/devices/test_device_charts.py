"""The charts of a device: known values are drawn, unknown ones are a gap or no chart."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.devices.device_charts import DeviceCharts
from gui.style.theme import DARK, palette

START = 1_000_000.0


@pytest.fixture
def charts(qtbot: QtBot) -> DeviceCharts:
    made = DeviceCharts()
    qtbot.addWidget(made)
    made.setPalette(palette(DARK))
    made.resize(600, 300)
    made.show()
    return made


def see(charts: DeviceCharts, second: float, power: float | None) -> None:
    devices = (
        DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="C", utilisation=1.0),
        DeviceSnapshot(
            id="GPU-1", kind="gpu", label="1", index=1, name="G", power=power, memory_used=3 * 2**30
        ),
    )
    charts.add_snapshot(Snapshot(time=START + second, devices=devices))


def test_the_watched_device_has_its_newest_and_largest_values(charts: DeviceCharts) -> None:
    for second in range(3):
        see(charts, second, None if second == 1 else 300.0)
    charts.watch("GPU-1")
    assert charts.charts["power"].accessibleName() == "Power 300 W, at most 300 W"
    assert charts.charts["memory_used"].caption == "Memory 3 GiB, at most 3 GiB"


def test_what_was_never_known_has_no_chart(charts: DeviceCharts) -> None:
    see(charts, 0, None)
    charts.watch("GPU-1")
    shown = [field for field, chart in charts.charts.items() if not chart.isHidden()]
    assert shown == ["memory_used"]
    charts.watch("cpu")
    shown = [field for field, chart in charts.charts.items() if not chart.isHidden()]
    assert shown == ["utilisation"]


def test_a_longer_span_reaches_further_back(charts: DeviceCharts) -> None:
    charts.watch("GPU-1")
    for second in range(0, 3600, 5):
        see(charts, second, 500.0 if second < 1800 else 100.0)
    assert charts.charts["power"].caption == "Power 100 W, at most 100 W"
    charts.span.setCurrentText("1 hour")
    assert charts.charts["power"].caption == "Power 100 W, at most 500 W"


def test_a_value_that_is_not_known_now_is_not_zero(charts: DeviceCharts) -> None:
    charts.watch("GPU-1")
    see(charts, 0, 300.0)
    see(charts, 1, None)
    assert charts.charts["power"].caption == "Power n/a, at most 300 W"
