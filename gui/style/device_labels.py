"""The name and the colour of each device, for every part of the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.style.translation import translate


class DeviceLabel(NamedTuple):
    """How the window shows one device."""

    name: str
    """`GPU 3`, or `CPU`."""

    colour_index: int
    """For `Theme.curve`; it also decides the dashes of the device's curves."""


def device_name(device: DeviceSnapshot) -> str:
    """Return `GPU 3`, with the number that the driver gives the card, or `CPU`."""
    if device.kind != "gpu":
        return device.label
    return translate("Devices", "GPU {label}").format(label=device.label)


def device_labels(snapshot: Snapshot) -> dict[str, DeviceLabel]:
    """Return the label of each device by its id.

    GPU n has colour n, whichever cards answer; the CPU has the colour after the last GPU.
    """
    colours = {device.id: device.index for device in snapshot.devices if device.index is not None}
    after_gpus = max(colours.values(), default=-1) + 1
    return {
        device.id: DeviceLabel(device_name(device), colours.get(device.id, after_gpus))
        for device in snapshot.devices
    }


def name_devices(text: str, names: Mapping[str, str]) -> str:
    """Return `text`, a sentence of the engine, with names in place of GPU UUIDs; `names` are by
    device id."""
    if "GPU-" in text:
        for id, name in names.items():
            if id.startswith("GPU-"):
                text = text.replace(id, name)
    return text
