"""AMD and Intel cards from the files of a double, through the helper's process, to the window."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import psutil
import pytest
from pytestqt.qtbot import QtBot

from engine.cli.devices import resolve_devices
from engine.interface.local_engine import LocalEngine
from engine.telemetry.alarms import AlarmKind, Alarms
from engine.telemetry.given_gpus import given_gpus
from engine.telemetry.helper.drm_cards import ROOT
from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.memory_attribution import Worker, memory_uses
from engine.telemetry.snapshot import Snapshot
from gui.devices import device_text
from gui.devices.device_list import DeviceList
from gui.run_form.devices.device_choice import DeviceChoice
from gui.style.device_labels import name_devices
from tests.gui.devices.device_lists import devices
from tests.support.drm_double import GIB, DrmDouble, write_files

__all__ = ["devices"]

BUSY, FREE, SECOND = "GPU-8d2c0a4b5c6d7e8f", "GPU-amd1", "GPU-amd2"
INTEL = "GPU-intel0"
HOT = {
    "ras/umc_err_count": "ue: 0\nce: 7\n",
    "mem_info_vram_used": str(23 * GIB),
    "hwmon/hwmon4/temp2_input": "107000",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DrmDouble:
    """Three AMD cards, of which this process uses the first, and one of Intel."""
    double = DrmDouble(tmp_path)
    double.add_amd("0000:03:00.0", HOT, BUSY.removeprefix("GPU-"))
    double.add_amd("0000:04:00.0", {"mem_info_vram_used": "0"})
    double.add_amd("0000:05:00.0", {"mem_info_vram_used": "0"})
    double.add_intel("0000:06:00.0")
    connection = {"drm-pdev": "0000:03:00.0", "drm-client-id": "1"}
    double.add_connection(os.getpid(), 7, connection | {"drm-memory-vram": "20 MiB"})
    kfd = double.system / "class/kfd/kfd/proc"
    write_files(kfd, {f"{os.getpid()}/vram_5000": str(22 * GIB)})
    monkeypatch.setenv(ROOT, str(tmp_path))
    return double


def sampled() -> Snapshot:
    """A snapshot of the helper's process, without GPUs of NVIDIA that this machine may have."""
    found = snapshot_once()
    ours = {BUSY, FREE, SECOND, INTEL, "cpu"}
    return msgspec.structs.replace(
        found, devices=tuple(each for each in found.devices if each.id in ours)
    )


@pytest.mark.usefixtures("processes")
def test_their_rows_alarms_memory_and_suggestion_come_from_the_files(
    machine: DrmDouble, devices: DeviceList, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    snapshot = sampled()
    rows = {device.id: device for device in snapshot.devices}
    assert list(rows) == [BUSY, FREE, SECOND, INTEL, "cpu"]

    begun = psutil.Process().create_time()
    worker = Worker("#7", rank=0, pid=os.getpid(), start_event_time=begun, devices=(BUSY,))
    uses = memory_uses(snapshot.devices, [worker])
    assert [each.total for each in uses[BUSY].ours] == [22 * GIB]
    assert not uses[BUSY].others

    devices.show_snapshot(snapshot)
    assert "memory 23.0 of 24.0 GiB" in devices.row(BUSY).accessibleName()
    assert "hot: 107 / 110 °C" in devices.row(BUSY).accessibleName()
    spoken = devices.row(INTEL).accessibleName()
    assert "utilisation n/a, memory n/a" in spoken
    assert rows[INTEL].silent["memory_used"] in device_text.tooltip(rows[INTEL])

    alarms = Alarms()
    raised = {(each.alarm.device, each.alarm.kind) for each in alarms.update(snapshot)}
    assert raised == {(BUSY, AlarmKind.HOT), (BUSY, AlarmKind.MEMORY)}

    choice = DeviceChoice()
    qtbot.addWidget(choice)
    choice.show_uses(uses)
    choice.show_snapshot(snapshot)
    assert choice.devices() == (FREE,)
    choice.cpu.click()
    choice.suggest()
    assert choice.devices() == (FREE, SECOND)  # none of Intel: two makers' do not train together

    # Errors that cannot be repaired, then the card's end.
    device = machine.system / "class/drm/card0/device"
    write_files(device, {"ras/umc_err_count": "ue: 2\nce: 7\n"})
    raised = {(each.alarm.device, each.alarm.kind) for each in alarms.update(sampled())}
    assert raised == {(BUSY, AlarmKind.ECC)}
    for file in (*device.glob("hwmon/hwmon4/*_input"), device / "mem_info_vram_used"):
        file.unlink()
    gone = sampled()
    raised = {(each.alarm.device, each.alarm.kind) for each in alarms.update(gone)}
    assert raised == {(BUSY, AlarmKind.LOST)}
    assert given_gpus(gone).uuids == (FREE, SECOND, INTEL)
    number = next(row.index for row in gone.devices if row.id == SECOND)
    assert resolve_devices(LocalEngine(), f"gpu:{number}") == (SECOND,)


def test_a_name_that_begins_another_is_not_taken_for_it() -> None:
    names = {f"GPU-amd{number}": f"GPU {number}" for number in range(12)}
    assert name_devices("GPU-amd11 and GPU-amd1 are lost.", names) == "GPU 11 and GPU 1 are lost."
