"""Rules about who else uses the devices: other programs, and other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.doctor.finding import Change, Finding
from engine.runs.device_queue import Ticket
from engine.spec.device_names import all_on_cpu, is_logical_cpu
from engine.spec.run_spec import RunSpec
from engine.system.units import byte_size
from engine.telemetry.memory_attribution import MemoryUse, process_text
from engine.telemetry.snapshot import Snapshot

NAME = "devices"
BUSY_CPU = 50.0
"""Percent of the processors that other programs use, from which on it is said."""


def devices_findings(
    spec: RunSpec,
    snapshot: Snapshot,
    uses: Mapping[str, MemoryUse],
    tickets: Sequence[Ticket],
    given: Sequence[str],
    processors: int,
) -> list[Finding]:
    """Return who else uses the devices of `spec`; nobody, if that is so.

    `uses`: of the memory of each GPU, `tickets`: the active runs, `given`: the GPUs that a run may
    use, `processors`: those that this process may use.
    """
    found = [] if all_on_cpu(spec.devices) else _on_gpus(spec, snapshot, uses, given)
    found += _runs(spec, snapshot, tickets)
    found += _on_cpu(spec, snapshot, processors)
    if not found:
        text = "No other program and no other run uses the chosen devices."
        found.append(Finding(name=NAME, level="ok", text=text))
    return found


def _on_gpus(
    spec: RunSpec, snapshot: Snapshot, uses: Mapping[str, MemoryUse], given: Sequence[str]
) -> list[Finding]:
    names = snapshot.display_names()
    cards = _cards(snapshot)
    found = []
    for device in dict.fromkeys(spec.devices):
        use = uses.get(cards.get(device, ""))
        if use is None or not use.is_busy:
            continue
        name = names.get(device, device)
        largest = sorted(use.others, key=lambda process: -(process.memory or 0))
        who = " and ".join(
            f"{process_text(each)} ({byte_size(each.memory)})"
            if each.memory
            else process_text(each)
            for each in largest[:3]
        )
        unknown = byte_size(use.unassigned or 0)
        what = f"{who} uses" if len(largest) == 1 else f"{who} use"
        text = (
            f"{what} {name}" if largest else f"{unknown} of {name} are used by an unknown program"
        )
        if use.free is not None and use.total:
            text += f": {byte_size(use.free)} of {byte_size(use.total)} are free"
        free = [
            each
            for each in given
            if each not in spec.devices
            and (other := uses.get(cards.get(each, ""))) is not None
            and other.is_empty
        ]
        change, advice = None, "Wait until it has ended, or expect slower steps and less memory."
        if free:
            better = [free[0] if each == device else each for each in spec.devices]
            other_name = names.get(free[0], free[0])
            change = Change(f"Use {other_name} in place of {name}", {"devices": better})
            advice = f"{other_name} is free."
        found.append(
            Finding(name=NAME, level="warning", text=f"{text}.", advice=advice, change=change)
        )
    return found


def _cards(snapshot: Snapshot) -> dict[str, str]:
    """Return the UUID of the card of each GPU and of each slice."""
    found = {}
    for device in snapshot.devices:
        found[device.id] = device.id
        found.update({part.uuid: device.id for part in device.slices})
    return found


def _runs(spec: RunSpec, snapshot: Snapshot, tickets: Sequence[Ticket]) -> list[Finding]:
    names = snapshot.display_names()
    found = []
    for ticket in tickets:
        shared = [device for device in spec.devices if device in ticket.devices]
        if not shared or ticket.place == "aside":
            continue
        waits = spec.queue == "always" or (spec.queue == "gpus" and not is_logical_cpu(shared[0]))
        where = " and ".join(names.get(device, device) for device in dict.fromkeys(shared))
        does = "waits for" if ticket.place == "waiting" else "uses"
        text = f"Run {ticket.run} {does} {where}"
        found.append(
            Finding(
                name=NAME,
                level="hint",
                text=f"{text}: this run will wait for it in the queue."
                if waits
                else f"{text}: both share it, and are slower.",
                advice="Choose other devices to start at once."
                if waits
                else "Let it wait in the queue, or choose other devices.",
                change=None if waits else Change("Let it wait in the queue", {"queue": "always"}),
            )
        )
    return found


def _on_cpu(spec: RunSpec, snapshot: Snapshot, processors: int) -> list[Finding]:
    found = []
    cpu = next((each for each in snapshot.devices if each.kind == "cpu"), None)
    if cpu is not None and (cpu.utilisation or 0.0) > BUSY_CPU:
        found.append(
            Finding(
                name=NAME,
                level="hint",
                text=f"Other programs use {cpu.utilisation:.0f} % of the processors now: steps and "
                "loading are slower than they would be alone.",
            )
        )
    ranks = sum(map(is_logical_cpu, spec.slots))
    if ranks > processors:
        fewer = [f"cpu:{number}" for number in range(processors)]
        is_plain = ranks == len(spec.devices) == len(set(spec.devices))
        found.append(
            Finding(
                name=NAME,
                level="hint",
                text=f"{ranks} CPU devices share {processors} processors: they compute in turns.",
                advice=f"No more than {processors} are faster than one.",
                change=Change(f"Use {processors} CPU devices", {"devices": fewer})
                if is_plain and processors > 1
                else None,
            )
        )
    return found
