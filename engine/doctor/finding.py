"""What a check of the doctor or of a preflight has found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

Level = Literal["error", "warning", "hint", "unknown", "ok"]
MARKS: Mapping[Level, str] = {
    "error": "PROBLEM",
    "warning": "warning",
    "hint": "hint",
    "unknown": "-",
    "ok": "ok",
}
"""What a line begins with; the worst level comes first."""


class Change(msgspec.Struct, frozen=True):
    """Values of the form that would help, by name of a field of `RunSpec`."""

    label: str
    """What the button says, such as `Use 2 loader workers`."""

    fields: dict[str, bool | int | float | str | list[str]]


class Finding(msgspec.Struct, frozen=True):
    """One finding."""

    name: str
    """What was looked at, such as `driver`, `PyTorch computes on GPU 0` or `sample loading`."""

    level: Level
    """`unknown`: it could not be looked at, or does not matter here; the text says why."""

    text: str
    """A sentence with the numbers."""

    advice: str = ""
    """A sentence with what to do; empty: nothing."""

    change: Change | None = None


def finding_lines(finding: Finding, more: str = "") -> str:
    """Return a finding as text: its level, name and sentence; its advice, and `more`, below."""
    line = f"{MARKS[finding.level]:<8} {finding.name}: {finding.text}"
    advice = f"{finding.advice} {more}".strip()
    return f"{line}\n{'':<8} -> {advice}" if advice else line


def problems_text(findings: Iterable[Finding]) -> str:
    """Return how many checks found a problem, in a sentence."""
    found = list(findings)
    bad = sum(each.level == "error" for each in found)
    if not bad:
        return f"{len(found)} checks: no problem was found."
    return f"{len(found)} checks: {bad} found a problem."
