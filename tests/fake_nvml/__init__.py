"""Builds and drives a double of the NVIDIA driver's library (see fake_nvml.c)."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"

NOT_SUPPORTED = 3
DRIVER_NOT_LOADED = 9
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999
NEVER = -2
"""Not a code of NVML: the call does not return."""


def build_library() -> Path:
    """The folder that holds the compiled double; compiled once per version of the source.

    Raises RuntimeError where there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("The tests of the GPU telemetry need a C compiler: install gcc.")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"traindeck-fake-nvml-{os.getuid()}-{digest}"
    library = folder / LIBRARY
    if not library.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        temporary = folder / f"{LIBRARY}.{os.getpid()}"
        flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        command = [compiler, *flags, f"-Wl,-soname,{LIBRARY}", str(SOURCE), "-o", str(temporary)]
        subprocess.run(command, check=True)
        temporary.replace(library)
    return folder


class FakeNvml:
    """A driver whose answers the test sets, before and while a process uses it."""

    def __init__(self, folder: Path) -> None:
        """`folder` (of this test) takes the answers and the list of calls."""
        self._library = build_library()
        self._answers = folder / "nvml-answers.txt"
        self._calls = folder / "nvml-calls.txt"
        self._lines: dict[tuple[str, str], str] = {}
        self._count = 0
        self.answer("system", "nvmlInit")
        self.answer("system", "nvmlDeviceGetCount", 0)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to meet this driver."""
        return {
            "LD_LIBRARY_PATH": str(self._library),
            "FAKE_NVML_ANSWERS": str(self._answers),
            "FAKE_NVML_CALLS": str(self._calls),
        }

    def answer(self, who: str, function: str, *values: int | str) -> None:
        """From now on `function` succeeds for `who` (`system`, `gpu0`, ...) with `values`."""
        self._set(who, function, 0, *values)

    def fail(self, who: str, function: str, code: int) -> None:
        """From now on `function` (`*`: every one) returns the error `code` for `who`."""
        self._set(who, function, code)

    def calls(self) -> list[str]:
        """Every call so far, such as `gpu0 nvmlDeviceGetPowerUsage`."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def add_gpu(self, uuid: str, *, pci_bus: str, name: str = "NVIDIA H100 80GB HBM3") -> str:
        """Add a card with plausible values; returns its name here (`gpu0`, ...)."""
        who = f"gpu{self._count}"
        self._count += 1
        values: dict[str, tuple[int | str, ...]] = {
            "nvmlDeviceGetHandleByIndex": (),
            "nvmlDeviceGetUUID": (uuid,),
            "nvmlDeviceGetName": (name,),
            "nvmlDeviceGetPciInfo_v3": (pci_bus,),
            "nvmlDeviceGetMemoryInfo_v2": (80 << 30, 600 << 20, 30 << 30),
            "nvmlDeviceGetMemoryInfo": (80 << 30, (30 << 30) + (600 << 20)),
            "nvmlDeviceGetUtilizationRates": (93, 41),
            "nvmlDeviceGetTemperatureV": (61,),
            "nvmlDeviceGetTemperature": (61,),
            "nvmlDeviceGetPowerUsage": (512_345,),
        }
        for function, value in values.items():
            self.answer(who, function, *value)
        self.answer("system", "nvmlDeviceGetCount", self._count)
        return who

    def _set(self, who: str, function: str, code: int, *values: int | str) -> None:
        self._lines[who, function] = " ".join(map(str, (who, function, code, *values)))
        temporary = self._answers.with_suffix(".new")
        temporary.write_text("\n".join(self._lines.values()) + "\n")
        temporary.replace(self._answers)  # the library never sees half a file
