"""Rules about the limits of this machine: open files, shared memory, the clock, the driver."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engine.doctor.finding import Change, Finding, Level
from engine.planning.checks.loading import used_number
from engine.planning.short_run import ShortRun
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.system.units import byte_size

LIMITS, CLOCK, SHARED_MEMORY = "limits", "clock", "shared memory"
LEAST_OPEN_FILES = 1024
FILES_PER_LOADER = 128
"""Open files for which each loader worker of a rank should have room: its batches on their way."""

LEAST_LOCKED = 64 * 2**20
JUMP_SECONDS = 0.5
PREFETCHED = 3
"""Batches that each loader worker has in shared memory at once: one in work, two ahead."""


class LimitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the system allows this process; -1: no limit."""

    open_files: int = -1
    most_open_files: int = -1
    """To which the user may raise it."""

    locked_memory: int = -1


class ClockFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The clock during the preflight."""

    jump: float = 0.0
    """Seconds by which it was set."""

    is_synchronised: bool | None = None
    """Whether a time service keeps it right; None: not known."""


def of_problems(checks: Iterable[Finding]) -> list[Finding]:
    """Return the checks of the doctor that found a problem; the run itself may go well."""
    return [_with_level(check, "warning") for check in checks if check.level == "error"]


def limits_finding(spec: RunSpec, facts: LimitFacts) -> Finding:
    """Return whether the limits of the system (`ulimit`) are enough for a run."""
    files = facts.open_files
    needed = max(LEAST_OPEN_FILES, FILES_PER_LOADER * spec.loader_workers + 256)
    if 0 <= files < needed:
        return Finding(
            name=LIMITS,
            level="warning",
            text=f"A process may open {files} files (ulimit -n), and one with "
            f"{spec.loader_workers} loader workers may need {needed}.",
            advice=f"Say `ulimit -n {needed}` in the shell that starts Traindeck"
            + (
                "."
                if facts.most_open_files < 0 or facts.most_open_files >= needed
                else f"; the administrator must raise the limit, which is {facts.most_open_files}."
            ),
        )
    text = f"A process may open {files if files >= 0 else 'any number of'} files (ulimit -n)"
    if 0 <= facts.locked_memory < LEAST_LOCKED and not all_on_cpu(spec.devices):
        return Finding(
            name=LIMITS,
            level="hint",
            text=f"{text}, and lock {byte_size(facts.locked_memory)} of memory (ulimit -l).",
            advice="GPUs of several machines over InfiniBand need `ulimit -l unlimited`.",
        )
    return Finding(name=LIMITS, level="ok", text=f"{text}.")


def shared_memory_finding(run: ShortRun, check: Finding, free: int) -> Finding:
    """Return whether /dev/shm has room for the batches of the loader workers.

    `check`: what the doctor says of it, `free`: its free bytes.
    """
    size = max(
        (v for name, v in run.measured.items() if name.endswith("/loading/batch_bytes")),
        default=0.0,
    )
    workers, ranks = used_number(run), max(1, len(run.rank_shares))
    needed = int(size * PREFETCHED * workers * ranks)
    if free >= 0 and needed > free:
        fits = int(free / (size * PREFETCHED * ranks))
        return Finding(
            name=SHARED_MEMORY,
            level="error",
            text=f"{ranks} ranks with {workers} loader workers keep about {byte_size(needed)} of "
            f"batches in /dev/shm, which has {byte_size(free)} free.",
            advice="In a container, start it with `--shm-size=8g` or `--ipc=host`; or use fewer "
            "loader workers.",
            change=Change(f"Use {fits} loader workers", {"loader_workers": fits}),
        )
    if check.level == "error":  # it matters to loader workers and NCCL only
        return _with_level(check, "warning" if workers else "hint")
    return _with_level(check, "ok")


def _with_level(check: Finding, level: Level) -> Finding:
    return msgspec.structs.replace(check, level=level)


def clock_finding(facts: ClockFacts) -> Finding:
    """Return whether the clock can be trusted."""
    if abs(facts.jump) > JUMP_SECONDS:
        return Finding(
            name=CLOCK,
            level="warning",
            text=f"The clock was set by {facts.jump:+.1f} s during the preflight: times of curves "
            "will not fit together.",
            advice="Let a time service keep it right: `timedatectl set-ntp true`.",
        )
    if facts.is_synchronised is False:
        return Finding(
            name=CLOCK,
            level="hint",
            text="The clock goes evenly, and no time service (NTP) keeps it right.",
            advice="`timedatectl set-ntp true` starts one: it matters where runs of several "
            "machines are compared.",
        )
    kept = " and is kept right by a time service" if facts.is_synchronised else ""
    return Finding(name=CLOCK, level="ok", text=f"The clock goes evenly{kept}.")
