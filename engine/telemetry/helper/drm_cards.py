"""The AMD and Intel GPUs of this machine, as Linux shows them in `/sys`: without a library.

Never run on a card: the tests use doubles of the files that the kernel documents.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from engine.telemetry.helper.drm_fields import (
    Counters,
    matches,
    read_amd,
    read_intel,
    read_number,
    read_text,
    sensor_folder,
)
from engine.telemetry.helper.drm_processes import drm_processes
from engine.telemetry.helper.nvml_fields import Answers
from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess, KnownGpu

SLOW_INTERVAL = 5.0
"""Seconds between two searches for cards and processes."""

ROOT = "TRAINDECK_LINUX_ROOT"
"""The environment variable with which the tests put a double in the place of `/`."""

_TOLERANCE = 0.5
_SERIAL = re.compile(r"(?!0+$)[0-9a-f]{16}", re.IGNORECASE)
_INTEL = "0x8086"
_NOT_LISTED = "Linux does not list it any more."
_NO_ANSWER = "Its driver does not answer."
_LISTS_OF_NAMES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")


@dataclass
class _Card:
    id: str
    name: str
    pci_bus: str
    folder: Path | None
    """None: it is lost."""

    read: Callable[[Path, Counters, float], Answers] = read_amd
    compute_number: str = ""
    """The number in the names of files about processes (`gpu_id` of amdgpu's compute driver)."""

    counters: Counters = field(default_factory=Counters)
    lost: str | None = None
    lost_since: float | None = None


class DrmCards:
    """Lists and samples the cards; one that was listed once stays, and is lost when it is gone."""

    def __init__(
        self,
        known: Iterable[KnownGpu] = (),
        root: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`known` are cards that a helper before this one has found; `root` None: that of this
        process; `clock` is in seconds."""
        root = Path(os.environ.get(ROOT) or "/") if root is None else root
        self._system, self._proc, self._clock = root / "sys", root / "proc", clock
        self._cards = {
            gpu.uuid: _Card(gpu.uuid, gpu.name, gpu.pci_bus, None, lost=_NOT_LISTED)
            for gpu in known
        }
        self._processes: dict[str, tuple[GpuProcess, ...]] = {}
        self._due = float("-inf")

    def sample(self, first_index: int) -> tuple[DeviceSnapshot, ...]:
        """Return the cards by address on the PCI bus, numbered from `first_index`."""
        now = self._clock()
        if now >= self._due - _TOLERANCE:
            self._due = now + SLOW_INTERVAL
            self._find_cards()
            self._find_processes()
        cards = sorted(self._cards.values(), key=lambda card: card.pci_bus)
        return tuple(self._row(card, index, now) for index, card in enumerate(cards, first_index))

    def _find_cards(self) -> None:
        found = self._named((*self._amd_cards(), *self._intel_cards()))
        for id, card in self._cards.items():
            if id not in found:
                _lose(card, _NOT_LISTED)
        for id, card in found.items():
            if id not in self._cards or self._cards[id].folder != card.folder:
                self._cards[id] = card

    def _named(self, cards: Iterable[_Card]) -> dict[str, _Card]:
        """Return cards by a name of their own.

        The number of a card falls when one before it goes: it keeps the name that it had.
        """
        before = {card.pci_bus: card.id for card in self._cards.values()}
        found: dict[str, _Card] = {}
        for card in cards:
            if not _SERIAL.fullmatch(card.id.removeprefix("GPU-")):
                card.id = before.get(card.pci_bus, card.id)
            if card.id not in found:
                found[card.id] = card
        return found

    def _find_processes(self) -> None:
        numbers = {card.compute_number: card.pci_bus.lower() for card in self._cards.values()}
        numbers.pop("", None)
        if self._cards:
            self._processes = drm_processes(self._system, self._proc, numbers)

    def _amd_cards(self) -> Iterable[_Card]:
        """Yield the cards that ROCm can use: those with a node of amdgpu's compute driver."""
        nodes = matches(self._system, "class/kfd/kfd/topology/nodes/*")
        ordinal = 0
        serials: set[str] = set()
        for node in sorted(nodes, key=lambda node: (len(node.name), node.name)):
            facts = dict(
                line.split(" ", 1)
                for line in read_text(node / "properties").splitlines()
                if " " in line
            )
            number = read_text(node / "gpu_id")
            if number in ("", "0"):  # a processor
                continue
            device = self._system / f"class/drm/renderD{facts.get('drm_render_minor', '')}/device"
            if bus := _address(device):
                serial = read_text(device / "unique_id").lower()
                is_own = _SERIAL.fullmatch(serial) and serial not in serials
                serials.add(serial)
                id = f"GPU-{serial}" if is_own else f"GPU-amd{ordinal}"
                yield _Card(id, _name(device, "AMD"), bus, device, read_amd, number)
            ordinal += 1

    def _intel_cards(self) -> Iterable[_Card]:
        """Yield the cards that count their energy: graphics within a processor do not.

        Their numbers are those of Level Zero in the order of the bus, which counts both.
        """
        drivers = matches(self._system, "class/drm/card*/device")
        devices = {bus: device for device in drivers if (bus := _address(device))}
        ours = [bus for bus in sorted(devices) if read_text(devices[bus] / "vendor") == _INTEL]
        for ordinal, bus in enumerate(ours):
            device = devices[bus]
            sensors = sensor_folder(device)
            if sensors and read_number(sensors / "energy1_input") is not None:
                name = _name(device, "Intel")
                yield _Card(f"GPU-intel{ordinal}", name, bus, device, read_intel)

    def _row(self, card: _Card, index: int, now: float) -> DeviceSnapshot:
        answers, asleep = Answers(), False
        if card.folder is not None:
            asleep = read_text(card.folder / "power" / "runtime_status") == "suspended"
        if card.folder is not None and not asleep:
            answers = card.read(card.folder, card.counters, now)
            if not any(name in answers.values for name in ("memory_used", "temperature", "clock")):
                _lose(card, _NO_ANSWER)
                answers = Answers()
            else:
                card.lost = card.lost_since = None
                answers.put("processes", self._processes.get(card.pci_bus.lower(), ()))
        return DeviceSnapshot(
            id=card.id,
            kind="gpu",
            label=str(index),
            name=card.name,
            index=index,
            pci_bus=card.pci_bus,
            asleep=asleep,
            lost=card.lost,
            lost_since=card.lost_since,
            silent=dict(answers.silent),
            **answers.values,
        )


def _lose(card: _Card, why: str) -> None:
    if why == _NOT_LISTED:
        card.folder = None
    card.lost = why
    card.lost_since = card.lost_since or time.time()
    card.counters = Counters()


def _address(device: Path) -> str:
    """Return the address on the PCI bus, such as `0000:03:00.0`; empty if there is none."""
    lines = read_text(device / "uevent").splitlines()
    return next((x.partition("=")[2] for x in lines if x.startswith("PCI_SLOT_NAME=")), "")


def _name(device: Path, maker: str) -> str:
    """Return the name of the model, from the card or from the system's list of PCI devices."""
    own = "".join(filter(str.isprintable, read_text(device / "product_name")))
    if own:
        return own if own.startswith(maker) else f"{maker} {own}"
    vendor, model = (read_text(device / part).removeprefix("0x") for part in ("vendor", "device"))
    for file in map(Path, _LISTS_OF_NAMES):
        if named := _listed_name(file, vendor, model):
            return f"{maker} {named}"
    return f"{maker} GPU {vendor}:{model}"


@functools.cache
def _listed_name(file: Path, vendor: str, model: str) -> str:
    is_ours = False
    try:
        with file.open(errors="replace") as lines:
            for line in lines:
                if not line.startswith(("\t", "#")):
                    is_ours = line.startswith(f"{vendor} ")
                elif is_ours and model and line.startswith(f"\t{model} "):
                    return line.split(None, 1)[1].strip()
    except OSError:
        pass  # not there, or refused: the card is named by its numbers
    return ""
