"""The fields of a GPU: which NVML call fills which field, and how often it is made."""

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

_Errors = tuple[type[Exception], ...]

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
"""Idle is a reason for the driver, but it slows no work down, so it has no text."""

_UNKNOWN_STATE = 32


@dataclass(frozen=True)
class Question:
    """One call to the driver and the fields that it fills."""

    fields: tuple[str, ...]
    """Names of fields of DeviceSnapshot."""

    ask: Callable[[Any, Any], Sequence[Any]]
    """Called with (driver, handle); returns one value per field, or a NoValue in its place."""


@dataclass
class Answers:
    """The known values of one GPU, by the name of the field."""

    values: dict[str, Any] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    """Why there is no value, by the name of the field."""

    def put(self, name: str, value: Any) -> None:
        """Store a value, or the reason of a NoValue."""
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


def ask_all(
    questions: Sequence[Question],
    driver: Any,
    handle: Any,
    answers: Answers,
    gone: _Errors = SURE_LOST_ERRORS,
) -> list[str]:
    """Put every answer in `answers`; return the texts of unexpected errors.

    Raises one of the errors in `gone`, which mean that the GPU is lost.
    """
    failures = []
    for question in questions:
        found: Sequence[Any]
        try:
            found = question.ask(driver, handle)
        except gone:
            raise
        except (NoValue, *NO_VALUE) as error:
            found = [NoValue(reason(error))] * len(question.fields)
        except pynvml.NVMLError as error:
            failures.append(str(error))
            found = [NoValue(reason(error))] * len(question.fields)
        for name, value in zip(question.fields, found, strict=True):
            answers.put(name, value)
    return failures


def ask_fast(driver: Any, handle: Any, answers: Answers) -> list[str]:
    """Ask EVERY_SECOND as `ask_all` does, but with all of LOST_ERRORS.

    Every driver knows these calls, so an invalid argument can only be the handle.
    """
    return ask_all(EVERY_SECOND, driver, handle, answers, LOST_ERRORS)


def _memory(driver: Any, handle: Any) -> Sequence[Any]:
    try:
        # Version 2 leaves out what the driver reserves, as nvidia-smi does; it came with R510.
        memory = driver.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    except NO_VALUE:
        memory = driver.nvmlDeviceGetMemoryInfo(handle, None)
        reserved: Any = NoValue("this version of the driver counts it as used")
    else:
        reserved = int(memory.reserved)
    return int(memory.total), int(memory.used), int(memory.free), reserved


def _utilisation(driver: Any, handle: Any) -> Sequence[float]:
    if is_divided(driver, handle):  # then the driver's answer means nothing
        raise NoValue("not measured while the GPU is divided by MIG")
    return (float(driver.nvmlDeviceGetUtilizationRates(handle).gpu),)


def _temperature(driver: Any, handle: Any) -> Sequence[float]:
    sensor = pynvml.NVML_TEMPERATURE_GPU
    try:
        return (float(driver.nvmlDeviceGetTemperatureV(handle, sensor)),)
    except NO_VALUE:
        return (float(driver.nvmlDeviceGetTemperature(handle, sensor)),)  # older drivers


def _power(driver: Any, handle: Any) -> Sequence[float]:
    return (driver.nvmlDeviceGetPowerUsage(handle) / 1000,)  # NVML counts in milliwatts


def _power_limit(driver: Any, handle: Any) -> Sequence[float]:
    return (driver.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,)


def _clock(driver: Any, handle: Any) -> Sequence[float]:
    return (float(driver.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),)


def _memory_clock(driver: Any, handle: Any) -> Sequence[float]:
    return (float(driver.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),)


def _fan(driver: Any, handle: Any) -> Sequence[float]:
    return (float(driver.nvmlDeviceGetFanSpeed(handle)),)


def _performance_state(driver: Any, handle: Any) -> Sequence[int]:
    state = int(driver.nvmlDeviceGetPerformanceState(handle))
    if state == _UNKNOWN_STATE:
        raise NoValue("the driver does not know it")
    return (state,)


def _throttle_reasons(driver: Any, handle: Any) -> Sequence[tuple[str, ...]]:
    try:
        bits = int(driver.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except NO_VALUE:
        bits = int(driver.nvmlDeviceGetCurrentClocksThrottleReasons(handle))  # before R535
    words = [word for bit, word in _REASONS if bits & bit]
    if unknown := bits & ~_KNOWN:
        words.append(f"an unknown reason ({unknown:#x})")
    return (tuple(words),)


def _ecc(kind: int) -> Callable[[Any, Any], Sequence[int]]:
    return lambda driver, handle: (
        int(driver.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC)),
    )


def _temperature_slowdown(driver: Any, handle: Any) -> Sequence[float]:
    threshold = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    return (float(driver.nvmlDeviceGetTemperatureThreshold(handle, threshold)),)


EVERY_SECOND = (
    Question(("memory_total", "memory_used", "memory_free", "memory_reserved"), _memory),
    Question(("utilisation",), _utilisation),
    Question(("temperature",), _temperature),
    Question(("power",), _power),
    Question(("clock",), _clock),
    Question(("memory_clock",), _memory_clock),
)
"""Asked at every sample."""

EVERY_5_SECONDS = (
    Question(("power_limit",), _power_limit),
    Question(("fan",), _fan),
    Question(("performance_state",), _performance_state),
    Question(("throttle_reasons",), _throttle_reasons),
    Question(("ecc_corrected",), _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED)),
    Question(("ecc_uncorrected",), _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)),
    Question(("slices",), lambda driver, handle: (slices(driver, handle),)),
    Question(("processes",), lambda driver, handle: (processes(driver, handle),)),
)
"""Asked every 5 s: values that change slowly, or that take the driver milliseconds."""

ONCE = (Question(("temperature_slowdown",), _temperature_slowdown),)
"""Asked when a GPU is found: values that never change."""
