"""Whether a card is powered down: a question for the system, because the driver would wake it."""

from __future__ import annotations

from pathlib import Path

PCI_DEVICES = Path("/sys/bus/pci/devices")
"""Where Linux describes what is plugged in; not there on other systems."""


def is_suspended(pci_bus: str) -> bool:
    """Whether the card at NVML's `00000000:3B:00.0` sleeps; False where the system does not say."""
    domain, _, rest = pci_bus.lower().partition(":")
    status = PCI_DEVICES / f"{domain[-4:]}:{rest}" / "power" / "runtime_status"
    try:
        return status.read_text().strip() == "suspended"
    except OSError:
        return False
