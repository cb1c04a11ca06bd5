"""Finds the links between the GPUs of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pynvml

from engine.telemetry.helper.nvml_errors import NO_VALUE, SURE_LOST_ERRORS
from engine.telemetry.snapshot import Link, LinkKind

_LEVELS: dict[int, LinkKind] = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PCIe switch",  # two GPUs on one board
    pynvml.NVML_TOPOLOGY_SINGLE: "PCIe switch",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PCIe switch",  # several, but no host bridge between them
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "host bridge",
    pynvml.NVML_TOPOLOGY_NODE: "NUMA node",
    pynvml.NVML_TOPOLOGY_SYSTEM: "system",
}


def links(driver: Any, handles: Mapping[str, Any]) -> tuple[Link, ...]:
    """Return a link for each pair of `handles` (by UUID). Raises one of SURE_LOST_ERRORS."""
    return tuple(
        Link(first, second, _kind(driver, handles[first], handles[second]))
        for first, second in combinations(handles, 2)
    )


def _kind(driver: Any, first: Any, second: Any) -> LinkKind:
    # NVLink first: the common ancestor describes the PCI bus only.
    index = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    try:
        status = driver.nvmlDeviceGetP2PStatus(first, second, index)
        if status == pynvml.NVML_P2P_STATUS_OK:
            return "NVLink"
    except SURE_LOST_ERRORS:
        raise
    except (*NO_VALUE, pynvml.NVMLError):
        pass  # an old driver: the second call may still work
    try:
        level = driver.nvmlDeviceGetTopologyCommonAncestor(first, second)
    except SURE_LOST_ERRORS:
        raise
    except (*NO_VALUE, pynvml.NVMLError):
        return "unknown"
    return _LEVELS.get(level, "unknown")
