"""Rules about checkpoints: their size and time against the disk and the settings."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from engine.doctor.finding import Change, Finding
from engine.planning.checks.training import step_seconds
from engine.planning.short_run import ShortRun
from engine.spec.run_spec import RunSpec
from engine.system.units import byte_size

DISK, CHECKPOINTS = "disk", "checkpoints"
BYTES_PER_PARAMETER = 12
"""Of a checkpoint: weights and two moments of Adam, in FP32."""

RESERVE = 64 * 2**20
"""Bytes for the curves, the logs and the last events of a run."""

TOO_OFTEN = 0.1
"""Part of the time that is spent on checkpoints, from which on it is said."""

RIGHT = 0.02
"""The part that the proposed interval has."""


class DiskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of the run folders."""

    folder: Path
    free: int = 0
    total: int = 0
    bytes_per_second: float = 0.0
    """Of writing until it is durable; 0: not measured."""

    problem: str = ""
    """Why nothing can be written, such as `read-only file system`; empty: it can be."""


def disk_finding(facts: DiskFacts) -> Finding:
    """Return whether the runs' folder can be written, and how fast."""
    if facts.problem:
        return Finding(
            name=DISK,
            level="error",
            text=f"The folder of the runs, {facts.folder}, cannot be written: {facts.problem}. "
            f"{byte_size(facts.free)} of {byte_size(facts.total)} are free.",
            advice="Make room there, let it be written to, or set TRAINDECK_HOME to a folder on "
            "another disk.",
        )
    text = f"{byte_size(facts.free)} of {byte_size(facts.total)} are free in {facts.folder}"
    if facts.bytes_per_second:
        text += f", and {facts.bytes_per_second / 1e6:,.0f} MB/s are written durably"
    if facts.free < RESERVE:
        return Finding(
            name=DISK,
            level="error",
            text=f"{text}: that is too little for a run.",
            advice="Make room there, or set TRAINDECK_HOME to a folder on another disk.",
        )
    return Finding(name=DISK, level="ok", text=f"{text}.")


def checkpoint_bytes(run: ShortRun) -> int:
    """Return the size of a checkpoint: of the one that was saved, or estimated; 0: not known."""
    return run.checkpoint_bytes or run.parameters * BYTES_PER_PARAMETER


def automatic_saves(spec: RunSpec, seconds: float, steps: int, epochs: float) -> int:
    """Return the automatic checkpoints of a run of `seconds`, `steps` and `epochs`."""
    return (
        (int(seconds / (60 * spec.checkpoint_minutes)) if spec.checkpoint_minutes else 0)
        + (steps // spec.checkpoint_steps if spec.checkpoint_steps else 0)
        + (int(epochs / spec.checkpoint_epochs) if spec.checkpoint_epochs else 0)
    )


def checkpoints_findings(run: ShortRun, disk: DiskFacts, saves: int) -> list[Finding]:
    """Return whether the checkpoints fit on the disk, and whether they cost too much time.

    `saves`: automatic checkpoints of the whole run.
    """
    size = checkpoint_bytes(run)
    if not size:
        return []
    about = "" if run.checkpoint_bytes else "about "
    if disk.problem:
        text = f"A checkpoint has {about}{byte_size(size)}, and none can be written."
        return [Finding(name=CHECKPOINTS, level="error", text=text)]
    return [_room(run.spec, disk, size, about, saves), *_interval(run, disk, size)]


def _room(spec: RunSpec, disk: DiskFacts, size: int, about: str, saves: int) -> Finding:
    others = 1 + bool(spec.best_metric)  # the last one, the best one
    kept = min(spec.keep_checkpoints, saves)
    free = max(0, disk.free - RESERVE)
    needed = (kept + others + (saves > kept)) * size  # a new one is written before one is deleted
    text = f"A checkpoint has {about}{byte_size(size)}"
    if disk.bytes_per_second:
        text += f" and takes about {size / disk.bytes_per_second:.1f} s to write"
    if needed <= free:
        text = f"{text}. The run needs room for {needed // size}, {byte_size(needed)}: it is there."
        return Finding(name=CHECKPOINTS, level="ok", text=text)
    text = (
        f"{text}. The run needs room for {needed // size}, {byte_size(needed)}, and "
        f"{byte_size(disk.free)} are free in {disk.folder}."
    )
    fits = free // size - others - 1
    if fits >= 1 and fits < spec.keep_checkpoints:
        return Finding(
            name=CHECKPOINTS,
            level="warning",
            text=text,
            advice=f"Make room, or keep {fits} automatic checkpoint{'s' * (fits > 1)}.",
            change=Change(f"Keep {fits} checkpoint{'s' * (fits > 1)}", {"keep_checkpoints": fits}),
        )
    return Finding(
        name=CHECKPOINTS,
        level="error",
        text=text,
        advice="Make room there, or set TRAINDECK_HOME to a folder on another disk.",
    )


def _interval(run: ShortRun, disk: DiskFacts, size: int) -> list[Finding]:
    """Return a warning if the run spends much of its time on checkpoints."""
    spec, step = run.spec, step_seconds(run)
    if not (disk.bytes_per_second and step):
        return []
    save = size / disk.bytes_per_second
    by_steps = spec.checkpoint_steps * step if spec.checkpoint_steps else math.inf
    by_time = spec.checkpoint_minutes * 60 if spec.checkpoint_minutes else math.inf
    interval = min(by_steps, by_time)
    if save <= TOO_OFTEN * interval:
        return []
    wanted = save / RIGHT
    if by_steps <= by_time:
        steps = math.ceil(wanted / step)
        change = Change(f"Save every {steps:,} steps", {"checkpoint_steps": steps})
    else:
        minutes = math.ceil(wanted / 6) / 10
        change = Change(f"Save every {minutes:g} min", {"checkpoint_minutes": minutes})
    return [
        Finding(
            name=CHECKPOINTS,
            level="warning",
            text=f"A checkpoint is due every {interval:.1f} s of training and takes about "
            f"{save:.1f} s to write.",
            advice=f"{change.label}: then they take {RIGHT:.0%} of the time.",
            change=change,
        )
    ]
