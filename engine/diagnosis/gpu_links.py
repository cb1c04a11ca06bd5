"""What to do where several GPUs of a run wait for each other."""

from __future__ import annotations

from collections.abc import Sequence

from engine.spec.device_names import is_logical_cpu
from engine.system.program import call


def advice(devices: Sequence[str]) -> str:
    """Return sentences about the likely cause; empty unless `devices` are several GPUs.

    For ranks that all wait where their GPUs exchange data for the first time.
    """
    if sum(not is_logical_cpu(device) for device in devices) < 2:
        return ""
    return (
        "They waited where their GPUs exchange data for the first time: most likely the direct way "
        "between two GPUs (P2P) is broken, as with some settings of IOMMU, ACS or virtual "
        "machines. Start Traindeck with NCCL_P2P_DISABLE=1 in its environment, and resume the run "
        f"or start it again; `{call('doctor')}` tests that way."
    )
