"""The list of devices with unknown, stale, lost, hot or odd values."""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec
import pytest

from engine.telemetry.memory_attribution import Worker, memory_uses
from engine.telemetry.snapshot import GpuProcess, Link, MigSlice, Snapshot
from gui.devices import device_text
from gui.devices.device_list import MISSING, DeviceList
from gui.style.theme import DARK
from tests.gui.devices.device_lists import colours, devices, gpu, snapshot
from tests.support.device_states import (
    ASLEEP,
    BUSY,
    GIB,
    HOT,
    LOST,
    MIG,
    OTHERS,
    SILENT,
    TIME,
    last_minutes,
    workers,
)
from tests.support.sentences import sentence

__all__ = ["devices"]


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


def test_stale_figures_are_grey_and_say_since_when(devices: DeviceList) -> None:
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
    assert row.accessibleName() == sentence("gpu-nvidia-lost-it-fell-off")
    assert "It fell off the bus." in row.toolTip()
    assert DARK.cycle[1] not in colours(devices, "GPU-1")
    last = snapshot(gpu(1))
    devices.show_snapshot(last)
    gone = gpu(0, lost=MISSING, lost_since=last.time, utilisation=None)
    assert devices.row("GPU-0").device == gone
    assert not devices.row("GPU-1").greyed


@pytest.mark.parametrize("flat", [False, True])
def test_every_state_is_said_in_text(devices: DeviceList, flat: bool) -> None:
    for one in last_minutes(3):
        shown = one if flat else msgspec.structs.replace(one, devices=one.devices[:4])
        devices.show_snapshot(shown)
        devices.show_uses(memory_uses(one.devices, workers()))
    said = {
        device.id: devices.row(device.id).accessibleName()
        for device in (one.devices if flat else one.devices[:4])
    }
    assert "hot: 85 / 87 °C" in said[HOT]
    assert sentence("slowed-down-hardware-thermal-slowdown") in said[HOT]
    assert f"lost since {device_text.clock(TIME - 754)}" in said[LOST]
    assert "divided in 3" in said[MIG]
    assert "utilisation n/a" in said[MIG]
    assert sentence("not-supported-on-divided-gpu") in devices.row(MIG).toolTip()
    if flat:
        assert sentence("in-use-by-python-of-guest-and-more-gib") in said[OTHERS]
        assert said[ASLEEP].endswith("asleep")
        assert "n/a (not supported)" in devices.row(SILENT).toolTip()
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
def test_no_snapshot_is_too_odd(devices: DeviceList, odd: dict[str, Any], count: int) -> None:
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
