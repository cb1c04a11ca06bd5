"""The traffic (PCIe, NVLink) of the GPU whose details the window shows."""

from __future__ import annotations

from typing import Any

import pynvml

from engine.telemetry.helper.nvml_errors import NO_VALUE, SURE_LOST_ERRORS, NoValue, reason
from engine.telemetry.helper.nvml_fields import Answers

_ALL_LINKS = 0xFFFFFFFF
_KIB = 1024

_COUNTERS = {
    "pcie_sent": (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
    "pcie_received": (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
    "nvlink_sent": (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
    "nvlink_received": (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
}
"""The driver's counter and its scope, by field of DeviceSnapshot."""

RATES = tuple(_COUNTERS)
"""The DeviceSnapshot fields of this module."""

_AVERAGES = {
    "pcie_sent": pynvml.NVML_PCIE_UTIL_TX_BYTES,
    "pcie_received": pynvml.NVML_PCIE_UTIL_RX_BYTES,
}

_UNIONS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of a field's value, by the driver's number of its type."""

_NARROW = 2**32
"""A smaller counter may have 32 bits, and then overflows several times a second."""


class Rates:
    """Computes rates from the counters of one GPU in two samples."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._uuid = ""
        self._before: dict[str, tuple[float, int]] = {}

    def sample(self, uuid: str, handle: Any, now: float, answers: Answers) -> None:
        """Put the rates since the last call in `answers`; `now` is in seconds.

        The first call for a GPU gives neither values nor reasons. Raises one of SURE_LOST_ERRORS.
        """
        if uuid != self._uuid:
            self._uuid, self._before = uuid, {}
        answers.forget(*RATES)
        for name, counted in self._counters(handle).items():
            if name in _AVERAGES and (isinstance(counted, NoValue) or counted < _NARROW):
                answers.put(name, self._average(handle, _AVERAGES[name]))
            elif isinstance(counted, NoValue):
                answers.put(name, counted)
            elif (rate := self._rate(name, counted, now)) is not None:
                answers.put(name, rate if name in _AVERAGES else rate * _KIB)

    def _counters(self, handle: Any) -> dict[str, int | NoValue]:
        """Read all four counters in one call to the driver."""
        try:
            found = self._driver.nvmlDeviceGetFieldValues(handle, list(_COUNTERS.values()))
        except SURE_LOST_ERRORS:
            raise
        except (*NO_VALUE, pynvml.NVMLError) as error:
            return dict.fromkeys(RATES, NoValue(reason(error)))
        return {name: _read(field) for name, field in zip(RATES, found, strict=True)}

    def _average(self, handle: Any, direction: int) -> float | NoValue:
        """Return bytes per second over the next 20 ms; the driver blocks for that time."""
        try:
            return float(self._driver.nvmlDeviceGetPcieThroughput(handle, direction) * _KIB)
        except SURE_LOST_ERRORS:
            raise
        except (*NO_VALUE, pynvml.NVMLError) as error:
            return NoValue(reason(error))

    def _rate(self, name: str, counted: int, now: float) -> float | None:
        before = self._before.get(name)
        self._before[name] = now, counted
        if before is None or counted < before[1] or now <= before[0]:
            return None  # the first sample, or the counter was reset
        return (counted - before[1]) / (now - before[0])


def _read(field: Any) -> int | NoValue:
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        return NoValue(reason(pynvml.NVMLError(field.nvmlReturn)))
    return field_number(field)


def field_number(field: Any) -> int:
    """Return the number in an answered c_nvmlFieldValue_t of any type."""
    return int(getattr(field.value, _UNIONS[field.valueType]))
