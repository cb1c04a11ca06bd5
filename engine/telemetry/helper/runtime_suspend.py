"""Asks the system whether a card is powered down, because asking the driver would wake it."""

from __future__ import annotations

from pathlib import Path

PCI_DEVICES = Path("/sys/bus/pci/devices")
"""Linux describes the PCI devices here; other systems do not have this folder."""


def is_suspended(pci_bus: str) -> bool:
    """Whether the card at `00000000:3B:00.0` (NVML's form) is powered down; False if not known."""
    domain, _, rest = pci_bus.lower().partition(":")
    status = PCI_DEVICES / f"{domain[-4:]}:{rest}" / "power" / "runtime_status"
    try:
        return status.read_text().strip() == "suspended"
    except OSError:
        return False
