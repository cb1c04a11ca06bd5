"""Checks whether a card is powered down without the driver, whose calls would wake the card."""

from __future__ import annotations

from pathlib import Path

PCI_DEVICES = Path("/sys/bus/pci/devices")
"""The folder of PCI devices on Linux; other systems do not have it."""


def is_suspended(pci_bus: str) -> bool:
    """Whether the card at `00000000:3B:00.0` (NVML's form) is powered down; False if unknown."""
    domain, _, rest = pci_bus.lower().partition(":")
    status = PCI_DEVICES / f"{domain[-4:]}:{rest}" / "power" / "runtime_status"
    try:
        return status.read_text().strip() == "suspended"
    except OSError:
        return False
