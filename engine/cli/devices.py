"""Resolves the names of devices on the command line, such as `gpu:0`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from engine.cli.output import Refused
from engine.cluster.member import Member
from engine.interface.engine import Engine
from engine.interface.values import MachineDevices
from engine.spec.device_names import (
    is_logical_cpu,
    is_mig_slice,
    local_name,
    machine_of,
    on_machine,
)
from engine.spec.strategy import Strategy
from engine.system.program import call
from engine.telemetry.given_gpus import GivenGpus

ALL_GPUS = "all-gpus"
_CPU = re.compile(r"cpu(?::(\d{1,3}))?", re.ASCII)
_GPU = re.compile(r"(?:gpu|cuda):(\d{1,3})", re.ASCII)


def resolve_devices(engine: Engine, text: str | None) -> tuple[str, ...]:
    """Return the devices that `cpu:0,gpu:1,GPU-...` or `all-gpus` names, as `RunSpec` names them.

    None: the first GPU that was given, or one CPU device if there is none. `gpu:k` and `cuda:k` are
    the GPU that `nvidia-smi` numbers k; `NAME/gpu:k` is that of another machine of the cluster.
    Raises Refused.
    """
    if text is None:
        return (*engine.list_devices().given.uuids, "cpu:0")[:1]
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise Refused(f"--devices {text!r} has an empty entry: say, for example, cpu:0,cpu:1.")
    here = _Place(engine.machine, "", cache(engine.list_devices))  # asked only if that is needed
    others = cache(lambda: _other_places(engine))
    return tuple(device for name in names for device in _resolve(name, here, others))


class _Place(NamedTuple):
    """A machine whose devices are named."""

    name: str
    """What the user calls it; empty: this machine."""

    in_cluster: str
    """Its name in the cluster; empty: the machine that starts the run."""

    devices: Callable[[], MachineDevices]

    @property
    def called(self) -> str:
        return self.in_cluster or self.name or "this machine"


def _other_places(engine: Engine) -> dict[str, _Place]:
    """Return the machines of the cluster by name, also the engine's own. Raises Refused."""
    found = engine.list_members()
    if found.problem:
        raise Refused(found.problem)
    if not found.members:
        raise Refused(f"{engine.machine or 'This machine'} is in no cluster.")
    return {
        each.name: _Place(engine.machine, "", engine.list_devices)
        if each.is_here
        else _Place(each.name, each.name, partial(_devices_of, each))
        for each in found.members
    }


def _devices_of(member: Member) -> MachineDevices:
    if member.snapshot is None:
        raise Refused(f"The devices of {member.name} are not known. {member.problem}")
    return MachineDevices(member.snapshot, member.given)


def _resolve(name: str, here: _Place, others: Callable[[], dict[str, _Place]]) -> Sequence[str]:
    machine = machine_of(name)
    if not machine:
        return _resolve_on(here, name, name)
    place = others().get(machine)
    if place is None:
        raise Refused(
            f"There is no machine {machine!r} in the cluster; there are: {', '.join(others())}."
        )
    place.devices()  # also for a CPU: a machine that was lost has no devices
    return [
        on_machine(place.in_cluster, each) for each in _resolve_on(place, local_name(name), name)
    ]


def _resolve_on(place: _Place, local: str, name: str) -> Sequence[str]:
    """Return what `local` is on a machine; `name` is what the user has written."""
    if cpu := _CPU.fullmatch(local):
        device = f"cpu:{int(cpu[1] or 0)}"
        if not is_logical_cpu(device):
            raise Refused(
                f"There is no device {name}: the logical CPU devices are cpu:0 to cpu:63."
            )
        return [device]
    if local.startswith("GPU-") or is_mig_slice(local):
        return [local]
    if local == ALL_GPUS:
        devices = place.devices()
        given = devices.given
        if not given.uuids and given.limit:
            raise Refused(f"{name} is not there: {given.limit} gives Traindeck no GPU.")
        if not given.uuids:
            raise Refused(f"{name} is not there: {devices.snapshot.gpu_note or 'no GPU answers.'}")
        return given.uuids
    if gpu := _GPU.fullmatch(local):
        return [_numbered(name, int(gpu[1]), place)]
    raise Refused(
        f"{name!r} names no device: say cpu:0, gpu:0, all-gpus or a GPU's UUID "
        f"(`{call('devices', place.name)}` lists them)."
    )


def _numbered(name: str, number: int, place: _Place) -> str:
    """Return the UUID of the GPU to which the driver gives `number`."""
    devices = place.devices()
    snapshot = devices.snapshot
    gpus = {gpu.index: gpu for gpu in snapshot.devices if gpu.kind == "gpu"}
    gpu = gpus.get(number)
    if gpu is None:
        if snapshot.gpu_note:
            raise Refused(f"{name} is not there: {snapshot.gpu_note}")
        raise Refused(f"There is no {name}: {place.called} has {len(gpus)} GPUs, counted from 0.")
    if gpu.lost:
        raise Refused(f"{name} ({gpu.name}) is lost. {gpu.lost}")
    if gpu.slices:
        raise Refused(
            f"{name} ({gpu.name}) is divided into slices (MIG): name one of them by its UUID, such "
            f"as {gpu.slices[0].uuid}."
        )
    if refusal := devices.given.refusal(gpu.id, f"{name} ({gpu.name})"):
        raise Refused(refusal)
    return gpu.id


def why_not_there(strategy: Strategy, given: GivenGpus) -> str:
    """Return why a strategy cannot run on any devices of a machine; empty if it can."""
    gpus = given.uuids
    candidates = [("cpu:0",), ("cpu:0", "cpu:1"), tuple(gpus[:1]), tuple(gpus[:2]), tuple(gpus)]
    reasons: list[list[str]] = []
    for devices in dict.fromkeys(filter(None, candidates)):
        problems = strategy.problems(devices)
        if not problems:
            return ""
        reasons.append(problems)
    fewest = min(reasons, key=len)
    return " ".join(fewest)
