"""What a plausible card answers, function by function, in the order of NVML's structures."""

from __future__ import annotations

KIB = 1024
GIB = 2**30

_Answers = dict[str, tuple[int | str, ...]]


def card(uuid: str, pci_bus: str, name: str) -> _Answers:
    """A busy H100, whatever its `name`."""
    total, reserved, used = 80 * GIB, 600 << 20, 30 * GIB
    free = total - reserved - used
    return {
        "nvmlDeviceGetHandleByIndex": (),
        "nvmlDeviceGetUUID": (uuid,),
        "nvmlDeviceGetName": (name,),
        "nvmlDeviceGetPciInfo_v3": (pci_bus,),
        "nvmlDeviceGetCudaComputeCapability": (9, 0),
        "nvmlDeviceGetMemoryInfo_v2": (total, reserved, free, used),
        "nvmlDeviceGetMemoryInfo": (total, free, used + reserved),
        "nvmlDeviceGetUtilizationRates": (93, 41),
        "nvmlDeviceGetTemperatureV": (61,),
        "nvmlDeviceGetTemperature": (61,),
        "nvmlDeviceGetTemperatureThreshold:1": (87,),
        "nvmlDeviceGetPowerUsage": (512_345,),
        "nvmlDeviceGetEnforcedPowerLimit": (700_000,),
        "nvmlDeviceGetClockInfo:1": (1755,),
        "nvmlDeviceGetClockInfo:2": (2619,),
        "nvmlDeviceGetFanSpeed": (48,),
        "nvmlDeviceGetPerformanceState": (0,),
        "nvmlDeviceGetCurrentClocksEventReasons": (0,),
        "nvmlDeviceGetCurrentClocksThrottleReasons": (0,),
        "nvmlDeviceGetTotalEccErrors:0:0": (2,),
        "nvmlDeviceGetTotalEccErrors:1:0": (0,),
        "nvmlDeviceGetMigMode": (0, 0),
        "nvmlDeviceGetComputeRunningProcesses_v2": (),
        "nvmlDeviceGetComputeRunningProcesses_v3": (),
        "nvmlDeviceGetGraphicsRunningProcesses_v2": (),
        "nvmlDeviceGetGraphicsRunningProcesses_v3": (),
        "nvmlDeviceGetFieldValues:197": (5 << 32,),
        "nvmlDeviceGetFieldValues:198": (6 << 32,),
        "nvmlDeviceGetFieldValues:138": (7 << 32,),
        "nvmlDeviceGetFieldValues:139": (8 << 32,),
        "nvmlDeviceGetPcieThroughput:0": (488,),
        "nvmlDeviceGetPcieThroughput:1": (341,),
    }


def slice_of(who: str, index: int, profile: str) -> _Answers:
    """One slice of a card that is divided by MIG, such as `1g.10gb`."""
    total = int(profile.partition(".")[2].removesuffix("gb")) * GIB
    used = total // 4
    return {
        "nvmlDeviceGetUUID": (f"MIG-{who}-{index}",),
        "nvmlDeviceGetName": (f"NVIDIA H100 80GB HBM3 MIG {profile}",),
        "nvmlDeviceGetMemoryInfo_v2": (total, 0, total - used, used),
    }
