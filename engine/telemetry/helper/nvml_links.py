"""How the GPUs of this machine reach each other."""

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
    """One link for each pair of `handles` (by UUID). Raises GONE_FOR_SURE where a GPU is gone."""
    return tuple(
        Link(first, second, _kind(driver, handles[first], handles[second]))
        for first, second in combinations(handles, 2)
    )


def _kind(driver: Any, first: Any, second: Any) -> LinkKind:
    # The common ancestor is one on the PCI bus and knows nothing of NVLink: it is asked second.
    index = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    try:
        status = driver.nvmlDeviceGetP2PStatus(first, second, index)
        if status == pynvml.NVML_P2P_STATUS_OK:
            return "NVLink"
    except SURE_LOST_ERRORS:
        raise
    except (*NO_VALUE, pynvml.NVMLError):
        pass  # an old driver: the other question may still have an answer
    try:
        level = driver.nvmlDeviceGetTopologyCommonAncestor(first, second)
    except SURE_LOST_ERRORS:
        raise
    except (*NO_VALUE, pynvml.NVMLError):
        return "unknown"
    return _LEVELS.get(level, "unknown")
