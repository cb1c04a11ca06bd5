"""Takes a snapshot of all devices of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterable

from engine.telemetry.helper.cpu import Cpu
from engine.telemetry.helper.nvml import Nvml
from engine.telemetry.snapshot import KnownGpu, Snapshot


class Sampler:
    """Samples CPU and GPUs. Only for the helper process, because a hanging driver blocks it."""

    def __init__(self, known: Iterable[KnownGpu] = ()) -> None:
        self._cpu = Cpu()
        self._nvml = Nvml(known=known)

    def sample(self, detail: str = "") -> Snapshot:
        """Return all devices, with traffic (PCIe, NVLink) only for the GPU with UUID `detail`."""
        cpu = self._cpu.sample()
        gpus = self._nvml.sample(detail)
        return Snapshot(
            time=time.time(),
            devices=(*gpus.devices, cpu),
            gpu_note=gpus.note,
            links=gpus.links,
        )
