"""Puts all devices of this machine in one snapshot."""

from __future__ import annotations

import time

from engine.telemetry.cpu import Cpu
from engine.telemetry.nvml import Nvml
from engine.telemetry.snapshot import Snapshot


class Sampler:
    """Asks every source in turn. Runs in a telemetry process only: a wedged driver blocks it."""

    def __init__(self) -> None:
        self._cpu = Cpu()
        self._nvml = Nvml()

    def sample(self) -> Snapshot:
        """The CPU, then the GPUs in PCI order."""
        cpu = self._cpu.sample()
        gpus, note = self._nvml.sample()
        return Snapshot(time=time.time(), devices=(cpu, *gpus), gpu_note=note)
