"""How a new run and the active runs affect each other when they use the same devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from engine.runs.device_queue import exclusive_devices
from engine.runs.run_info import RunInfo
from engine.spec.run_spec import RunSpec
from gui.bridge.machines.machines import place_of


def overlap(spec: RunSpec, runs: Iterable[RunInfo], display_name: Callable[[str], str]) -> str:
    """Return a note for each device of `spec` that active runs use; empty if there is none.

    `runs` are those of one machine.
    `display_name` returns the name of a device of a spec for display.
    """
    exclusive = set(exclusive_devices(spec))
    runs_ahead: dict[str, list[str]] = {}
    runs_beside: dict[str, list[str]] = {}
    for info in sorted(runs, key=lambda info: int(place_of(info.id)[1])):
        if info.state.is_over or info.status.freed_devices:
            continue
        for device in spec.devices:
            if device in info.spec.devices:
                found = runs_ahead if device in exclusive else runs_beside
                found.setdefault(display_name(device), []).append(info.id)
    lines = [_behind(device, ids) for device, ids in runs_ahead.items()]
    lines += [_beside(device, ids) for device, ids in runs_beside.items()]
    return "\n".join(lines)


def measured_overlap(
    spec: RunSpec, measured: Sequence[str], display_name: Callable[[str], str]
) -> str:
    """Return a note about a race or a preflight that measures on devices of `spec`; empty: none."""
    shared = [device for device in spec.devices if device in measured]
    if not shared:
        return ""
    names = ", ".join(map(display_name, shared))
    if set(shared) & set(exclusive_devices(spec)):
        return f"⚠ The run will wait for the measurement on {names}."
    return f"⚠ A run would disturb the measurement on {names}."


def _behind(device: str, ids: list[str]) -> str:
    runs = ", ".join(ids[:-1])
    text = f"The run will queue behind runs {runs} and {ids[-1]} on {device}."
    if len(ids) == 1:
        text = f"The run will queue behind run {ids[-1]} on {device}."
    return text


def _beside(device: str, ids: list[str]) -> str:
    runs = ", ".join(ids[:-1])
    text = f"⚠ The run will share {device} with runs {runs} and {ids[-1]}."
    if len(ids) == 1:
        text = f"⚠ The run will share {device} with run {ids[-1]}."
    return text
