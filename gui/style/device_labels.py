"""The name and the colour of each device, for every part of the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot


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
    return f"GPU {device.label}"


def device_labels(snapshot: Snapshot) -> dict[str, DeviceLabel]:
    """Return the label of each device by its id, also of the slices of a divided GPU.

    GPU n and its slices have colour n, whichever cards answer; the CPU has the colour after the
    last GPU.
    """
    colours = {device.id: device.index for device in snapshot.devices if device.index is not None}
    after_gpus = max(colours.values(), default=-1) + 1
    labels: dict[str, DeviceLabel] = {}
    for device in snapshot.devices:
        colour = colours.get(device.id, after_gpus)
        labels[device.id] = DeviceLabel(device_name(device), colour)
        for part in device.slices:
            labels[part.uuid] = DeviceLabel(f"GPU {device.label} ({part.name})", colour)
    return labels


def name_devices(text: str, names: Mapping[str, str]) -> str:
    """Return `text`, a sentence of the engine, with names in place of the UUIDs of GPUs and slices;
    `names` are by device id."""
    for kind in ("MIG-", "GPU-"):  # the UUID of a slice may contain that of its GPU
        if kind in text:
            for id, name in sorted(names.items(), key=lambda named: -len(named[0])):
                if id.startswith(kind):  # the longest first: GPU-amd1 is a part of GPU-amd10
                    text = text.replace(id, name)
    return text
