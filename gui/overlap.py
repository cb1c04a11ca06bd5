"""What a new run and the active runs do to each other, because they use the same devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine import queue
from engine.client import RunInfo
from engine.spec import RunSpec


def overlap(spec: RunSpec, runs: Iterable[RunInfo], spoken: Callable[[str], str]) -> str:
    """What is to be said beside the devices of `spec`; empty when no active run uses them.

    `spoken` turns a device of a spec into what people call it.
    """
    alone = set(queue.wanted_alone(spec))
    ahead: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    for info in sorted(runs, key=lambda info: int(info.id)):
        if info.state.is_over or info.status.freed_devices:
            continue
        for device in spec.devices:
            if device in info.spec.devices:
                (ahead if device in alone else shared).setdefault(spoken(device), []).append(
                    info.id
                )
    lines = [
        f"The run will queue behind {_runs(ids)} on {device}." for device, ids in ahead.items()
    ]
    lines += [f"⚠ The run will share {device} with {_runs(ids)}." for device, ids in shared.items()]
    return "\n".join(lines)


def _runs(ids: list[str]) -> str:
    """`run 3`, or `runs 3, 4 and 5`."""
    if len(ids) == 1:
        return f"run {ids[0]}"
    return f"runs {', '.join(ids[:-1])} and {ids[-1]}"
