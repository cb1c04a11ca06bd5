"""Finds the devices of one run in a snapshot; a slice of a divided GPU gets a row of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.spec.device_names import is_logical_cpu, is_mig_slice, machine_of, on_machine
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice, Snapshot

_SLICE_GONE = (
    "The driver does not list this slice any more: the GPU was divided anew, or is not divided now."
)


class RunDevices:
    """The rows of a run's devices. It remembers on which card a slice is: a card that is lost, or
    asleep, does not tell it."""

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices` by their names in the spec. All logical CPU devices of a machine are one."""
        self.ids = frozenset(
            on_machine(machine_of(device), "cpu") if is_logical_cpu(device) else device
            for device in devices
        )
        self._slices = frozenset(filter(is_mig_slice, devices))
        self._found: dict[str, tuple[str, MigSlice]] = {}
        """By UUID of a slice: that of its card, and how the slice was seen last."""

    def rows(self, snapshot: Snapshot) -> tuple[DeviceSnapshot, ...]:
        """Return the run's devices in `snapshot`; those that it does not mention are left out.

        The row of a slice has the slice's memory, and what holds for the whole card: temperature,
        clocks, errors, and whether it is lost. The driver measures no utilisation of a slice, and
        the power is that of all slices.
        """
        rows = []
        for device in snapshot.devices:
            if device.id in self.ids:
                rows.append(device)
            if self._slices and device.kind == "gpu":
                rows += self._slice_rows(device)
        return tuple(rows)

    def _slice_rows(self, card: DeviceSnapshot) -> list[DeviceSnapshot]:
        listed = {part.uuid: part for part in card.slices}
        for uuid in self._slices & listed.keys():
            self._found[uuid] = card.id, listed[uuid]
        is_answered = not (card.lost or card.asleep or "slices" in card.silent)
        rows = []
        for uuid, (home, seen) in self._found.items():
            if home != card.id:
                continue
            part, lost = listed.get(uuid), card.lost
            if part is None and is_answered:
                lost = _SLICE_GONE
            rows.append(
                msgspec.structs.replace(
                    card,
                    id=uuid,
                    label=f"{card.label} ({seen.name})",
                    memory_total=seen.memory_total,
                    memory_used=part.memory_used if part else None,
                    memory_reserved=None,
                    memory_free=None,
                    utilisation=None,
                    power=None,
                    power_limit=None,
                    processes=None,
                    slices=(),
                    lost=lost,
                )
            )
        return rows
