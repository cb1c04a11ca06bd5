"""When the memory of a machine counts as scarce."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from engine.processes import scarce_memory
from engine.processes.scarce_memory import MemoryWatch


class Machine:
    """Has 100 bytes of memory, and a kernel that counts whom it has killed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.free = 50
        self.set_kills(3)

    def set_kills(self, count: int) -> None:
        self._file.write_text(f"nr_free_pages 4711\noom_kill {count}\n")

    def virtual_memory(self) -> SimpleNamespace:
        return SimpleNamespace(available=self.free, total=100)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "vmstat")
    monkeypatch.setattr(scarce_memory, "_VMSTAT", tmp_path / "vmstat")
    monkeypatch.setattr(psutil, "virtual_memory", found.virtual_memory)
    return found


def test_a_kill_of_the_kernel_counts_from_the_beginning_of_the_watch_on(machine: Machine) -> None:
    watch = MemoryWatch()
    assert not watch.was_scarce
    machine.set_kills(4)
    assert watch.was_scarce
    assert not MemoryWatch().was_scarce


def test_little_free_memory_at_one_look_counts(machine: Machine) -> None:
    watch = MemoryWatch()
    machine.free = 9
    watch.look()
    machine.free = 50  # the process that held it was killed
    watch.look()
    assert watch.was_scarce


def test_a_kernel_that_does_not_count_leaves_what_was_free(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scarce_memory, "_VMSTAT", tmp_path / "none")
    assert not MemoryWatch().was_scarce
    machine.free = 5
    assert MemoryWatch().was_scarce


def test_the_kernel_of_this_machine_is_read() -> None:
    assert MemoryWatch().was_scarce in (False, True)
