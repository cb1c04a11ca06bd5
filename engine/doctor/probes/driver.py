"""Asks the NVIDIA driver and the kernel which cards there are; in the Python of Traindeck."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml


def facts(arguments: list[str]) -> dict[str, Any]:
    """Return what is known; `arguments`: the root of the file system, for /proc, /sys and /dev."""
    root = Path(arguments[0] if arguments else "/")
    found: dict[str, Any] = {
        "kernel_module": _kernel_module(root / "proc/driver/nvidia/version"),
        "cards": _cards(root / "sys/bus/pci/devices"),
        "nodes": sorted(path.name for path in (root / "dev").glob("nvidia*")),
        "is_wsl": (root / "dev/dxg").exists(),
    }
    try:
        pynvml.nvmlInit()
        found["driver"] = pynvml.nvmlSystemGetDriverVersion()
        found["cuda"] = _or_none(pynvml.nvmlSystemGetCudaDriverVersion_v2) or 0
        found["gpus"] = [_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        found["problem"], found["problem_text"] = type(error).__name__, str(error)
    found["other_gpus"] = _other_gpus(root if arguments else None, len(found.get("gpus", [])))
    kfd = root / "dev/kfd"
    found["is_rocm_refused"] = kfd.exists() and not os.access(kfd, os.R_OK | os.W_OK)
    return found


def _other_gpus(root: Path | None, first_index: int) -> list[dict[str, Any]]:
    """Return the cards of AMD and Intel, which are numbered after those of NVIDIA."""
    sys.path.append(str(Path(__file__).parents[3]))  # the program of a probe hides it
    from engine.telemetry.helper.drm_cards import DrmCards

    return [
        {
            "index": card.index,
            "uuid": card.id,
            "name": card.name,
            "memory": card.memory_total or 0,
            "problem": "Lost" if card.lost else "",
            "problem_text": (card.lost or "").rstrip("."),
        }
        for card in DrmCards(root=root).sample(first_index)
    ]


def _gpu(index: int) -> dict[str, Any]:
    found: dict[str, Any] = {"index": index}
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        found["uuid"] = pynvml.nvmlDeviceGetUUID(handle)
        found["name"] = pynvml.nvmlDeviceGetName(handle)
        found["capability"] = list(pynvml.nvmlDeviceGetCudaComputeCapability(handle))
        found["memory"] = _memory(handle)
    except pynvml.NVMLError as error:
        found["problem"], found["problem_text"] = type(error).__name__, str(error)
        return found
    mode = _or_none(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    found["is_divided"] = bool(mode and mode[0])
    if found["is_divided"]:
        found["slices"] = _slices(handle)
    return found


def _memory(handle: Any) -> int:
    """Return the bytes of a card; 0 for one that shares the memory of the machine."""
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError_NotSupported:
        return 0


def _slices(handle: Any) -> list[dict[str, str]]:
    found = []
    for index in range(_or_none(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
        try:
            part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError:
            continue  # fewer slices than the maximum
        name = pynvml.nvmlDeviceGetName(part).rpartition(" MIG ")[2]
        found.append({"uuid": pynvml.nvmlDeviceGetUUID(part), "name": name})
    return found


def _or_none(question: Callable[[], Any]) -> Any:
    """Return the answer; None for a driver that has none."""
    try:
        return question()
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None


def _kernel_module(version: Path) -> str:
    try:
        found = re.search(r"Kernel Module\b.*?\s(\d+\.[\d.]+)", version.read_text())
    except OSError:
        return ""
    return found[1] if found else "unknown"


def _cards(folder: Path) -> list[str]:
    """Return the PCI addresses of NVIDIA's cards for graphics and computing, driver or not."""
    return [
        device.name
        for device in sorted(folder.glob("*"))
        if _text(device / "vendor") == "0x10de" and _text(device / "class").startswith("0x03")
    ]


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
