"""Puts all devices of this machine in one snapshot."""

from __future__ import annotations

import time

from engine.telemetry.helper.cpu import Cpu
from engine.telemetry.helper.nvml import Nvml
from engine.telemetry.snapshot import Snapshot


class Sampler:
    """Samples CPU and GPUs. Only for the helper process: a hanging driver blocks it."""

    def __init__(self) -> None:
        self._cpu = Cpu()
        self._nvml = Nvml()

    def sample(self, detail: str = "") -> Snapshot:
        """Return all devices; traffic (PCIe, NVLink) only of the GPU with the UUID `detail`."""
        cpu = self._cpu.sample()
        gpus = self._nvml.sample(detail)
        return Snapshot(
            time=time.time(),
            devices=(*gpus.devices, cpu),
            gpu_note=gpus.note,
            links=gpus.links,
        )
