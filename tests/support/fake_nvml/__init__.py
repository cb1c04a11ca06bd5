"""A double of the NVIDIA driver: the real pynvml loads it, and a test says what it answers."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.support.fake_nvml.cards import KIB, card, slice_of
from tests.support.fake_nvml.library import build_library
from tools.record_gpus import Recording

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999
NEVER = -2
"""Not a code of NVML: the call does not return."""

CRASH = -3
"""Not a code of NVML: the call takes the process along."""

NVLINK = 2
"""The kind of connection that nvmlDeviceGetP2PStatus is asked for."""

P2P_NOT_SUPPORTED = 5
"""What it answers where there is none."""

RECORDED_H100 = Path(__file__).parent / "recorded_h100.json"
"""What the driver 580.159.04 of a real, idle H100 answered; its UUID is made up."""

Values = Sequence[int | str]


class FakeNvml:
    """A driver whose answers the test sets, before and while a process uses it."""

    def __init__(self, folder: Path, *, old_driver: bool = False) -> None:
        """`folder` (of this test) takes the answers and the list of calls.

        An old driver lacks the functions that came with R510 and later.
        """
        self._library = build_library(old_driver)
        self._folder = folder
        self._calls = folder / "calls"
        self._lines: dict[tuple[str, str], str] = {}
        self._count = 0
        version = folder / "version"
        version.write_bytes(bytes(8))
        with version.open("r+b") as file:
            self._version = mmap.mmap(file.fileno(), 8)
        self._set("system", "nvmlInit", 0)
        self._set("system", "nvmlSystemGetDriverVersion", 0, "580.95.05")
        self._set("system", "nvmlSystemGetCudaDriverVersion", 0, 13000)
        self.answer("system", "nvmlDeviceGetCount", 0)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to meet this driver."""
        return {
            "LD_LIBRARY_PATH": str(self._library),
            "FAKE_NVML": str(self._folder),
            "FAKE_NVML_CALLS": str(self._calls),
        }

    def answer(self, who: str, function: str, *values: int | str) -> None:
        """From now on `function` succeeds for `who` (`system`, `gpu0`, ...) with `values`."""
        self._set(who, function, 0, *values)
        self._publish()

    def fail(self, who: str, function: str, code: int) -> None:
        """From now on `function` (`*`: every one) returns the error `code` for `who`."""
        self._set(who, function, code)
        self._publish()

    def calls(self) -> list[str]:
        """Every call so far, such as `gpu0 nvmlDeviceGetPowerUsage`."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def add_gpu(self, uuid: str, *, pci_bus: str, name: str = "NVIDIA H100 80GB HBM3") -> str:
        """Add a busy card that answers everything; returns its name here (`gpu0`, ...)."""
        who = f"gpu{self._count}"
        self._count += 1
        for function, values in card(uuid, pci_bus, name).items():
            self._set(who, function, 0, *values)
        for other in (f"gpu{index}" for index in range(self._count - 1)):
            self._set_link(who, other, ancestor=50, nvlink=False)
        self.answer("system", "nvmlDeviceGetCount", self._count)
        return who

    def link(self, who: str, other: str, *, ancestor: int = 50, nvlink: bool = False) -> None:
        """How two cards are joined: NVML's level of their common ancestor, and by NVLink or not."""
        self._set_link(who, other, ancestor=ancestor, nvlink=nvlink)
        self._publish()

    def run(
        self,
        who: str,
        compute: Sequence[tuple[int, int | None]],
        graphics: Sequence[tuple[int, int | None]] = (),
    ) -> None:
        """These processes (pid, bytes or None for unknown) use the card now."""
        for kind, entries in (("Compute", compute), ("Graphics", graphics)):
            values = [n for pid, size in entries for n in (pid, -1 if size is None else size)]
            for version in ("v2", "v3"):
                self._set(who, f"nvmlDeviceGet{kind}RunningProcesses_{version}", 0, *values)
        self._publish()

    def divide(self, who: str, *profiles: str, most: int = 7) -> None:
        """Divide the card by MIG, one slice a profile (`1g.10gb`); without any, undo it."""
        self._set(who, "nvmlDeviceGetMigMode", 0, bool(profiles), bool(profiles))
        self._set(who, "nvmlDeviceGetMaxMigDeviceCount", 0, most)
        by_index = "nvmlDeviceGetMigDeviceHandleByIndex"
        for index in range(most):
            self._set(who, f"{by_index}:{index}", NOT_FOUND if index >= len(profiles) else 0)
        for index, profile in enumerate(profiles):
            for function, values in slice_of(who, index, profile).items():
                self._set(f"{who}.mig{index}", function, 0, *values)
        self._publish()

    def traffic(self, who: str, pcie: tuple[int, int], nvlink: tuple[int, int]) -> None:
        """The counters of bytes sent and received so far, by PCIe and by NVLink."""
        for field, total in zip((197, 198), pcie, strict=True):
            self._set(who, f"nvmlDeviceGetFieldValues:{field}", 0, total)
        for field, total in zip((138, 139), nvlink, strict=True):
            self._set(who, f"nvmlDeviceGetFieldValues:{field}", 0, total // KIB)
        self._publish()

    def replay(self, recording: Path) -> None:
        """Become the machine that `python -m tools.record_gpus` saved."""
        self._lines.clear()
        for answer in msgspec.json.decode(recording.read_bytes(), type=Recording).answers:
            self._set(answer.who, answer.function, answer.code, *answer.values)
        self._publish()

    def _set_link(self, who: str, other: str, *, ancestor: int, nvlink: bool) -> None:
        for first, second in ((who, other), (other, who)):
            self._set(first, f"nvmlDeviceGetTopologyCommonAncestor:{second}", 0, ancestor)
            status = 0 if nvlink else P2P_NOT_SUPPORTED
            self._set(first, f"nvmlDeviceGetP2PStatus:{second}:{NVLINK}", 0, status)

    def _set(self, who: str, function: str, code: int, *values: int | str) -> None:
        if ":" not in function:  # it now holds for whatever is asked
            for other in [o for w, o in self._lines if w == who and o.startswith(f"{function}:")]:
                del self._lines[who, other]
        words = (int(value) if isinstance(value, bool) else value for value in values)
        self._lines[who, function] = " ".join(map(str, (who, function, code, *words)))

    def _publish(self) -> None:
        new = self._folder / "answers.new"
        new.write_text("\n".join(self._lines.values()) + "\n")
        new.replace(self._folder / "answers")  # the library never sees half a file
        (version,) = struct.unpack("Q", self._version[:])
        self._version[:] = struct.pack("Q", version + 1)
