"""Samples the GPUs in a separate process, once for each request of a test.

As a program it reads a question a line, and prints what engine.telemetry.helper.nvml answers: the
real pynvml loads the double of the driver there, because it finds it by its environment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

import msgspec

from engine.telemetry.helper_client import ROOT
from engine.telemetry.snapshot import DeviceSnapshot, Link


class Question(msgspec.Struct):
    """A request for one sample."""

    now: float
    """The time of the helper's clock, in seconds."""

    detail: str = ""


class Sample(msgspec.Struct):
    """The result of `Nvml.sample`."""

    devices: tuple[DeviceSnapshot, ...]
    note: str
    links: tuple[Link, ...]


class NvmlOnDemand:
    """The process; as a context manager, ends it."""

    def __init__(self, pci_devices: Path) -> None:
        """`pci_devices` replaces the folder in which Linux describes the cards."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.nvml_on_demand", str(pci_devices)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def sample(self, now: float, detail: str = "") -> Sample:
        """Return the GPUs at the time `now`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(Question(now, detail)) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Sample)

    def rows(self, now: float, detail: str = "") -> dict[str, DeviceSnapshot]:
        """Return the GPUs at the time `now`, by UUID."""
        return {row.id: row for row in self.sample(now, detail).devices}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def main() -> None:
    """Answer requests until the input ends."""
    from engine.telemetry.helper import runtime_suspend
    from engine.telemetry.helper.nvml import Nvml

    runtime_suspend.PCI_DEVICES = Path(sys.argv[1])
    now = 0.0
    nvml = Nvml(clock=lambda: now)
    for line in sys.stdin:
        question = msgspec.json.decode(line, type=Question)
        now = question.now
        devices, note, links = nvml.sample(question.detail)
        print(msgspec.json.encode(Sample(devices, note, links)).decode(), flush=True)


if __name__ == "__main__":
    main()
