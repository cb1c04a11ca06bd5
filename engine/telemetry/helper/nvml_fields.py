"""The fields of a GPU: the NVML call that fills each field, and how often it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml

from engine.telemetry.helper.nvml_errors import (
    LOST_ERRORS,
    NO_VALUE,
    SURE_LOST_ERRORS,
    NoValue,
    reason,
)
from engine.telemetry.helper.nvml_mig import is_divided, slices
from engine.telemetry.helper.nvml_processes import processes

_REASONS = (
    (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, "clocks set by hand"),
    (pynvml.nvmlClocksEventReasonSwPowerCap, "power limit"),
    (pynvml.nvmlClocksEventReasonHwSlowdown, "hardware slowdown"),
    (pynvml.nvmlClocksEventReasonSyncBoost, "clocks kept equal with other GPUs"),
    (pynvml.nvmlClocksEventReasonSwThermalSlowdown, "software thermal slowdown"),
    (pynvml.nvmlClocksEventReasonHwThermalSlowdown, "hardware thermal slowdown"),
    (pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, "hardware power brake"),
    (pynvml.nvmlClocksEventReasonDisplayClockSetting, "display clocks"),
)
_KNOWN = pynvml.nvmlClocksEventReasonGpuIdle | sum(bit for bit, _ in _REASONS)
"""Idle is one of the driver's reasons, but it slows no work down, so it has no text."""

MOST_BYTES = 2**50
_POSSIBLE = {
    "memory_total": (0, MOST_BYTES),
    "memory_used": (0, MOST_BYTES),
    "memory_free": (0, MOST_BYTES),
    "memory_reserved": (0, MOST_BYTES),
    "utilisation": (0, 100),
    "temperature": (-60, 200),
    "temperature_slowdown": (1, 200),
    "power": (0, 20_000),
    "power_limit": (1, 20_000),
    "clock": (0, 50_000),
    "memory_clock": (0, 50_000),
    "fan": (0, 300),
    "performance_state": (0, 15),
    "ecc_corrected": (0, 2**48),
    "ecc_uncorrected": (0, 2**48),
    "pcie_sent": (0, 2**48),
    "pcie_received": (0, 2**48),
    "nvlink_sent": (0, 2**48),
    "nvlink_received": (0, 2**48),
}
"""The lowest and the highest value of a field: drivers answer 2^32 - 1 or 511 degrees for what they
do not know."""


@dataclass(frozen=True)
class Question:
    """One call to the driver and the fields that it fills."""

    fields: tuple[str, ...]
    """Names of fields of DeviceSnapshot."""

    ask: Callable[[Any, Any], Sequence[Any]]
    """Called with (driver, handle); returns a value or a NoValue for each field."""


def _single(name: str, ask: Callable[[Any, Any], Any]) -> Question:
    return Question((name,), lambda driver, handle: (ask(driver, handle),))


@dataclass
class Answers:
    """The known values of one GPU, by the name of the field."""

    values: dict[str, Any] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    """Why there is no value, by the name of the field."""

    def put(self, name: str, value: Any) -> None:
        """Store a value, or the reason of a NoValue; one that cannot be is none."""
        low, high = _POSSIBLE.get(name, (None, None))
        if low is not None and not isinstance(value, NoValue) and not low <= value <= high:
            value = NoValue(f"the driver says {value:,}, which cannot be")
        if isinstance(value, NoValue):
            self.values.pop(name, None)
            self.silent[name] = str(value)
        else:
            self.values[name] = value
            self.silent.pop(name, None)

    def forget(self, *names: str) -> None:
        """Drop values and reasons of these fields."""
        for name in names:
            self.values.pop(name, None)
            self.silent.pop(name, None)


def ask_all(questions: Sequence[Question], driver: Any, handle: Any, answers: Answers) -> list[str]:
    """Put every answer in `answers`; return the texts of unexpected errors.

    Raises one of LOST_ERRORS if the GPU is lost.
    """
    failures = []
    for question in questions:
        found: Sequence[Any]
        try:
            found = question.ask(driver, handle)
        except SURE_LOST_ERRORS:
            raise
        except (NoValue, *NO_VALUE, pynvml.NVMLError) as error:
            if isinstance(error, pynvml.NVMLError_InvalidArgument):
                _check_handle(driver, handle)  # some cards say so of a question they do not know
            if not isinstance(error, (NoValue, *NO_VALUE)):
                failures.append(str(error))
            found = [NoValue(reason(error))] * len(question.fields)
        for name, value in zip(question.fields, found, strict=True):
            answers.put(name, value)
    return failures


def _check_handle(driver: Any, handle: Any) -> None:
    """Raise one of LOST_ERRORS if the driver does not know the handle: it is the only argument."""
    try:
        driver.nvmlDeviceGetUUID(handle)
    except LOST_ERRORS:
        raise
    except (*NO_VALUE, pynvml.NVMLError):
        return  # if it answers nothing else either, it is found lost all the same


def _memory(driver: Any, handle: Any) -> Sequence[Any]:
    try:
        # Version 2 (since R510) excludes the reserved memory, as nvidia-smi does.
        memory = driver.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    except NO_VALUE:
        memory = driver.nvmlDeviceGetMemoryInfo(handle, None)
        reserved: Any = NoValue("this version of the driver counts it as used")
    else:
        reserved = int(memory.reserved)
    if not memory.total:
        raise NoValue("the driver does not count it: the card shares the memory of the machine")
    if not max(memory.used, memory.free) <= memory.total <= MOST_BYTES:
        raise NoValue(f"the driver says {memory.used:,} of {memory.total:,} B, which cannot be")
    return int(memory.total), int(memory.used), int(memory.free), reserved


def _utilisation(driver: Any, handle: Any) -> float:
    if is_divided(driver, handle):  # the driver's answer would be meaningless
        raise NoValue("not measured while the GPU is divided by MIG")
    return float(driver.nvmlDeviceGetUtilizationRates(handle).gpu)


def _temperature(driver: Any, handle: Any) -> float:
    sensor = pynvml.NVML_TEMPERATURE_GPU
    try:
        return float(driver.nvmlDeviceGetTemperatureV(handle, sensor))
    except NO_VALUE:
        return float(driver.nvmlDeviceGetTemperature(handle, sensor))  # older drivers


def _clock(kind: int) -> Callable[[Any, Any], float]:
    return lambda driver, handle: float(driver.nvmlDeviceGetClockInfo(handle, kind))


def _throttle_reasons(driver: Any, handle: Any) -> tuple[str, ...]:
    try:
        bits = int(driver.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except NO_VALUE:
        bits = int(driver.nvmlDeviceGetCurrentClocksThrottleReasons(handle))  # before R535
    words = [word for bit, word in _REASONS if bits & bit]
    if unknown := bits & ~_KNOWN:
        words.append(f"an unknown reason ({unknown:#x})")
    return tuple(words)


def _ecc(kind: int) -> Callable[[Any, Any], int]:
    return lambda driver, handle: int(
        driver.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC)
    )


def _temperature_slowdown(driver: Any, handle: Any) -> float:
    threshold = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    return float(driver.nvmlDeviceGetTemperatureThreshold(handle, threshold))


EVERY_SECOND = (
    Question(("memory_total", "memory_used", "memory_free", "memory_reserved"), _memory),
    _single("utilisation", _utilisation),
    _single("temperature", _temperature),
    # NVML counts in milliwatts.
    _single("power", lambda driver, gpu: driver.nvmlDeviceGetPowerUsage(gpu) / 1000),
    _single("clock", _clock(pynvml.NVML_CLOCK_SM)),
    _single("memory_clock", _clock(pynvml.NVML_CLOCK_MEM)),
)
"""Asked at every sample."""

EVERY_5_SECONDS = (
    _single("power_limit", lambda driver, gpu: driver.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000),
    _single("fan", lambda driver, gpu: float(driver.nvmlDeviceGetFanSpeed(gpu))),
    _single("performance_state", lambda driver, gpu: driver.nvmlDeviceGetPerformanceState(gpu)),
    _single("throttle_reasons", _throttle_reasons),
    _single("ecc_corrected", _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED)),
    _single("ecc_uncorrected", _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)),
    _single("slices", slices),
    _single("processes", processes),
)
"""Asked every 5 s: values that change slowly, or that take the driver milliseconds."""

ONCE = (_single("temperature_slowdown", _temperature_slowdown),)
"""Asked when a GPU is found: values that never change."""
