"""How many bytes go in and out of the one GPU that somebody looks at in detail."""

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
"""Fields of DeviceSnapshot by the counters of the driver, each with its scope."""

RATES = tuple(_COUNTERS)
"""The fields of DeviceSnapshot that are filled here."""

_AVERAGES = {
    "pcie_sent": pynvml.NVML_PCIE_UTIL_TX_BYTES,
    "pcie_received": pynvml.NVML_PCIE_UTIL_RX_BYTES,
}

_UNIONS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of a field's value, by the driver's number of its type."""

_NARROW = 2**32
"""A counter that never showed more may have 32 bits: PCIe fills those several times a second."""


class Rates:
    """Remembers the counters of one GPU between two samples."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._uuid = ""
        self._before: dict[str, tuple[float, int]] = {}

    def sample(self, uuid: str, handle: Any, now: float, answers: Answers) -> None:
        """Put the rates since the last call in `answers`; `now` in seconds. Raises GONE_FOR_SURE.

        A rate needs two looks at a counter: after the first one there is neither value nor reason.
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
        """All four in one call to the driver."""
        try:
            found = self._driver.nvmlDeviceGetFieldValues(handle, list(_COUNTERS.values()))
        except SURE_LOST_ERRORS:
            raise
        except (*NO_VALUE, pynvml.NVMLError) as error:
            return dict.fromkeys(RATES, NoValue(reason(error)))
        return {name: _read(field) for name, field in zip(RATES, found, strict=True)}

    def _average(self, handle: Any, direction: int) -> float | NoValue:
        """Bytes per second over the next 20 ms, for which the driver keeps us waiting."""
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
            return None  # the first look, or the counter began anew
        return (counted - before[1]) / (now - before[0])


def _read(field: Any) -> int | NoValue:
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        return NoValue(reason(pynvml.NVMLError(field.nvmlReturn)))
    return field_number(field)


def field_number(field: Any) -> int:
    """The number in an answered c_nvmlFieldValue_t, whatever its type."""
    return int(getattr(field.value, _UNIONS[field.valueType]))
