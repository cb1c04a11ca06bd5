"""What the NVIDIA driver says through NVML; all of NVML's quirks stand here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

from engine.telemetry.snapshot import DeviceSnapshot

PROBE_INTERVAL = 30.0
"""Seconds between attempts to reach a driver or a GPU that did not answer."""

_Value = TypeVar("_Value")

_GONE = (
    pynvml.NVMLError_GpuIsLost,
    pynvml.NVMLError_ResetRequired,
    pynvml.NVMLError_GpuNotFound,
    pynvml.NVMLError_InvalidArgument,  # the driver no longer knows the handle
    pynvml.NVMLError_Uninitialized,
    pynvml.NVMLError_DriverNotLoaded,
)
"""After one of these the handle must never be used again: old drivers crash on it."""

_UNSAID = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_NoData,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_ArgumentVersionMismatch,
    pynvml.NVMLLibraryMismatchError,  # not an NVMLError, unlike all the others
)
"""Ordinary ways of a driver to say that it does not have a value."""


@dataclass
class _Gpu:
    """One GPU that was seen at least once."""

    uuid: str
    name: str
    pci_bus: str
    handle: Any
    lost: str | None = None
    memory_total: int | None = None


class Nvml:
    """The GPUs of this machine. Not thread-safe; a call may block for ever if the driver is wedged.

    A GPU that was seen once keeps its row, with the reason why it does not answer.
    """

    def __init__(self) -> None:
        self._gpus: dict[str, _Gpu] = {}
        self._note = ""
        self._initialised = False
        self._next_probe = 0.0

    def sample(self) -> tuple[tuple[DeviceSnapshot, ...], str]:
        """Every GPU in PCI order, and why there is none (or fewer than there should be)."""
        trouble = not self._initialised or self._note or any(g.lost for g in self._gpus.values())
        if trouble and time.monotonic() >= self._next_probe:
            self._probe()
            self._next_probe = time.monotonic() + PROBE_INTERVAL
        gpus = sorted(self._gpus.values(), key=lambda gpu: gpu.pci_bus)
        return tuple(_sample_gpu(gpu, str(number)) for number, gpu in enumerate(gpus)), self._note

    def _probe(self) -> None:
        """Connect to the driver anew and look for GPUs, because something did not answer."""
        try:
            self._shut_down()
            pynvml.nvmlInit()
            self._initialised = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self._note = _why_no_driver(error)
            for gpu in self._gpus.values():
                gpu.handle, gpu.lost = None, self._note
            return
        self._find_gpus(count)

    def _shut_down(self) -> None:
        for gpu in self._gpus.values():
            gpu.handle = None
            gpu.lost = gpu.lost or "The NVIDIA driver does not list it any more."
        if self._initialised:
            self._initialised = False
            try:
                pynvml.nvmlShutdown()
            except _GONE:
                return  # the connection is already gone

    def _find_gpus(self, count: int) -> None:
        silent = []
        for index in range(count):
            try:
                gpu = _open_gpu(index)
            except pynvml.NVMLError as error:
                silent.append(str(error))
            else:
                self._gpus[gpu.uuid] = gpu
        # A silent GPU does not say which one it is: it may be one that has a row already.
        strangers = len(silent) - sum(gpu.lost is not None for gpu in self._gpus.values())
        if strangers > 0:
            self._note = f"{strangers} of {count} GPUs cannot be reached: {silent[-1]}."
        else:
            self._note = "" if self._gpus else "The NVIDIA driver finds no GPU."


def _open_gpu(index: int) -> _Gpu:
    """Raises NVMLError where the GPU does not answer."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return _Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        pci_bus=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        handle=handle,
    )


def _text(value: str | bytes) -> str:
    """pynvml gives strings inside structures as bytes in some versions."""
    return value.decode() if isinstance(value, bytes) else value


def _sample_gpu(gpu: _Gpu, label: str) -> DeviceSnapshot:
    row = DeviceSnapshot(
        id=gpu.uuid,
        kind="gpu",
        label=label,
        name=gpu.name,
        pci_bus=gpu.pci_bus,
        memory_total=gpu.memory_total,
        lost=gpu.lost,
    )
    if gpu.handle is None:
        return row
    failures: list[str] = []
    try:
        memory = _ask(_memory, gpu.handle, failures)
        utilisation = _ask(_utilisation, gpu.handle, failures)
        temperature = _ask(_temperature, gpu.handle, failures)
        power = _ask(pynvml.nvmlDeviceGetPowerUsage, gpu.handle, failures)
    except _GONE as error:
        return _lose(gpu, row, str(error))
    if failures and (memory, utilisation, temperature, power) == (None, None, None, None):
        # A container that lost its access to the device answers "Unknown Error" to everything.
        return _lose(gpu, row, failures[0])
    gpu.memory_total = int(memory.total) if memory else None
    return DeviceSnapshot(
        id=gpu.uuid,
        kind="gpu",
        label=label,
        name=gpu.name,
        pci_bus=gpu.pci_bus,
        memory_total=gpu.memory_total,
        memory_used=int(memory.used) if memory else None,
        utilisation=utilisation,
        temperature=temperature,
        power=power / 1000 if power is not None else None,  # NVML says milliwatts
    )


def _lose(gpu: _Gpu, row: DeviceSnapshot, error: str) -> DeviceSnapshot:
    gpu.handle = None
    gpu.lost = f"The GPU does not answer: {error}."
    return DeviceSnapshot(
        id=row.id,
        kind="gpu",
        label=row.label,
        name=row.name,
        pci_bus=row.pci_bus,
        memory_total=row.memory_total,
        lost=gpu.lost,
    )


def _ask(question: Callable[[Any], _Value], handle: Any, failures: list[str]) -> _Value | None:
    """The answer, or None where there is none; extraordinary reasons for that go to `failures`."""
    try:
        return question(handle)
    except _GONE:
        raise
    except _UNSAID:
        return None
    except pynvml.NVMLError as error:
        failures.append(str(error))
        return None


def _memory(handle: Any) -> Any:
    try:
        # Version 2 leaves out what the driver reserves, as nvidia-smi does; it came with R510.
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except _UNSAID:
        return pynvml.nvmlDeviceGetMemoryInfo(handle)


def _utilisation(handle: Any) -> float | None:
    try:
        split, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except _UNSAID:
        split = False
    if split:
        return None  # the parent of MIG slices has no figure of its own, whatever a driver answers
    return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def _temperature(handle: Any) -> float:
    sensor = pynvml.NVML_TEMPERATURE_GPU
    try:
        return float(pynvml.nvmlDeviceGetTemperatureV(handle, sensor))
    except _UNSAID:
        return float(pynvml.nvmlDeviceGetTemperature(handle, sensor))  # older drivers


def _why_no_driver(error: pynvml.NVMLError) -> str:
    match error:
        case pynvml.NVMLError_LibraryNotFound():
            return "No NVIDIA driver is installed (its library NVML was not found)."
        case pynvml.NVMLError_DriverNotLoaded():
            return "The NVIDIA driver is installed, but it is not loaded."
        case pynvml.NVMLError_LibRmVersionMismatch():
            return "The NVIDIA driver was replaced while it was in use: restart the machine."
        case pynvml.NVMLError_NoPermission():
            return "The NVIDIA driver does not let this user ask for its GPUs."
        case _:
            return f"The NVIDIA driver does not answer: {error}."
