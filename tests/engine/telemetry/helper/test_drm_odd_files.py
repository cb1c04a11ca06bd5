"""Odd files of AMD and Intel cards: no error, and no number that cannot be."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engine.telemetry.helper import nvml_processes
from engine.telemetry.helper.drm_cards import SLOW_INTERVAL
from engine.telemetry.helper.nvml_fields import MOST_BYTES
from engine.telemetry.helper.nvml_processes import describe_process
from engine.telemetry.snapshot import DeviceSnapshot
from tests.engine.telemetry.helper.test_drm_cards import Machine
from tests.support.drm_double import GIB, write_files

BUS = "0000:03:00.0"
SERIAL = "8d2c0a4b5c6d7e8f"
ODD = (b"", b"\xff\xfe\x00\x80", b"18446744073709551615\n", b"nan", b"inf", b"-1", b"9" * 5000)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a card of each maker, a process, and a clock that the test moves."""
    made = Machine(tmp_path)
    made.add_amd(BUS, {"ras/umc_err_count": "ue: 1\nce: 7\n"}, SERIAL)
    made.add_intel("0000:0a:00.0")
    keys = {"drm-pdev": BUS, "drm-client-id": "1", "drm-memory-vram": "2048 KiB"}
    made.add_connection(os.getpid(), 7, keys)
    kfd = made.system / "class/kfd/kfd/proc"
    write_files(kfd, {f"{os.getpid()}/vram_5000": str(GIB)})
    return made


def check(rows: tuple[DeviceSnapshot, ...]) -> None:
    """Fail if a snapshot cannot be sent, or has a number that no card can have."""
    assert msgspec.json.decode(msgspec.json.encode(rows), type=tuple[DeviceSnapshot, ...]) == rows
    for row in rows:
        sizes = [row.memory_total, row.memory_used, row.memory_free]
        sizes += [process.memory for process in row.processes or ()]
        assert all(size is None or 0 <= size <= MOST_BYTES for size in sizes)
        if row.memory_used is not None and row.memory_total is not None:
            assert row.memory_used <= row.memory_total
        assert row.utilisation is None or 0 <= row.utilisation <= 100
        for value in (row.temperature, row.power, row.clock, row.fan, row.ecc_uncorrected):
            assert value is None or -60 <= value <= 2**48


def test_no_content_of_a_file_is_an_error_or_a_number_that_cannot_be(machine: Machine) -> None:
    files = [file for file in machine.system.parent.rglob("*") if file.is_file()]
    assert len(files) > 30
    for file in files:
        usual = file.read_bytes()
        for content in ODD:
            file.write_bytes(content)
            check(machine.sample(SLOW_INTERVAL))
        file.unlink()
        file.mkdir()
        check(machine.sample(SLOW_INTERVAL))
        file.rmdir()
        check(machine.sample(SLOW_INTERVAL))
        file.write_bytes(usual)
    amd = next(row for row in machine.sample(SLOW_INTERVAL) if row.id == f"GPU-{SERIAL}")
    assert (amd.lost, amd.memory_used, amd.ecc_corrected) == (None, 6 * GIB, 7)


def test_a_card_or_a_process_may_go_at_any_read(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = [0, 0]
    away = machine.system.parent / "away"
    read: Callable[..., str] = Path.read_text

    def may_be_last(file: Path, *options: str, **more: str) -> str:
        reads[0] += 1
        if reads[0] == reads[1]:
            away.mkdir()
            machine.system.rename(away / "sys")
            machine.proc.rename(away / "proc")
        return read(file, *options, **more)

    monkeypatch.setattr(Path, "read_text", may_be_last)
    for last in range(1, 200):
        reads[:] = [0, last]
        check(machine.sample(SLOW_INTERVAL))
        if not away.exists():
            break
        (away / "sys").rename(machine.system)
        (away / "proc").rename(machine.proc)
        away.rmdir()
    assert 40 < last < 199


@pytest.mark.parametrize("serial", ["0000000000000000", "no number", SERIAL])
def test_two_cards_with_one_serial_number_or_none_are_two(tmp_path: Path, serial: str) -> None:
    machine = Machine(tmp_path)
    for number in range(8):
        machine.add_amd(f"0000:{number + 3:02x}:00.0", serial=serial)
    first, *others = machine.sample()
    assert re.fullmatch(f"GPU-(amd0|{SERIAL})", first.id)
    assert [card.id for card in others] == [f"GPU-amd{number}" for number in range(1, 8)]


def test_a_card_keeps_its_name_when_the_one_before_it_goes(tmp_path: Path) -> None:
    """A run on the second card must not see the first one's loss as its own."""
    machine = Machine(tmp_path)
    machine.add_amd(BUS)
    machine.add_amd("0000:0c:00.0")
    machine.sample()
    (machine.system / "class/kfd/kfd/topology/nodes/1/gpu_id").write_text("0")
    first, second = machine.sample(SLOW_INTERVAL)
    assert (first.id, bool(first.lost)) == ("GPU-amd0", True)
    assert (second.id, second.lost, second.pci_bus) == ("GPU-amd1", None, "0000:0c:00.0")


def test_a_node_without_a_render_node_counts_but_is_no_device(machine: Machine) -> None:
    """ROCm numbers it: the numbers of the cards after it stay right."""
    nodes = machine.system / "class/kfd/kfd/topology/nodes"
    write_files(nodes / "1", {"properties": "drm_render_minor 0\n"})
    machine.add_amd("0000:0c:00.0")
    assert [card.id for card in machine.sample() if not card.lost] == ["GPU-intel0", "GPU-amd1"]


def test_a_size_that_the_driver_does_not_tell_is_unknown(machine: Machine) -> None:
    machine.add_connection(os.getppid(), 5, {"drm-pdev": BUS, "drm-client-id": "9"})
    amd = machine.sample()[0]
    assert amd.processes is not None
    assert {each.pid: each.memory for each in amd.processes}[os.getppid()] is None


def test_a_process_may_have_a_name_that_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_processes.psutil.Process, "name", lambda process: "tr\udcffin")
    described = describe_process(os.getpid(), None)
    assert msgspec.json.encode(described)
    assert described.name == "tr\ufffdin"
