"""Rules about the driver, the cards, and which of them this process was given."""

from __future__ import annotations

from collections.abc import Mapping

from engine.doctor.facts import DriverFacts, GpuFacts
from engine.doctor.finding import Finding
from engine.system.units import byte_size
from engine.telemetry.given_gpus import given_gpus

_INSTALL = "Install the driver of NVIDIA that your system offers, 580 or newer, and restart."


def driver_checks(facts: DriverFacts, environment: Mapping[str, str]) -> list[Finding]:
    """Return what is to be said of the driver, of each card, and of the limits on this process."""
    found = [_driver(facts)]
    found += [_card(gpu) for gpu in (*facts.gpus, *facts.other_gpus)]
    if facts.is_rocm_refused and "AMD" in facts.makers:
        text = "This user may not open /dev/kfd: without it no program computes on AMD's cards."
        remedy = "Ask to be in the group that owns it (mostly `render`), and log in anew."
        found.append(Finding("ROCm", "error", text, remedy))
    if facts.working:
        found.append(_given(facts, environment))
    return found


def _driver(facts: DriverFacts) -> Finding:
    if facts.driver and not facts.gpus:
        text = f"The NVIDIA driver {facts.driver} is loaded, but finds no card."
        remedy = "If there is one: `sudo dmesg | grep -i nvidia` says why it is not used."
        return Finding("driver", "error", text, remedy)
    if facts.driver:
        count = len(facts.gpus)
        cards = f"{count} GPU{'s' if count > 1 else ''}"
        cuda = f", for CUDA up to {facts.cuda // 1000}.{facts.cuda % 1000 // 10}"
        text = f"The NVIDIA driver {facts.driver}{cuda if facts.cuda else ''}, with {cards}."
        return Finding("driver", "ok", text)
    return _without_driver(facts)


def _without_driver(facts: DriverFacts) -> Finding:
    problem = facts.problem.removeprefix("NVMLError_")
    where = f"an NVIDIA card (PCI {', '.join(facts.cards)})"
    if problem == "LibRmVersionMismatch":
        text = "The NVIDIA driver was replaced while it was in use"
        loaded = f" (the kernel still has {facts.kernel_module})" if facts.kernel_module else ""
        return Finding("driver", "error", f"{text}{loaded}.", "Restart the machine.")
    if problem == "NoPermission":
        text = "The NVIDIA driver does not let this user ask for its GPUs."
        remedy = "Ask for access to /dev/nvidia* (a group such as `video`, or the container)."
        return Finding("driver", "error", text, remedy)
    if problem == "LibraryNotFound" and facts.kernel_module:
        text = f"The kernel has the NVIDIA driver {facts.kernel_module}, but its library NVML "
        remedy = "In a container: start it with its GPUs (`--gpus all`); otherwise install the "
        return Finding(
            "driver", "error", f"{text}(libnvidia-ml.so.1) is not there.", f"{remedy}driver whole."
        )
    if problem in ("LibraryNotFound", "DriverNotLoaded") and facts.cards:
        text = f"This machine has {where}, but no NVIDIA driver works with it."
        if problem == "DriverNotLoaded":
            text = f"This machine has {where}; the NVIDIA driver is installed, but not loaded."
            remedy = "`sudo modprobe nvidia` says why; after a new kernel it must be built again."
            return Finding("driver", "error", text, remedy)
        return Finding("driver", "error", text, _INSTALL)
    if problem == "LibraryNotFound" and facts.is_wsl:
        text = "Windows lends this system its graphics card, but the NVIDIA driver is not there."
        return Finding("driver", "error", text, "Install NVIDIA's driver in Windows, none in here.")
    if problem in ("LibraryNotFound", "DriverNotLoaded") and facts.makers:
        text = (
            f"No NVIDIA driver, and none is needed: the cards here are of "
            f"{' and '.join(facts.makers)}. Traindeck was never tried on such a card."
        )
        return Finding("driver", "ok", text)
    if problem in ("LibraryNotFound", "DriverNotLoaded"):
        text = "No NVIDIA card and no driver: this is a CPU machine, and all runs on its CPU."
        return Finding("driver", "ok", text)
    text = f"The NVIDIA driver does not answer: {facts.problem_text or problem}."
    return Finding("driver", "error", text, "`nvidia-smi` and `sudo dmesg` may say more; restart.")


def _card(gpu: GpuFacts) -> Finding:
    problem = gpu.problem.removeprefix("NVMLError_")
    if problem == "NoPermission":
        text = "The system withholds it from this process (a control group or a container)."
        return Finding(gpu.label, "unknown", text)
    if problem:
        text = f"It does not answer: {gpu.problem_text or problem}."
        where = "for `Xid` in" if gpu.maker == "NVIDIA" else "into"
        remedy = (
            f"Look {where} `sudo dmesg`, then restart. If it comes again: the card, its power or "
            "its slot is faulty."
        )
        return Finding(gpu.label, "error", text, remedy)
    memory = byte_size(gpu.memory) if gpu.memory else "memory that its driver does not count"
    text = f"{gpu.described}, {memory}, {gpu.uuid}"
    if gpu.is_divided and not gpu.slices:
        remedy = (
            f"Make slices (`sudo nvidia-smi mig -i {gpu.index} -cgi ... -C`), or switch MIG off "
            f"(`sudo nvidia-smi -i {gpu.index} -mig 0`)."
        )
        return Finding(gpu.label, "error", f"{text}: MIG is on without a slice to use.", remedy)
    if gpu.is_divided:
        names = ", ".join(part.name or part.uuid for part in gpu.slices)
        text = f"{text}: divided by MIG ({names}). A run uses one slice, by its UUID."
        return Finding(gpu.label, "ok", text)
    return Finding(gpu.label, "ok", f"{text}.")


def _given(facts: DriverFacts, environment: Mapping[str, str]) -> Finding:
    snapshot = facts.snapshot()
    given = given_gpus(snapshot, environment)
    names = snapshot.display_names()
    if not given.limit:
        return Finding("given GPUs", "ok", "Nothing limits the choice: all may be used.")
    usable = ", ".join(names[uuid] for uuid in given.uuids)
    if not usable:
        text = f"{given.limit} gives this process none of the {len(facts.working)} GPUs."
        variable = given.limit.partition("=")[0]
        remedy = f"If this is not meant: `unset {variable}`, or name a GPU that is there."
        return Finding("given GPUs", "error", text, remedy)
    text = f"{given.limit} gives {usable}; others are refused by name."
    if given.is_ambiguous and facts.makers == ("AMD",):
        text += " The cards differ, and ROCm may number them in another order than this list."
        return Finding("given GPUs", "warning", text, "Name the cards by UUID.")
    if given.is_ambiguous:
        remedy = "Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the cards by UUID."
        text += " The cards differ, and CUDA numbers them otherwise than nvidia-smi."
        return Finding("given GPUs", "error", text, remedy)
    return Finding("given GPUs", "ok", text)
