"""GPUs that are found, sleep, get lost and come back, whatever the order they are listed in."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli.devices import resolve_devices
from engine.cli.output import Refused
from engine.interface.local_engine import LocalEngine
from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.snapshot import DeviceSnapshot
from tests.engine.telemetry.conftest import FIRST, SECOND
from tests.support.fake_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    NO_PERMISSION,
    UNKNOWN,
    FakeNvml,
)
from tests.support.nvml_on_demand import NvmlOnDemand
from tests.support.sentences import sentence

ENGINE = LocalEngine()

IN_PCI_ORDER = [f"GPU-{number:08x}" for number in range(16)]
SHUFFLED = random.Random(7).sample(range(16), 16)
"""The place in PCI order of each GPU, by the driver's number."""


@pytest.fixture
def sixteen_gpus(fake_nvml: FakeNvml) -> FakeNvml:
    """NVML lists them in an order of its own."""
    for number in SHUFFLED:
        fake_nvml.add_gpu(IN_PCI_ORDER[number], pci_bus=f"00000000:{number * 15 + 1:02X}:00.0")
    return fake_nvml


def lost(rows: dict[str, DeviceSnapshot]) -> list[str]:
    return [uuid for uuid, row in rows.items() if row.lost]


@pytest.mark.parametrize("visible", [None, "3,1", IN_PCI_ORDER[5]])
def test_gpus_come_in_pci_order_with_the_drivers_numbers_whatever_is_visible_to_cuda(
    sixteen_gpus: FakeNvml, monkeypatch: pytest.MonkeyPatch, visible: str | None
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    snapshot = snapshot_once()
    *gpus, cpu = snapshot.devices
    assert (cpu.kind, cpu.index) == ("cpu", None)
    assert [row.id for row in gpus] == IN_PCI_ORDER
    assert [row.index for row in gpus] == [SHUFFLED.index(number) for number in range(16)]
    assert [row.label for row in gpus] == [str(row.index) for row in gpus]
    assert snapshot.gpu_note == ""
    assert len(snapshot.links) == 16 * 15 / 2


def test_a_new_order_of_the_driver_moves_no_figure_to_another_card(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.answer("gpu0", "nvmlDeviceGetPowerUsage", 1000)
    two_gpus.fail("gpu1", "*", GPU_IS_LOST)
    assert nvml.rows(0)[SECOND].power == 1.0
    for who, uuid, bus in (("gpu0", FIRST, "3B"), ("gpu1", SECOND, "C1")):
        two_gpus.answer(who, "nvmlDeviceGetUUID", uuid)
        two_gpus.answer(who, "nvmlDeviceGetPciInfo_v3", f"00000000:{bus}:00.0")
    two_gpus.answer("gpu1", "*")
    two_gpus.answer("gpu1", "nvmlDeviceGetPowerUsage", 2000)
    rows = nvml.rows(30)  # a connection that lists them the other way round
    assert (rows[FIRST].power, rows[SECOND].power) == (1.0, 2.0)


def test_a_lost_card_keeps_its_row_and_is_left_alone(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    nvml.rows(100)
    two_gpus.fail("gpu1", "nvmlDeviceGetPowerUsage", GPU_IS_LOST)
    before = time.time()
    rows = nvml.rows(101)
    row = rows[FIRST]
    assert (row.id, row.label, row.name) == (FIRST, "1", "NVIDIA H100 80GB HBM3")
    assert row.lost == sentence("gpu-does-not-answer-it-is-lost")
    assert row.lost_since is not None
    assert before <= row.lost_since <= time.time()
    assert (row.memory_total, row.memory_used, row.fan, row.silent) == (80 << 30, None, None, {})
    assert rows[SECOND].utilisation == 93.0
    calls = two_gpus.calls()
    for now in range(102, 106):
        assert nvml.rows(now)[FIRST] == row
    new = two_gpus.calls()[len(calls) :]
    assert [call for call in new if call.startswith("gpu1")] == []
    assert "system nvmlInit" not in new
    assert new.count("gpu0 nvmlDeviceGetPowerUsage") == 4


def test_a_lost_card_comes_back_within_5_s_and_nothing_is_asked_of_the_others_for_it(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    nvml.rows(100)
    two_gpus.fail("gpu1", "*", GPU_IS_LOST)
    since = nvml.rows(101)[FIRST].lost_since
    row = nvml.rows(106)[FIRST]  # it looked, in vain
    assert (bool(row.lost), row.lost_since) == (True, since)
    two_gpus.answer("gpu1", "*")
    assert lost(nvml.rows(110)) == [FIRST]
    calls = two_gpus.calls()
    row = nvml.rows(111)[FIRST]
    assert (row.lost, row.lost_since, row.utilisation, row.fan) == (None, None, 93.0, 48.0)
    new = two_gpus.calls()[len(calls) :]
    assert not {"system nvmlInit", "system nvmlShutdown", "gpu0 nvmlDeviceGetUUID"} & set(new)


def test_a_card_that_only_a_new_connection_brings_back_comes_back_after_30_s(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    nvml.rows(100)
    two_gpus.fail("gpu1", "nvmlDeviceGetPowerUsage", GPU_IS_LOST)
    since = nvml.rows(101)[FIRST].lost_since
    connections = {}
    for now in range(102, 132):
        row = nvml.rows(now)[FIRST]
        assert (bool(row.lost), row.lost_since) == (True, since)
        connections[now] = two_gpus.calls().count("system nvmlInit")
    assert (connections[130], connections[131]) == (1, 2)
    two_gpus.fail("gpu1", "nvmlDeviceGetHandleByIndex", GPU_IS_LOST)
    two_gpus.answer("gpu1", "nvmlDeviceGetPowerUsage", 1000)
    assert lost(nvml.rows(160)) == [FIRST]
    two_gpus.answer("gpu1", "nvmlDeviceGetHandleByIndex")
    rows = nvml.rows(161)
    assert two_gpus.calls().count("system nvmlInit") == 3
    assert lost(rows) == []
    assert [row.lost_since for row in rows.values()] == [None, None]


def test_another_card_in_the_place_of_a_lost_one_is_another_card(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    nvml.rows(100)
    two_gpus.fail("gpu1", "*", GPU_IS_LOST)
    nvml.rows(101)
    two_gpus.answer("gpu1", "*")
    two_gpus.answer("gpu1", "nvmlDeviceGetUUID", "GPU-new")
    assert lost(nvml.rows(106)) == [FIRST]
    rows = nvml.rows(131)
    assert lost(rows) == [FIRST]
    assert rows["GPU-new"].utilisation == 93.0


def test_a_card_that_answers_nothing_but_unknown_errors_is_lost(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    nvml.rows(100)
    for function in (
        "MemoryInfo_v2",
        "UtilizationRates",
        "TemperatureV",
        "PowerUsage",
        "ClockInfo",
    ):
        two_gpus.fail("gpu1", f"nvmlDeviceGet{function}", UNKNOWN)
    row = nvml.rows(101)[FIRST]
    assert row.lost == sentence("gpu-does-not-answer-unknown-error")
    assert row.memory_total == 80 << 30


def test_a_question_that_a_card_calls_invalid_has_no_value_and_the_card_is_not_lost(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.fail("gpu0", "nvmlDeviceGetPowerUsage", INVALID_ARGUMENT)
    two_gpus.fail("gpu1", "nvmlDeviceGetTemperatureThreshold", INVALID_ARGUMENT)
    for now in range(3):
        rows = nvml.rows(now)
        assert lost(rows) == []
    assert rows[SECOND].silent == {"power": "Invalid Argument"}
    assert rows[SECOND].utilisation == 93.0
    assert rows[FIRST].silent == {"temperature_slowdown": "Invalid Argument"}


def test_a_handle_that_the_driver_does_not_know_any_more_is_a_lost_card(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    nvml.rows(100)
    two_gpus.fail("gpu0", "*", INVALID_ARGUMENT)
    calls = two_gpus.calls()
    assert lost(nvml.rows(101)) == [SECOND]
    new = [call for call in two_gpus.calls()[len(calls) :] if call.startswith("gpu0")]
    assert new == ["gpu0 nvmlDeviceGetMemoryInfo_v2", "gpu0 nvmlDeviceGetUUID"], "and no more"
    two_gpus.answer("gpu0", "*")
    for function in ("MemoryInfo_v2", "UtilizationRates", "TemperatureV", "PowerUsage"):
        two_gpus.fail("gpu1", f"nvmlDeviceGet{function}", INVALID_ARGUMENT)
    assert lost(nvml.rows(102)) == [SECOND], "the other still tells its clocks"
    two_gpus.fail("gpu1", "nvmlDeviceGetClockInfo", INVALID_ARGUMENT)
    assert lost(nvml.rows(103)) == [FIRST, SECOND], "it says nothing but its name"


def test_a_card_that_says_nothing_for_lack_of_permission_is_not_lost(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    for function in ("MemoryInfo_v2", "MemoryInfo", "UtilizationRates", "TemperatureV"):
        two_gpus.fail("gpu1", f"nvmlDeviceGet{function}", NO_PERMISSION)
    for function in ("Temperature", "PowerUsage", "ClockInfo"):
        two_gpus.fail("gpu1", f"nvmlDeviceGet{function}", NO_PERMISSION)
    row = nvml.rows(0)[FIRST]
    assert row.lost is None
    assert row.silent["power"] == row.silent["memory_used"] == "no permission"


def test_a_card_that_never_answered_is_spoken_of_and_found_later(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    two_gpus.fail("gpu1", "*", GPU_IS_LOST)
    sample = nvml.sample(0)
    assert [row.id for row in sample.devices] == [SECOND]
    assert sample.note == sentence("of-gpus-cannot-be-reached-gpu")
    two_gpus.answer("gpu1", "*")
    sample = nvml.sample(30)
    assert [row.id for row in sample.devices] == [FIRST, SECOND]
    assert sample.note == ""


def test_a_card_that_is_lost_at_the_start_leaves_the_numbers_of_the_others_alone(
    fake_nvml: FakeNvml, nvml: NvmlOnDemand
) -> None:
    for number in range(8):
        fake_nvml.add_gpu(IN_PCI_ORDER[number], pci_bus=f"00000000:{number * 15 + 1:02X}:00.0")
    fake_nvml.fail("gpu5", "*", GPU_IS_LOST)
    there = [number for number in range(8) if number != 5]
    sample = nvml.sample(0)
    assert [(row.id, row.index, row.label) for row in sample.devices] == [
        (IN_PCI_ORDER[number], number, str(number)) for number in there
    ]
    snapshot = snapshot_once()
    assert snapshot.display_names()[IN_PCI_ORDER[6]] == "GPU 6"
    assert resolve_devices(ENGINE, "gpu:6,cuda:7") == (IN_PCI_ORDER[6], IN_PCI_ORDER[7])
    with pytest.raises(Refused, match=sentence("gpu-is-not-there-of-gpus").pattern):
        resolve_devices(ENGINE, "gpu:5")
    fake_nvml.answer("gpu5", "*")
    assert [row.index for row in nvml.sample(30).devices] == list(range(8))


def test_a_card_that_the_driver_no_longer_counts_keeps_its_number_and_so_do_the_others(
    fake_nvml: FakeNvml, nvml: NvmlOnDemand
) -> None:
    def list_cards(*numbers: int) -> None:
        for place, number in enumerate(numbers):
            bus = f"00000000:{number * 15 + 1:02X}:00.0"
            fake_nvml.answer(f"gpu{place}", "*")
            fake_nvml.answer(f"gpu{place}", "nvmlDeviceGetUUID", IN_PCI_ORDER[number])
            fake_nvml.answer(f"gpu{place}", "nvmlDeviceGetPciInfo_v3", bus)
        fake_nvml.answer("system", "nvmlDeviceGetCount", len(numbers))

    for number in range(4):
        fake_nvml.add_gpu(IN_PCI_ORDER[number], pci_bus=f"00000000:{number * 15 + 1:02X}:00.0")
    assert [row.index for row in nvml.sample(0).devices] == [0, 1, 2, 3]
    fake_nvml.fail("gpu1", "*", GPU_IS_LOST)
    nvml.sample(1)
    list_cards(0, 2, 3)
    for now in (31, 32, 62):
        rows = nvml.sample(now).devices
        assert [(row.id, row.index) for row in rows] == list(enumerated(4))
        assert lost(nvml.rows(now)) == [IN_PCI_ORDER[1]]
    list_cards(0, 1, 2, 3)
    nvml.sample(92)
    rows = nvml.sample(93).devices
    assert [(row.id, row.index, row.lost) for row in rows] == [
        (uuid, index, None) for uuid, index in enumerated(4)
    ]


def enumerated(count: int) -> Iterator[tuple[str, int]]:
    """The UUID and the number of the first GPUs."""
    return zip(IN_PCI_ORDER, range(count), strict=False)


def test_a_driver_that_goes_and_comes_takes_all_cards_along(
    two_gpus: FakeNvml, nvml: NvmlOnDemand
) -> None:
    nvml.rows(0)
    two_gpus.fail("system", "nvmlInit", DRIVER_NOT_LOADED)
    for who in ("gpu0", "gpu1"):
        two_gpus.fail(who, "*", DRIVER_NOT_LOADED)
    since = {uuid: row.lost_since for uuid, row in nvml.rows(1).items()}
    sample = nvml.sample(31)
    assert sample.note == sentence("nvidia-driver-is-installed-but-it-is-not-loaded")
    assert {row.id: row.lost_since for row in sample.devices} == since
    two_gpus.answer("system", "nvmlInit")
    for who in ("gpu0", "gpu1"):
        two_gpus.answer(who, "*")
    assert lost(nvml.rows(60)) == [FIRST, SECOND]
    sample = nvml.sample(61)
    assert sample.note == ""
    assert [(row.lost, row.lost_since) for row in sample.devices] == [(None, None)] * 2


def test_a_sleeping_card_is_not_touched(
    two_gpus: FakeNvml, nvml: NvmlOnDemand, pci_devices: Path
) -> None:
    nvml.rows(0)
    status = pci_devices / "0000:3b:00.0" / "power" / "runtime_status"
    status.parent.mkdir(parents=True)
    status.write_text("suspended\n")
    two_gpus.fail("gpu0", "*", GPU_IS_LOST)  # looking for this one must not wake the other
    calls = two_gpus.calls()
    for now in (1, 2, 60, 120):
        row = nvml.rows(now, detail=FIRST)[FIRST]
        assert (row.asleep, row.lost, row.memory_total, row.power, row.fan) == (
            True,
            None,
            80 << 30,
            None,
            None,
        )
    two_gpus.answer("gpu0", "*")
    assert lost(nvml.rows(125)) == []
    new = set(two_gpus.calls()[len(calls) :])
    others = {call for call in new if not call.startswith("gpu0")}
    assert others == {"system nvmlSystemGetDriverVersion"}
    status.write_text("active\n")
    row = nvml.rows(126)[FIRST]
    assert (row.asleep, row.power, row.fan) == (False, 512.345, 48.0)
