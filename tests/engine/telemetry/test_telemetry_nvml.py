"""The real pynvml in a helper process, against a double of the driver's library."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from engine.telemetry.probe import ROOT, gpu_uuids, snapshot_once
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from engine.telemetry.stream import TelemetryStream
from tests.fake_nvml import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    LIBRARY,
    NOT_SUPPORTED,
    UNKNOWN,
    FakeNvml,
)

FIRST = "GPU-11111111-1111-1111-1111-111111111111"
SECOND = "GPU-22222222-2222-2222-2222-222222222222"


@pytest.fixture
def two_gpus(fake_nvml: FakeNvml) -> FakeNvml:
    """NVML lists the cards in the opposite of PCI order: index 0 is SECOND."""
    fake_nvml.add_gpu(SECOND, pci_bus="00000000:C1:00.0", name="NVIDIA GeForce RTX 4090")
    fake_nvml.add_gpu(FIRST, pci_bus="00000000:3B:00.0")
    return fake_nvml


def gpus_now() -> dict[str, DeviceSnapshot]:
    return {row.id: row for row in snapshot_once().devices if row.kind == "gpu"}


@contextmanager
def live() -> Iterator[Callable[[Callable[[Snapshot], bool]], Snapshot]]:
    """A function that waits for the first live snapshot which fulfils a condition."""
    arrived: queue.Queue[Snapshot] = queue.Queue()
    stream = TelemetryStream(arrived.put, interval=0.05)

    def wait_for(condition: Callable[[Snapshot], bool]) -> Snapshot:
        while True:
            snapshot = arrived.get(timeout=20)
            if condition(snapshot):
                return snapshot

    try:
        yield wait_for
    finally:
        stream.close()


def test_every_field_of_two_gpus_in_pci_order(two_gpus: FakeNvml) -> None:
    snapshot = snapshot_once()
    assert [row.id for row in snapshot.devices] == ["cpu", FIRST, SECOND]
    assert snapshot.gpu_note == ""
    assert snapshot.devices[1] == DeviceSnapshot(
        id=FIRST,
        kind="gpu",
        label="0",
        name="NVIDIA H100 80GB HBM3",
        memory_total=80 << 30,
        memory_used=30 << 30,  # without what the driver reserves
        utilisation=93.0,
        temperature=61.0,
        power=512.345,
        pci_bus="00000000:3B:00.0",
    )
    assert snapshot.devices[2].label == "1"
    assert gpu_uuids() == (FIRST, SECOND)


@pytest.mark.parametrize(
    ("functions", "field"),
    [
        (["nvmlDeviceGetPowerUsage"], "power"),
        (["nvmlDeviceGetUtilizationRates"], "utilisation"),
        (["nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"], "temperature"),
        (["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"], "memory_used"),
    ],
)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
def test_a_field_without_a_value_is_null_and_costs_no_other(
    two_gpus: FakeNvml, functions: list[str], field: str, code: int
) -> None:
    for function in functions:
        two_gpus.fail("gpu1", function, code)
    rows = gpus_now()
    values = {
        name: getattr(rows[FIRST], name)
        for name in ("memory_used", "utilisation", "temperature", "power")
    }
    assert values.pop(field) is None
    assert None not in values.values()
    assert rows[FIRST].lost is None
    assert getattr(rows[SECOND], field) is not None


def test_an_old_driver_answers_the_old_questions(two_gpus: FakeNvml) -> None:
    two_gpus.fail("gpu1", "nvmlDeviceGetMemoryInfo_v2", FUNCTION_NOT_FOUND)
    two_gpus.fail("gpu1", "nvmlDeviceGetTemperatureV", FUNCTION_NOT_FOUND)
    row = gpus_now()[FIRST]
    assert row.memory_used == (30 << 30) + (600 << 20)
    assert row.temperature == 61.0


def test_a_card_split_by_mig_has_no_utilisation(two_gpus: FakeNvml) -> None:
    two_gpus.answer("gpu1", "nvmlDeviceGetMigMode", 1, 1)
    rows = gpus_now()
    assert rows[FIRST].utilisation is None
    assert rows[SECOND].utilisation == 93.0


def test_a_card_lost_while_running_keeps_its_row_and_is_left_alone(two_gpus: FakeNvml) -> None:
    with live() as wait_for:
        wait_for(lambda snapshot: len(snapshot.devices) == 3)
        two_gpus.fail("gpu1", "*", GPU_IS_LOST)
        row = wait_for(lambda snapshot: snapshot.devices[1].lost is not None).devices[1]
        calls = two_gpus.calls().count
        before, before_other = (calls(f"gpu{i} nvmlDeviceGetPowerUsage") for i in (1, 0))
        other = wait_for(
            lambda _: two_gpus.calls().count("gpu0 nvmlDeviceGetPowerUsage") >= before_other + 3
        ).devices[2]
    assert (row.id, row.label, row.name) == (FIRST, "0", "NVIDIA H100 80GB HBM3")
    assert row.lost == "The GPU does not answer: GPU is lost."
    assert (row.memory_total, row.memory_used, row.utilisation) == (80 << 30, None, None)
    assert other.lost is None
    assert other.utilisation == 93.0
    assert two_gpus.calls().count("gpu1 nvmlDeviceGetPowerUsage") == before


def test_a_card_that_answers_nothing_but_unknown_errors_is_lost(two_gpus: FakeNvml) -> None:
    two_gpus.answer("gpu1", "nvmlDeviceGetMigMode", 0, 0)
    for function in ("MemoryInfo_v2", "UtilizationRates", "TemperatureV", "PowerUsage"):
        two_gpus.fail("gpu1", f"nvmlDeviceGet{function}", UNKNOWN)
    assert gpus_now()[FIRST].lost == "The GPU does not answer: Unknown Error."


def test_a_card_that_never_answered_is_spoken_of(two_gpus: FakeNvml) -> None:
    two_gpus.fail("gpu1", "*", GPU_IS_LOST)
    snapshot = snapshot_once()
    assert [row.id for row in snapshot.devices] == ["cpu", SECOND]
    assert snapshot.gpu_note == "1 of 2 GPUs cannot be reached: GPU is lost."


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (DRIVER_NOT_LOADED, "The NVIDIA driver is installed, but it is not loaded."),
        (LIB_RM_VERSION_MISMATCH, "The NVIDIA driver was replaced while it was in use: restart"),
        (UNKNOWN, "The NVIDIA driver does not answer: Unknown Error."),
    ],
)
def test_a_driver_that_cannot_start_leaves_the_cpu_and_a_sentence(
    fake_nvml: FakeNvml, code: int, note: str
) -> None:
    fake_nvml.fail("system", "nvmlInit", code)
    snapshot = snapshot_once()
    assert [row.id for row in snapshot.devices] == ["cpu"]
    assert snapshot.gpu_note.startswith(note)


def test_a_driver_without_cards_says_so(fake_nvml: FakeNvml) -> None:
    assert snapshot_once().gpu_note == "The NVIDIA driver finds no GPU."


def test_without_the_library_there_is_the_cpu_and_a_sentence(
    fake_nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands in the way of every real library, also on a machine that has a driver.
    (tmp_path / LIBRARY).write_bytes(b"not a library" * 100)
    folders = f"{tmp_path}{os.pathsep}{fake_nvml.environment['LD_LIBRARY_PATH']}"
    monkeypatch.setenv("LD_LIBRARY_PATH", folders)
    snapshot = snapshot_once()
    assert [row.id for row in snapshot.devices] == ["cpu"]
    assert snapshot.gpu_note == "No NVIDIA driver is installed (its library NVML was not found)."


def test_cards_come_back_when_the_driver_is_asked_again(two_gpus: FakeNvml) -> None:
    two_gpus.fail("system", "nvmlInit", DRIVER_NOT_LOADED)
    with samples_on_demand() as sample:
        assert sample().devices == ()
        two_gpus.answer("system", "nvmlInit")
        assert [row.lost for row in sample().devices] == [None, None]
        two_gpus.fail("gpu1", "*", GPU_IS_LOST)
        assert [bool(row.lost) for row in sample().devices] == [True, False]
        snapshot = sample()  # asks anew, in vain
        assert [bool(row.lost) for row in snapshot.devices] == [True, False]
        assert snapshot.gpu_note == ""
        two_gpus.answer("gpu1", "*")
        assert [row.lost for row in sample().devices] == [None, None]


@contextmanager
def samples_on_demand() -> Iterator[Callable[[], Snapshot]]:
    """A function that samples the GPUs in a helper, which looks for missing ones each time."""
    program = """
import sys, msgspec
from engine.telemetry import nvml
nvml.PROBE_INTERVAL = 0.0
source = nvml.Nvml()
for _ in sys.stdin:
    devices, note = source.sample()
    snapshot = {"time": 0, "devices": devices, "gpu_note": note}
    print(msgspec.json.encode(snapshot).decode(), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None
        requests, answers = helper.stdin, helper.stdout

        def sample() -> Snapshot:
            requests.write(b"\n")
            requests.flush()
            return msgspec.json.decode(answers.readline(), type=Snapshot)

        yield sample
