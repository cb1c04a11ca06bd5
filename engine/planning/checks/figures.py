"""Reads the figures that ranks have measured, and writes times in sentences."""

from __future__ import annotations

from engine.planning.short_run import ShortRun


def milliseconds(seconds: float) -> str:
    """Return `2.50 s` or `41.3 ms`."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def seconds_by_number(run: ShortRun, what: str) -> dict[int, float]:
    """Return the figures `<what>/<number>/seconds` by number."""
    found = {}
    for name, value in run.measured.items():
        match name.split("/"):
            case [kind, number, "seconds"] if kind == what:
                found[int(number)] = value
    return found


def by_rank_and_number(run: ShortRun, what: str) -> dict[int, float]:
    """Return the largest of all ranks' figures `<what>/<number>/seconds`, by number."""
    found: dict[int, float] = {}
    for name, value in run.measured.items():
        match name.split("/"):
            case ["rank", _, kind, number, "seconds"] if kind == what:
                found[int(number)] = max(value, found.get(int(number), 0.0))
    return found
