"""The sentences of alarms: the device, the problem, and what the user can do."""

from __future__ import annotations

from engine.system.units import gib
from engine.telemetry.snapshot import DeviceSnapshot

_HARDWARE = ("hardware thermal", "hardware power brake")
"""Prefixes of the throttle reasons that mean a hardware problem; the others are normal."""


def name_of(device: DeviceSnapshot) -> str:
    """Return the device's name for the beginning of a sentence, such as `GPU 3`."""
    return f"GPU {device.label}" if device.kind == "gpu" else "The CPU"


def memory_of(device: DeviceSnapshot) -> str:
    """Return the device's memory for the beginning of a sentence."""
    owner = name_of(device) if device.kind == "gpu" else "this machine"
    return f"The memory of {owner}"


def memory_fraction(device: DeviceSnapshot) -> float | None:
    """Return the used part of the memory, 0 to 1, with the driver's part; None: unknown."""
    if device.memory_used is None or not device.memory_total:
        return None
    return (device.memory_used + (device.memory_reserved or 0)) / device.memory_total


def hardware_reasons(device: DeviceSnapshot) -> list[str]:
    """Return the throttle reasons that mean heat or a lack of power, not a setting."""
    reasons = device.throttle_reasons or ()
    return [reason for reason in reasons if reason.lower().startswith(_HARDWARE)]


def lost_reason(device: DeviceSnapshot) -> str:
    """Return why the device is lost, as a sentence."""
    return f"{(device.lost or '').rstrip('.')}."


def lost(device: DeviceSnapshot) -> str:
    """Return the text of an alarm about a device that does not answer."""
    return (
        f"{name_of(device)} is lost. {lost_reason(device)} If nothing runs on it any more, see the "
        "system's log, reset the GPU or restart the machine."
    )


def hot(device: DeviceSnapshot) -> str:
    """Return the text of an alarm about a device near the temperature at which it slows down."""
    return (
        f"{name_of(device)} is at {device.temperature:.0f} °C and slows down from "
        f"{device.temperature_slowdown:.0f} °C on: check its fans and the air around it."
    )


def throttled(device: DeviceSnapshot) -> str:
    """Return the text of an alarm about a device whose hardware reduces its clocks."""
    return (
        f"{name_of(device)} is slowed down ({', '.join(hardware_reasons(device))}): check its "
        "cooling and its power supply."
    )


def memory_full(device: DeviceSnapshot) -> str:
    """Return the text of an alarm about a device whose memory is nearly full."""
    part, total = memory_fraction(device) or 0.0, device.memory_total or 0
    return (
        f"{memory_of(device)} is {100 * part:.0f} % full, of {gib(total)}: the next "
        "request may fail. Use a smaller batch, or end other programs there."
    )


def ecc_errors(device: DeviceSnapshot) -> str:
    """Return the text of an alarm about a device with uncorrectable memory errors."""
    return (
        f"{name_of(device)} has memory errors that it cannot repair ({device.ecc_uncorrected} "
        "since the driver was loaded): results may be wrong. Stop using it and reset it; if they "
        "come back, have it replaced."
    )


def idle(device: DeviceSnapshot) -> str:
    """Return the text of an alarm about a device that does no work for its training run."""
    return (
        f"{name_of(device)} has done nothing for a minute while the run trains: its data may come "
        "too slowly, or a worker waits for another one. The log may say more."
    )
