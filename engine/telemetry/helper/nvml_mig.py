"""The slices of a GPU that is divided by MIG (multi-instance GPU)."""

from __future__ import annotations

from typing import Any

import pynvml

from engine.telemetry.helper.nvml_errors import NO_VALUE, SURE_LOST_ERRORS
from engine.telemetry.snapshot import MigSlice


def is_divided(driver: Any, handle: Any) -> bool:
    """Whether the GPU is divided now; False for a GPU without MIG."""
    try:
        current, _ = driver.nvmlDeviceGetMigMode(handle)
    except NO_VALUE:
        return False
    return bool(current)


def slices(driver: Any, handle: Any) -> tuple[MigSlice, ...]:
    """Return the slices in the driver's order; none if the GPU is not divided."""
    if not is_divided(driver, handle):
        return ()
    found = []
    for index in range(driver.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            part = driver.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue  # fewer slices than the maximum
        total, used = _memory(driver, part)
        # The name is the profile, the end of `NVIDIA H100 80GB HBM3 MIG 1g.10gb`.
        name = driver.nvmlDeviceGetName(part).rpartition(" MIG ")[2]
        uuid = driver.nvmlDeviceGetUUID(part)
        found.append(MigSlice(uuid=uuid, name=name, memory_total=total, memory_used=used))
    return tuple(found)


def _memory(driver: Any, part: Any) -> tuple[int | None, int | None]:
    try:
        memory = driver.nvmlDeviceGetMemoryInfo(part, pynvml.nvmlMemory_v2)
    except SURE_LOST_ERRORS:
        raise
    except (*NO_VALUE, pynvml.NVMLError):
        return None, None  # another program may remove a slice at any time
    return (int(memory.total), int(memory.used)) if memory.total else (None, None)
