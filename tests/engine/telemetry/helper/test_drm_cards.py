"""AMD and Intel cards, as the files of a double of Linux show them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from engine.telemetry.helper.drm_cards import SLOW_INTERVAL, DrmCards
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from tests.support.drm_double import GIB, DrmDouble, write_files


class Machine(DrmDouble):
    """A machine whose clock the test moves."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.now = 100.0
        self.cards = DrmCards(root=folder, clock=lambda: self.now)

    def sample(self, seconds: float = 0.0) -> tuple[DeviceSnapshot, ...]:
        self.now += seconds
        return self.cards.sample(first_index=0)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_card_of_amd_has_the_values_of_its_files(machine: Machine) -> None:
    machine.add_amd("0000:03:00.0", {"ras/umc_err_count": "ue: 1\nce: 7\n"}, "8d2c0a4b5c6d7e8f")
    (card,) = machine.sample()
    assert card.id == "GPU-8d2c0a4b5c6d7e8f"
    assert (card.memory_total, card.memory_used, card.memory_free) == (24 * GIB, 6 * GIB, 18 * GIB)
    assert (card.utilisation, card.temperature, card.temperature_slowdown) == (87, 74, 110)
    assert (card.power, card.power_limit, card.fan) == (pytest.approx(287), pytest.approx(327), 40)
    assert (card.clock, card.memory_clock) == (pytest.approx(2304), pytest.approx(1249))
    assert (card.ecc_uncorrected, card.ecc_corrected) == (1, 7)
    assert "AMD" in card.name


def test_what_amd_does_not_tell_is_unknown_and_says_why(machine: Machine) -> None:
    """Garbage, a missing sensor and memory that is not counted are no zeros."""
    files = {"mem_info_vram_total": "0", "gpu_busy_percent": "255"}
    device = machine.add_amd("0000:03:00.0", files)
    for name in ("pwm1", "power1_average"):
        (device / "hwmon/hwmon4" / name).unlink()
    (card,) = machine.sample()
    unknown = ("memory_total", "memory_used", "utilisation", "fan", "power", "ecc_corrected")
    assert [getattr(card, name) for name in unknown] == [None] * len(unknown)
    assert set(unknown) <= set(card.silent)
    assert card.lost is None


def test_a_card_without_a_serial_number_has_that_of_rocm(machine: Machine) -> None:
    machine.add_amd("0000:0c:00.0", serial="00000000deadbeef")
    machine.add_amd("0000:03:00.0")
    first, second = machine.sample()
    assert (first.id, first.index) == ("GPU-amd1", 0)
    assert (second.id, second.index) == ("GPU-00000000deadbeef", 1)


def test_intels_power_and_utilisation_are_changes_of_counters(machine: Machine) -> None:
    device = machine.add_intel("0000:03:00.0")
    (first,) = machine.sample()
    assert (first.power, first.utilisation) == (None, None)
    assert (first.power_limit, first.temperature, first.clock) == (pytest.approx(190), 58, 2400)
    more = {
        "hwmon/hwmon5/energy1_input": "121000000",
        "tile0/gt0/gtidle/idle_residency_ms": "5250",
    }
    write_files(device, more)
    (second,) = machine.sample(seconds=1.0)
    assert (second.power, second.utilisation) == (pytest.approx(120), pytest.approx(75))
    assert second.memory_total is None
    assert second.silent["memory_total"]


def test_graphics_within_a_processor_is_no_device(machine: Machine) -> None:
    device = machine.add_intel("0000:00:02.0")
    (device / "hwmon/hwmon5/energy1_input").unlink()
    machine.add_intel("0000:03:00.0")
    assert [card.id for card in machine.sample()] == ["GPU-intel1"]


def test_a_card_that_vanishes_is_lost_and_may_return(machine: Machine) -> None:
    device = machine.add_amd("0000:03:00.0", serial="8d2c0a4b5c6d7e8f")
    machine.sample()
    away = device.rename(device.with_name("away"))
    (gone,) = machine.sample(seconds=SLOW_INTERVAL)
    assert gone.lost
    assert gone.lost_since
    assert gone.utilisation is None
    snapshot = Snapshot(time=0.0, devices=(gone,))
    assert snapshot.selectable_gpus() == ()
    away.rename(device)
    (back,) = machine.sample(seconds=SLOW_INTERVAL)
    assert back.lost is None
    assert back.utilisation == 87
    # A helper that is started after it went still shows its row.
    shutil.rmtree(machine.system)
    later = DrmCards(snapshot.known_gpus(), machine.system.parent)
    assert [card.id for card in later.sample(0) if card.lost] == [gone.id]


def test_a_card_whose_driver_fails_is_lost_until_it_answers(machine: Machine) -> None:
    device = machine.add_amd("0000:03:00.0")
    machine.sample()
    for file in (*device.glob("hwmon/hwmon4/*_input"), device / "mem_info_vram_used"):
        file.write_text("")
    (card,) = machine.sample(seconds=1.0)
    assert card.lost
    assert not card.silent
    write_files(device, {"hwmon/hwmon4/temp2_input": "50000"})
    (card,) = machine.sample(seconds=1.0)
    assert card.lost is None


def test_a_card_that_sleeps_is_not_read(machine: Machine) -> None:
    machine.add_amd("0000:03:00.0", {"power/runtime_status": "suspended\n"})
    (card,) = machine.sample()
    assert card.asleep
    assert card.lost is None
    assert card.temperature is None


def test_the_processes_of_a_card_have_their_memory_on_it(machine: Machine) -> None:
    """A copied descriptor counts once, and ROCm's own list reaches other users' processes."""
    machine.add_amd("0000:03:00.0")
    me, other = os.getpid(), os.getppid()
    draws = {"drm-driver": "amdgpu", "drm-pdev": "0000:03:00.0", "drm-client-id": "12"}
    machine.add_connection(me, 7, draws | {"drm-memory-vram": "2048 KiB"})
    machine.add_connection(me, 8, draws | {"drm-memory-vram": "2048 KiB"})
    machine.add_connection(me, 9, draws | {"drm-client-id": "13", "drm-memory-vram": "1 MiB"})
    kfd = machine.system / "class/kfd/kfd/proc"
    write_files(kfd, {f"{other}/vram_5000": str(3 * GIB), f"{other}/vram_77": "5"})
    (card,) = machine.sample()
    assert card.processes is not None
    assert {process.pid: process.memory for process in card.processes} == {
        me: 3 * 2**20,
        other: 3 * GIB,
    }
    assert all(process.started for process in card.processes)


def test_intels_processes_are_found_by_the_keys_of_its_driver(machine: Machine) -> None:
    machine.add_intel("0000:03:00.0")
    keys = {"drm-driver": "xe", "drm-pdev": "0000:03:00.0", "drm-client-id": "1"}
    machine.add_connection(os.getpid(), 7, keys | {"drm-resident-vram0": "512 MiB"})
    (card,) = machine.sample()
    assert card.processes is not None
    assert [process.memory for process in card.processes] == [512 * 2**20]
