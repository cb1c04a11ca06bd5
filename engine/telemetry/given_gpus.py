"""Which of the machine's GPUs this process was given: by a variable such as CUDA_VISIBLE_DEVICES,
or by SLURM.

A GPU that a control group withholds is not in the list: the driver does not list it at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from engine.telemetry.gpu_makers import gpu_maker
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot

VISIBLE = "CUDA_VISIBLE_DEVICES"
_VISIBLE_TO_AMD = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", VISIBLE)
"""What ROCm reads where all cards are AMD's; the first that is set counts."""

_VISIBLE_TO_INTEL = ("ZE_AFFINITY_MASK",)
"""What Level Zero reads: its own numbers of cards, which may have a part, such as `0.1`."""

_OWN_NUMBER = re.compile(r"(\d+)(?:\.\d+)?")

_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The numbers of the GPUs of a job on this machine: they matter if its shell lost VISIBLE."""

_NOTHING = ("", "-1", "nodevfiles", "none", "void")
_OLD_SLICE = re.compile(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)-(\d+)")


class GivenGpus(msgspec.Struct, frozen=True):
    """The GPUs and MIG slices that a run may use."""

    uuids: tuple[str, ...]
    """Those that answer: first what CUDA would give the number 0."""

    limit: str = ""
    """What limits them, such as `CUDA_VISIBLE_DEVICES=1,3`; empty: nothing does."""

    withheld: frozenset[str] = frozenset()
    """Those of this machine that answer and are not among them."""

    is_ambiguous: bool = False
    """Whether the limit names cards of several models by the numbers of CUDA or ROCm, whose order
    need not be that of `nvidia-smi` or the bus."""

    def refusal(self, device: str, name: str = "") -> str:
        """Return why a run may not use `device`, in a sentence; empty if it is not withheld.

        `name` is what the user calls it.
        """
        if device not in self.withheld:
            return ""
        named = name or device
        if not self.uuids:
            return (
                f"{named} was not given to Traindeck: {self.limit} gives it no GPU. Choose the CPU,"
                " or start Traindeck where the GPU is given."
            )
        return (
            f"{named} was not given to Traindeck: {self.limit} limits it to "
            f"{', '.join(self.uuids)}. Choose among these, or start Traindeck where it is given."
        )


def given_gpus(snapshot: Snapshot, environment: Mapping[str, str] | None = None) -> GivenGpus:
    """Return what of `snapshot` the `environment` gives; None: that of this process."""
    environment = os.environ if environment is None else environment
    usable = snapshot.selectable_gpus()
    if variable := _limiting_variable(usable, environment):
        text = environment[variable]
        is_intel = variable in _VISIBLE_TO_INTEL
        named = list(_named_by_level_zero(text) if is_intel else _named_by_cuda(text, snapshot))
        limit = f"{variable}={environment[variable]}"
        ambiguous = not is_intel and _by_unsure_number(environment, variable, snapshot)
    elif found := next(
        ((name, text) for name in _SLURM if (text := environment.get(name, "").strip())), None
    ):
        name, text = found
        numbers = list(_numbers(text))
        if len(numbers) >= len(_whole(snapshot)):
            return GivenGpus(usable)  # a control group hides the others, and numbers these anew
        named = [uuid for gpu in _whole(snapshot) if gpu.index in numbers for uuid in _parts(gpu)]
        limit, ambiguous = f"{name}={text}", False
    else:
        return GivenGpus(usable)
    uuids = tuple(uuid for uuid in dict.fromkeys(named) if uuid in usable)
    return GivenGpus(uuids, limit, frozenset(usable).difference(uuids), ambiguous)


def _limiting_variable(gpus: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the variable that says which of `gpus` a process sees; empty: none is set."""
    makers = set(map(gpu_maker, gpus))
    read = {"AMD": _VISIBLE_TO_AMD, "Intel": _VISIBLE_TO_INTEL}
    names = read.get(makers.pop(), (VISIBLE,)) if len(makers) == 1 else (VISIBLE,)
    return next((name for name in names if name in environment), "")


def _named_by_cuda(text: str, snapshot: Snapshot) -> Iterator[str]:
    """Yield what `text` names, as CUDA reads it: it ignores what follows an unknown name."""
    gpus = _whole(snapshot)
    for name in (part.strip() for part in text.split(",")):
        if name.lower() in _NOTHING:
            return
        found: Sequence[str] = ()
        if name.isdecimal():
            found = next((_parts(gpu) for gpu in gpus if gpu.index == int(name)), ())
        elif old := _OLD_SLICE.fullmatch(name):
            found = next((_parts(gpu) for gpu in gpus if gpu.id.lower() == old[1].lower()), ())
        else:  # a UUID may be shortened as long as it is clear
            known = [(uuid, _parts(gpu)) for gpu in gpus for uuid in (gpu.id,)]
            known += [(part.uuid, (part.uuid,)) for gpu in gpus for part in gpu.slices]
            matches = [parts for uuid, parts in known if uuid.lower() == name.lower()] or [
                parts for uuid, parts in known if uuid.lower().startswith(name.lower())
            ]
            found = matches[0] if len(matches) == 1 else ()
        if not found:
            return
        yield from found


def _named_by_level_zero(text: str) -> Iterator[str]:
    for name in text.split(","):
        if found := _OWN_NUMBER.fullmatch(name.strip()):
            yield f"GPU-intel{found[1]}"


def _by_unsure_number(environment: Mapping[str, str], variable: str, snapshot: Snapshot) -> bool:
    """Whether `variable` has numbers that may mean other cards to CUDA or ROCm than here."""
    gpus = _whole(snapshot)
    is_amd = all(gpu_maker(gpu.id) == "AMD" for gpu in gpus)
    if environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" and not is_amd:
        return False
    has_numbers = any(name.strip().isdecimal() for name in environment[variable].split(","))
    return has_numbers and len({gpu.name for gpu in gpus}) > 1


def _whole(snapshot: Snapshot) -> list[DeviceSnapshot]:
    return [device for device in snapshot.devices if device.kind == "gpu"]


def _parts(gpu: DeviceSnapshot) -> tuple[str, ...]:
    """Return the slices of a divided GPU, or the GPU itself."""
    return tuple(part.uuid for part in gpu.slices) or (gpu.id,)


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of `0,2-3`."""
    for part in text.split(","):
        if found := _RANGE.fullmatch(part.strip()):
            yield from range(int(found[1]), int(found[2]) + 1)
        elif part.strip().isdecimal():
            yield int(part)
