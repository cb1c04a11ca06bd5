"""All figures in the snapshot of a device, as captions and values."""

from __future__ import annotations

from typing import NamedTuple

from engine.system import units
from engine.telemetry.alarm_text import hardware_reasons
from engine.telemetry.snapshot import DeviceSnapshot
from gui.devices import device_text


class Fact(NamedTuple):
    """One figure in the dialog."""

    caption: str
    value: str
    reason: str = ""
    """Why there is no value."""

    tone: str = ""
    """`warning` or `bad` for a critical value, whose text says so, too."""


def facts(device: DeviceSnapshot) -> list[Fact]:
    """Return the facts in the order of the dialog; none while the device is lost or asleep.

    For a CPU, only the facts that have a value.
    """
    if device.lost is not None or device.asleep:
        return []
    found = [
        _fact(device, "Utilisation", "utilisation", device_text.quantity(device.utilisation, "%")),
        _memory(device),
        _fact(
            device, "Reserved by driver", "memory_reserved", device_text.gib(device.memory_reserved)
        ),
        _temperature(device),
        _fact(device, "Power / limit", "power", device_text.power(device)),
        _fact(device, "Clock", "clock", device_text.quantity(device.clock, "MHz")),
        _fact(
            device, "Memory clock", "memory_clock", device_text.quantity(device.memory_clock, "MHz")
        ),
        _fact(device, "Fan", "fan", device_text.quantity(device.fan, "%")),
        _fact(device, "Performance state", "performance_state", _state(device)),
        _throttle(device),
        _fact(device, "ECC errors, corrected", "ecc_corrected", _count(device.ecc_corrected)),
        _uncorrected(device),
        _rates(device, "PCIe, sent / received", "pcie_sent", "pcie_received"),
        _rates(device, "NVLink, sent / received", "nvlink_sent", "nvlink_received"),
    ]
    if device.kind == "cpu":
        return [fact for fact in found if fact.value != device_text.UNKNOWN]
    return found


def _fact(device: DeviceSnapshot, caption: str, field: str, value: str, tone: str = "") -> Fact:
    unknown = value == device_text.UNKNOWN
    reason = device.silent.get(field, "not queried yet") if unknown else ""
    return Fact(caption, value, reason, tone)


def _memory(device: DeviceSnapshot) -> Fact:
    text = device_text.of_total(device.memory_used, device.memory_total)
    return _fact(device, "Memory in use", "memory_used", text)


def _temperature(device: DeviceSnapshot) -> Fact:
    text = device_text.temperature(device)
    caption = "Temperature / slowdown"
    if device_text.is_hot(device):
        return _fact(device, caption, "temperature", f"⚠ {text}", "warning")
    return _fact(device, caption, "temperature", text)


def _state(device: DeviceSnapshot) -> str:
    return (
        device_text.UNKNOWN if device.performance_state is None else f"P{device.performance_state}"
    )


def _throttle(device: DeviceSnapshot) -> Fact:
    caption, reasons = "Slowed down", device.throttle_reasons
    if reasons is None:
        return _fact(device, caption, "throttle_reasons", device_text.UNKNOWN)
    text = ", ".join(reasons) or "no"
    if hardware_reasons(device):
        return Fact(caption, f"⚠ {text}", tone="warning")
    return Fact(caption, text)


def _uncorrected(device: DeviceSnapshot) -> Fact:
    caption = "ECC errors, uncorrected"
    text = _count(device.ecc_uncorrected)
    if device.ecc_uncorrected:
        return Fact(caption, f"⚠ {text}", tone="bad")
    return _fact(device, caption, "ecc_uncorrected", text)


def _count(value: int | None) -> str:
    return device_text.UNKNOWN if value is None else f"{value:,}"


def _rates(device: DeviceSnapshot, caption: str, sent: str, received: str) -> Fact:
    values = [device_text.finite(getattr(device, name)) for name in (sent, received)]
    if values == [None, None]:
        return _fact(device, caption, sent, device_text.UNKNOWN)
    texts = [
        device_text.UNKNOWN if each is None else f"{units.byte_size(each)}/s" for each in values
    ]
    return Fact(caption, " / ".join(texts))
