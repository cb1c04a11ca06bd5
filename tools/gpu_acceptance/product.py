"""Runs of the product, started and read by its own client."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from engine import client
from engine.client import RunInfo
from engine.messages.commands import Stop
from engine.messages.events import Alarm, Event, Notice, RunEnded, Trouble
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from tools.gpu_acceptance.kit import NOTHING, RECIPES, Kit

POLL_SECONDS = 0.05

Condition = Callable[[RunInfo], bool]

_environment = threading.Lock()
_started: list[str] = []


def spec(kit: Kit, recipe: str, strategy: str = "torch/single", **changes: Any) -> RunSpec:
    """Return a spec for the device in question; `recipe` is one of the kit's, or built in."""
    path = RECIPES / f"{recipe}.py"
    fields: dict[str, Any] = {
        "recipe": str(path) if path.exists() else recipe,
        "strategy": strategy,
        "devices": (kit.device,),
        "batch_size": 64,
        "epochs": 1,
        "learning_rate": 0.003,
        "queue": "never",
        "keep_awake": False,
    }
    return RunSpec(**(fields | changes))


def start(wanted: RunSpec, variables: Mapping[str, str] = NOTHING) -> str:
    """Start a run whose processes have `variables` in their environment."""
    with _environment:  # its supervisor takes over that of this process
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            run_id = client.start(wanted)
        finally:
            os.environ.clear()
            os.environ.update(before)
    _started.append(run_id)
    return run_id


def wait(kit: Kit, run_id: str, holds: Condition, seconds: float = 120.0) -> RunInfo:
    """Return the run once `holds`.

    Raises RuntimeError if it is over before that, and TimeoutError after `seconds`.
    """
    deadline = time.monotonic() + kit.slow * seconds
    while True:
        info = client.get_run(run_id)
        if holds(info):
            return info
        if info.state.is_over:
            raise RuntimeError(f"{info.state}: {info.reason}\n{logs(info)}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"still {info.state} at step {info.status.step}\n{logs(info)}")
        time.sleep(POLL_SECONDS)


def is_over(info: RunInfo) -> bool:
    """Whether nothing of the run goes on."""
    return info.state.is_over


def train(
    kit: Kit, wanted: RunSpec, seconds: float = 120.0, variables: Mapping[str, str] = NOTHING
) -> RunInfo:
    """Return the run at its end, also if it has failed."""
    return wait(kit, start(wanted, variables), is_over, seconds)


def stop(kit: Kit, run_id: str, *, now: bool = False, seconds: float = 60.0) -> RunInfo:
    """Stop a run, and return it at its end."""
    client.send(run_id, Stop(now=now))
    return wait(kit, run_id, is_over, seconds)


def end_all() -> None:
    """End what a step has left."""
    for run_id in _started:
        try:
            if not client.get_run(run_id).state.is_over:
                client.send(run_id, Stop(now=True))
        except Exception as error:
            print("left:", run_id, error, flush=True)


def events(info: RunInfo, *kinds: type[Event], after: int = 0) -> list[Any]:
    """Return the events of `kinds` after number `after`."""
    with RunReader(info.folder) as reader:
        found = [stored.event for stored in reader.events_after(after)]
    return [event for event in found if isinstance(event, kinds)]


def wait_event(kit: Kit, run_id: str, kind: type[Event], after: int, seconds: float = 60.0) -> Any:
    """Return the first event of `kind` after number `after`."""
    found: list[Any] = []

    def happened(info: RunInfo) -> bool:
        found.extend(events(info, kind, after=after))
        return bool(found)

    wait(kit, run_id, happened, seconds)
    return found[0]


def curve(info: RunInfo, series: str = "train/loss") -> list[float]:
    """Return the values of a series."""
    return [value for _, value in timed_curve(info, series)]


def timed_curve(info: RunInfo, series: str) -> list[tuple[float, float]]:
    """Return the times and values of a series."""
    with RunReader(info.folder) as reader:
        found = reader.points_after(series, 0)
    return list(zip(found.time.tolist(), found.value.tolist(), strict=True))


def outcome(info: RunInfo) -> dict[str, Any]:
    """Return how a run ended, with the sentence of a failure."""
    found: dict[str, Any] = {
        "state": str(info.state),
        "reason": info.reason,
        "run_steps": info.status.step,
    }
    ended = events(info, RunEnded)
    if ended and (failure := ended[-1].failure):
        found |= {"failure": failure.message[:900], "where": failure.where}
    if info.state is RunState.FAILED:
        found["logs"] = logs(info, 1200)
    return found


def notices(info: RunInfo) -> list[str]:
    """Return what a person was told while it ran."""
    return [event.text for event in events(info, Alarm, Notice, Trouble)]


def logs(info: RunInfo, most: int = 1500) -> str:
    """Return the ends of what its processes printed."""
    files = sorted((info.folder / "logs").glob("*.log"))
    return "\n".join(
        f"--- {file.name}\n{file.read_text(errors='replace')[-most:]}" for file in files
    )


def compared(one: list[float], other: list[float]) -> dict[str, Any]:
    """Return how far two curves are apart, relative to the larger value."""
    apart = [abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in zip(one, other, strict=False)]
    return {
        "steps": len(apart),
        "same_length": len(one) == len(other),
        "first_step_relative": apart[0] if apart else None,
        "largest_relative": max(apart, default=None),
        "equal_bits": one == other and bool(one),
        "last": [one[-1:], other[-1:]],
    }
