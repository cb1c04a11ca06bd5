"""How the command line prints a finding of the doctor or of a preflight."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping

from engine.cli.output import out
from engine.doctor.finding import Finding, Level, finding_lines
from engine.facts.equivalent_command import change_flags

_STYLES: Mapping[Level, str] = {
    "error": "bold red",
    "warning": "yellow",
    "hint": "cyan",
    "unknown": "dim",
    "ok": "green",
}


def print_finding(finding: Finding) -> None:
    """Print what was found, and what to do."""
    out().print(finding_text(finding), style=_STYLES[finding.level], soft_wrap=True)
    sys.stdout.flush()


def finding_text(finding: Finding) -> str:
    """Return what was found, and below it what to change, with the flags that do it."""
    change = finding.change
    flags = f"[{shlex.join(change_flags(change.fields))}]" if change is not None else ""
    return finding_lines(finding, flags)
