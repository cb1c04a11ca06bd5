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
        found.append(_slice(driver, part))
    return tuple(found)


def _slice(driver: Any, part: Any) -> MigSlice:
    total, used = _memory(driver, part)
    return MigSlice(
        uuid=driver.nvmlDeviceGetUUID(part),
        # Of `NVIDIA H100 80GB HBM3 MIG 1g.10gb` only the profile.
        name=driver.nvmlDeviceGetName(part).rpartition(" MIG ")[2],
        memory_total=total,
        memory_used=used,
    )


def _memory(driver: Any, part: Any) -> tuple[int | None, int | None]:
    try:
        memory = driver.nvmlDeviceGetMemoryInfo(part, pynvml.nvmlMemory_v2)
    except SURE_LOST_ERRORS:
        raise
    except (*NO_VALUE, pynvml.NVMLError):
        return None, None  # another program may remove a slice at any time
    return int(memory.total), int(memory.used)
