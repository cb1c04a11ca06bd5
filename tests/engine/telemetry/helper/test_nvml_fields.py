"""Every field of a GPU: where it comes from, how often, and the reason when it has no value."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.telemetry.snapshot import DeviceSnapshot, MigSlice
from tests.engine.telemetry.conftest import FIRST, SECOND, meet
from tests.support.fake_nvml import (
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    FakeNvml,
)
from tests.support.nvml_on_demand import NvmlOnDemand
from tests.support.sentences import sentence

GIB = 2**30
MEMORY = {"memory_total", "memory_used", "memory_free", "memory_reserved"}
RATES = ("pcie_sent", "pcie_received", "nvlink_sent", "nvlink_received")


def test_every_field_of_a_gpu(two_gpus: FakeNvml, nvml: NvmlOnDemand) -> None:
    assert nvml.rows(0)[FIRST] == DeviceSnapshot(
        id=FIRST,
        kind="gpu",
        label="1",
        index=1,
        name="NVIDIA H100 80GB HBM3",
        pci_bus="00000000:3B:00.0",
        memory_total=80 * GIB,
        memory_used=30 * GIB,  # without what the driver reserves
        memory_reserved=600 << 20,
        memory_free=50 * GIB - (600 << 20),
        utilisation=93.0,
        temperature=61.0,
        temperature_slowdown=87.0,
        power=512.345,
        power_limit=700.0,
        clock=1755.0,
        memory_clock=2619.0,
        fan=48.0,
        performance_state=0,
        throttle_reasons=(),
        ecc_corrected=2,
        ecc_uncorrected=0,
        processes=(),
    )


FUNCTIONS = {
    "memory_used": "MemoryInfo_v2 MemoryInfo",
    "utilisation": "UtilizationRates",
    "temperature": "TemperatureV Temperature",
    "power": "PowerUsage",
    "clock": "ClockInfo",
    "memory_clock": "ClockInfo",
    "temperature_slowdown": "TemperatureThreshold",
    "power_limit": "EnforcedPowerLimit",
    "fan": "FanSpeed",
    "performance_state": "PerformanceState",
    "throttle_reasons": "CurrentClocksEventReasons CurrentClocksThrottleReasons",
    "ecc_corrected": "TotalEccErrors",
    "ecc_uncorrected": "TotalEccErrors",
    "processes": "ComputeRunningProcesses_v3 ComputeRunningProcesses_v2",
}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (NOT_SUPPORTED, "not supported"),
        (NO_PERMISSION, "no permission"),
        (FUNCTION_NOT_FOUND, sentence("not-supported-by-this-version")),
        (UNKNOWN, "Unknown Error"),
    ],
)
def test_a_field_without_a_value_has_a_reason_and_costs_no_other(
    fake_nvml: FakeNvml, nvml: NvmlOnDemand, code: int, reason: str
) -> None:
    for number, functions in enumerate(FUNCTIONS.values()):
        who = fake_nvml.add_gpu(f"GPU-{number}", pci_bus=f"00000000:{number:02X}:00.0")
        for function in functions.split():
            fake_nvml.fail(who, f"nvmlDeviceGet{function}", code)
    rows = nvml.rows(0)
    for number, name in enumerate(FUNCTIONS):
        row = rows[f"GPU-{number}"]
        assert getattr(row, name) is None
        assert row.silent.pop(name) == reason
        assert row.lost is None
        also = {other for other, function in FUNCTIONS.items() if function == FUNCTIONS[name]}
        also |= MEMORY if "memory_used" in also else set()
        assert set(row.silent) == also - {name}
        for other in set(FUNCTIONS) - also:
            assert getattr(row, other) is not None, other


@pytest.mark.usefixtures("processes")
def test_an_old_driver_without_the_newer_functions_answers_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pci_devices: Path
) -> None:
    old = FakeNvml(tmp_path, old_driver=True)
    meet(old, monkeypatch)
    who = old.add_gpu(FIRST, pci_bus="00000000:3B:00.0")
    old.run(who, [(2**22 + 1, GIB)])
    old.answer(who, "nvmlDeviceGetCurrentClocksThrottleReasons", 4)
    with NvmlOnDemand(pci_devices) as nvml:
        row = nvml.rows(0)[FIRST]
    assert row.memory_used == 30 * GIB + (600 << 20)
    assert row.memory_free == 50 * GIB - (600 << 20)
    assert row.memory_reserved is None
    assert row.silent == {"memory_reserved": sentence("driver-counts-it-as-used")}
    assert row.temperature == 61.0
    assert row.throttle_reasons == ("power limit",)
    assert [process.pid for process in row.processes or ()] == [2**22 + 1]


def test_throttle_reasons_are_words(fake_nvml: FakeNvml, nvml: NvmlOnDemand) -> None:
    words = {
        0x1: (),  # idle
        0x4 | 0x20: ("power limit", "software thermal slowdown"),
        0x40 | 0x80: ("hardware thermal slowdown", "hardware power brake"),
        0x10000: ("an unknown reason (0x10000)",),
    }
    for bits in words:
        who = fake_nvml.add_gpu(f"GPU-{bits}", pci_bus=f"00000000:{bits % 97:02X}:00.0")
        fake_nvml.answer(who, "nvmlDeviceGetCurrentClocksEventReasons", bits)
    rows = nvml.rows(0)
    assert {bits: rows[f"GPU-{bits}"].throttle_reasons for bits in words} == words


@pytest.mark.parametrize(
    ("function", "answer", "fields"),
    [
        ("UtilizationRates", (2**32 - 1, 0), {"utilisation"}),
        ("PowerUsage", (2**32 - 1,), {"power"}),
        ("EnforcedPowerLimit", (2**32 - 1,), {"power_limit"}),
        ("EnforcedPowerLimit", (0,), {"power_limit"}),
        ("TemperatureV", (511,), {"temperature"}),
        ("TemperatureThreshold:1", (2**32 - 1,), {"temperature_slowdown"}),
        ("ClockInfo:1", (2**32 - 1,), {"clock"}),
        ("ClockInfo:2", (2**32 - 1,), {"memory_clock"}),
        ("FanSpeed", (2**32 - 1,), {"fan"}),
        ("PerformanceState", (32,), {"performance_state"}),
        ("TotalEccErrors:0:0", (2**63 - 1,), {"ecc_corrected"}),
        ("MemoryInfo_v2", (0, 0, 0, 0), MEMORY),
        ("MemoryInfo_v2", (GIB, 0, GIB, 2**63 - 1), MEMORY),
        ("MemoryInfo_v2", (80 * GIB, 2**62, 50 * GIB, 30 * GIB), {"memory_reserved"}),
    ],
)
def test_a_value_that_cannot_be_is_none(
    two_gpus: FakeNvml,
    nvml: NvmlOnDemand,
    function: str,
    answer: tuple[int, ...],
    fields: set[str],
) -> None:
    two_gpus.answer("gpu1", f"nvmlDeviceGet{function}", *answer)
    row = nvml.rows(0)[FIRST]
    assert {name for name in row.silent if getattr(row, name) is None} == fields


def test_what_changes_slowly_is_asked_every_5_s_and_what_never_changes_once(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    def asked(function: str) -> int:
        return two_gpus.calls().count(f"gpu1 nvmlDeviceGet{function}")

    for now in (0.0, 1.0, 2.0, 3.0, 4.0):
        row = nvml.rows(now)[FIRST]
    assert row.fan == 48.0  # what was known stays
    assert (asked("PowerUsage"), asked("FanSpeed"), asked("TemperatureThreshold")) == (5, 1, 1)
    two_gpus.answer("gpu1", "nvmlDeviceGetFanSpeed", 70)
    assert nvml.rows(4.98)[FIRST].fan == 70.0  # a timer that is a little early
    assert nvml.rows(9.0)[FIRST].fan == 70.0
    assert (asked("PowerUsage"), asked("FanSpeed"), asked("TemperatureThreshold")) == (7, 2, 1)
    assert asked("FieldValues") == asked("PcieThroughput") == 0


def test_a_card_divided_by_mig_has_slices_and_no_utilisation(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.divide("gpu1", "3g.40gb", "1g.10gb")
    two_gpus.fail("gpu1.mig1", "nvmlDeviceGetMemoryInfo_v2", UNKNOWN)
    rows = nvml.rows(0)
    assert rows[FIRST].utilisation is None
    assert rows[FIRST].silent == {"utilisation": sentence("not-measured-while-gpu-is-divided")}
    assert rows[FIRST].memory_used == 30 * GIB
    assert rows[FIRST].slices == (
        MigSlice(uuid="MIG-gpu1-0", name="3g.40gb", memory_total=40 * GIB, memory_used=10 * GIB),
        MigSlice(uuid="MIG-gpu1-1", name="1g.10gb"),
    )
    assert rows[SECOND].utilisation == 93.0
    assert rows[SECOND].slices == ()
    two_gpus.divide("gpu1")
    row = nvml.rows(5)[FIRST]
    assert (row.slices, row.utilisation, row.silent) == ((), 93.0, {})


def test_traffic_is_measured_for_the_gpu_in_detail_only(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    far = 1 << 40
    two_gpus.traffic("gpu1", (far, far), (far, far))
    first = nvml.rows(10, detail=FIRST)[FIRST]
    assert {(getattr(first, name), first.silent.get(name)) for name in RATES} == {(None, None)}
    two_gpus.traffic("gpu1", (far + 2000, far + 4000), (far + 2048, far + 4096))
    rows = nvml.rows(12, detail=FIRST)
    assert [getattr(rows[FIRST], name) for name in RATES] == [1000, 2000, 1024, 2048]
    assert [getattr(rows[SECOND], name) for name in RATES] == [None] * 4
    two_gpus.traffic("gpu1", (1 << 33, far + 5000), (0, far + 4096))  # two counters began anew
    row = nvml.rows(13, detail=FIRST)[FIRST]
    assert [getattr(row, name) for name in RATES] == [None, 1000, None, 0]
    row = nvml.rows(14)[FIRST]
    assert [getattr(row, name) for name in RATES] == [None] * 4


def test_a_counter_that_may_wrap_is_not_trusted_with_the_traffic(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.traffic("gpu1", (2**32 - 1, 2**32 - 1), (0, 0))
    two_gpus.fail("gpu1", "nvmlDeviceGetFieldValues:138", NOT_SUPPORTED)
    nvml.rows(0, detail=FIRST)
    row = nvml.rows(1, detail=FIRST)[FIRST]
    assert (row.pcie_sent, row.pcie_received) == (488 * 1024, 341 * 1024)
    assert (row.nvlink_sent, row.nvlink_received) == (None, 0.0)
    assert row.silent == {"nvlink_sent": "not supported"}
    two_gpus.fail("gpu1", "nvmlDeviceGetFieldValues", FUNCTION_NOT_FOUND)
    two_gpus.fail("gpu1", "nvmlDeviceGetPcieThroughput:1", NO_PERMISSION)
    row = nvml.rows(2, detail=FIRST)[FIRST]
    assert (row.pcie_sent, row.pcie_received) == (488 * 1024, None)
    old = "not supported by this version of the driver"
    assert row.silent == {
        "pcie_received": "no permission",
        "nvlink_sent": old,
        "nvlink_received": old,
    }


def test_a_card_that_is_lost_while_its_traffic_is_measured_is_lost(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.fail("gpu1", "nvmlDeviceGetFieldValues", GPU_IS_LOST)
    assert nvml.rows(0, detail=FIRST)[FIRST].lost == sentence("gpu-does-not-answer-it-is-lost")
