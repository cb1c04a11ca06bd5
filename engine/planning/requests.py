"""What can be asked of `python -m engine.planning`, which measures in a process of its own."""

from __future__ import annotations

import msgspec

from engine.planning.results import News, Result
from engine.spec.run_spec import RunSpec


class AskRace(msgspec.Struct, frozen=True, kw_only=True, tag="race"):
    """Race `entrants`, `steps` steps each."""

    entrants: tuple[RunSpec, ...]
    steps: int = 60
    together: bool = False
    """Side by side where `devices` are free, instead of one after the other."""

    devices: tuple[str, ...] = ()
    """Where they are placed side by side; empty: the devices that they name."""


class AskPreflight(msgspec.Struct, frozen=True, tag="preflight"):
    spec: RunSpec
    seconds: float = 60.0


class AskMemory(msgspec.Struct, frozen=True, tag="memory"):
    spec: RunSpec
    limit_mib: int = 0
    """Memory of a CPU device; 0: what the machine has."""


class AskBatch(msgspec.Struct, frozen=True, tag="batch"):
    spec: RunSpec
    limit_mib: int = 0


Request = AskRace | AskPreflight | AskMemory | AskBatch


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    """Why nothing is measured, in sentences."""

    text: str


Answer = News | Result | Refusal
"""One JSON object a line; the last one is a Result or a Refusal."""
