"""Python, packages, machine and devices of an attempt, read from files without a framework."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from engine.environments.installed import Installed, installed_for, python_version_text
from engine.facts.run_facts import DeviceFacts
from engine.processes.process import usable_processors
from engine.telemetry.snapshot import Snapshot

_DRIVER = Path("/sys/module/nvidia/version")
_PROCESSORS = Path("/proc/cpuinfo")
_NVIDIA = {"cudnn": "cuDNN", "nccl": "NCCL"}


def python_facts(interpreter: str) -> dict[str, object]:
    """Return the Python at `interpreter` (empty: this one), its packages and their builds."""
    installed = installed_for(interpreter)
    own = not interpreter
    version = platform.python_version() if own else python_version_text(Path(interpreter))
    found = installed.distributions
    return {
        "python": version,
        "interpreter": sys.executable if own else interpreter,
        "packages": {name: found[name].version for name in sorted(found)},
        "builds": _builds(installed),
        "traindeck": installed_for().version("traindeck"),
    }


def _builds(installed: Installed) -> dict[str, str]:
    """Return the CUDA versions that the frameworks are built for, and NVIDIA's wheels."""
    builds = {}
    if (torch := installed.torch) is not None:
        builds["CUDA of PyTorch"] = torch.cuda or torch.target or "none"
    if (tensorflow := installed.tensorflow) is not None:
        builds["CUDA of TensorFlow"] = tensorflow.cuda or "none"
    for name, each in installed.distributions.items():
        for part, title in _NVIDIA.items():
            if name.startswith(f"nvidia-{part}-cu"):
                builds[title] = each.version
    return builds


def machine_facts() -> dict[str, object]:
    """Return name, processor and memory of this machine, and what a run may use of them."""
    return {
        "platform": platform.platform(),
        "host": platform.node(),
        "processor": processor_name(),
        "cores": psutil.cpu_count(logical=False) or 0,
        "threads": os.cpu_count() or 0,
        "usable_threads": usable_processors(),
        "memory": psutil.virtual_memory().total,
        "driver": _first_line(_DRIVER),
    }


def processor_name() -> str:
    """Return the name of the processor; empty: it is not known."""
    with contextlib.suppress(OSError), _PROCESSORS.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor()


def device_facts(devices: Sequence[str], snapshot: Snapshot | None) -> tuple[DeviceFacts, ...]:
    """Return what is known of the devices of a run; without a `snapshot`, little of its GPUs."""
    known: dict[str, DeviceFacts] = {}
    for device in snapshot.devices if snapshot else ():
        if device.kind == "gpu":
            label = f"GPU {device.label}"
            memory = device.memory_total or 0
            known[device.id] = DeviceFacts(
                id=device.id, name=device.name, label=label, memory=memory
            )
            for part in device.slices:
                known[part.uuid] = DeviceFacts(
                    id=part.uuid,
                    name=f"{device.name} ({part.name})",
                    label=label,
                    memory=part.memory_total or 0,
                )
    return tuple(known.get(device) or DeviceFacts(id=device) for device in devices)


def _first_line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").partition("\n")[0].strip()
    except OSError:
        return ""
