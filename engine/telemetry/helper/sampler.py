"""Takes a snapshot of all devices of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterable

from engine.telemetry.gpu_makers import gpu_maker
from engine.telemetry.helper.cpu import Cpu
from engine.telemetry.helper.drm_cards import DrmCards
from engine.telemetry.helper.nvml import Nvml
from engine.telemetry.helper.nvml_errors import NOT_INSTALLED
from engine.telemetry.snapshot import KnownGpu, Snapshot


class Sampler:
    """Samples CPU and GPUs. Only for the helper process, because a hanging driver blocks it."""

    def __init__(self, known: Iterable[KnownGpu] = ()) -> None:
        self._cpu = Cpu()
        known = tuple(known)
        self._nvml = Nvml(known=[gpu for gpu in known if gpu_maker(gpu.uuid) == "NVIDIA"])
        self._cards = DrmCards([gpu for gpu in known if gpu_maker(gpu.uuid) != "NVIDIA"])

    def sample(self, detail: str = "") -> Snapshot:
        """Return all devices, with traffic (PCIe, NVLink) only for the GPU with UUID `detail`."""
        cpu = self._cpu.sample()
        gpus = self._nvml.sample(detail)
        numbers = [gpu.index for gpu in gpus.devices if gpu.index is not None]
        cards = self._cards.sample(first_index=max(numbers, default=-1) + 1)
        needs_no_nvidia = cards and gpus.note == NOT_INSTALLED
        return Snapshot(
            time=time.time(),
            devices=(*gpus.devices, *cards, cpu),
            gpu_note="" if needs_no_nvidia else gpus.note,
            links=gpus.links,
        )
