"""What can be asked of `python -m engine.planning`, which measures in a process of its own."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from engine.planning.results import News, Result
from engine.spec.run_spec import RunSpec

CHECK_SECONDS = 120.0
"""Time for one batch of a recipe."""


class AskRace(msgspec.Struct, frozen=True, kw_only=True, tag="race"):
    """Race `entrants`, `steps` steps each."""

    entrants: tuple[RunSpec, ...]
    steps: int = 60
    together: bool = False
    """Side by side where `devices` are free, instead of one after the other."""

    devices: tuple[str, ...] = ()
    """Where they are placed side by side; empty: the devices that they name."""

    machine: str = ""
    """The machine that measures; empty: this one. Only the window uses it."""


class AskPreflight(msgspec.Struct, frozen=True, tag="preflight"):
    spec: RunSpec
    seconds: float = 60.0
    machine: str = ""


class AskMemory(msgspec.Struct, frozen=True, tag="memory"):
    spec: RunSpec
    limit_mib: int = 0
    """Memory of a CPU device; 0: what the machine has."""

    machine: str = ""


class AskBatch(msgspec.Struct, frozen=True, tag="batch"):
    spec: RunSpec
    limit_mib: int = 0
    machine: str = ""


class AskCheck(msgspec.Struct, frozen=True, tag="check"):
    """Train one batch, of which nothing is kept."""

    spec: RunSpec
    seconds: float = CHECK_SECONDS
    machine: str = ""


class AskTrials(msgspec.Struct, frozen=True, tag="trials"):
    """Train with each strategy for seconds, to see whether this machine can."""

    gpus: tuple[str, ...]
    torch: str = ""
    """The Python that trains recipes of PyTorch; empty: that of Traindeck."""

    tensorflow: str = ""
    machine: str = ""


class AskReplay(msgspec.Struct, frozen=True, tag="replay"):
    """Train a step of a run again, with those since the checkpoint before it."""

    run: str
    step: int = 0
    """0: the one that looks wrong."""

    keeps_checkpoint: bool = False
    """Whether the run, which is over, gets a checkpoint of the step, to go on from there."""

    machine: str = ""


class AskDivergence(msgspec.Struct, frozen=True, tag="divergence"):
    """Find where two runs begin to differ."""

    first: str
    second: str
    machine: str = ""


Request = (
    AskDivergence | AskReplay | AskRace | AskPreflight | AskMemory | AskBatch | AskCheck | AskTrials
)


def specs_of(request: Request) -> tuple[RunSpec, ...]:
    """Return the settings that a request is about."""
    match request:
        case AskRace(entrants=entrants):
            return entrants
        case AskTrials() | AskReplay() | AskDivergence():
            return ()
        case _:
            return (request.spec,)


def about(request: Request, change: Callable[[RunSpec], RunSpec]) -> Request:
    """Return a request with every spec in it as `change` returns it."""
    match request:
        case AskRace(entrants=entrants):
            return replace(request, entrants=tuple(map(change, entrants)))
        case AskTrials() | AskReplay() | AskDivergence():
            return request
        case _:
            return replace(request, spec=change(request.spec))


class Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    """Why nothing is measured, in sentences."""

    text: str


Answer = News | Result | Refusal
"""One a line; the last one is a Result or a Refusal."""


def encode_line(value: Any) -> bytes:
    """Return a request or an answer as a line. JSON would have no NaN, and no infinity."""
    return base64.b64encode(msgspec.msgpack.encode(value)) + b"\n"


def decode_request(line: bytes) -> Request:
    """Return the request of a line. Raises ValueError."""
    request: Request = _decode_request(base64.b64decode(line))
    return request


def decode_answer(line: bytes) -> Answer:
    """Return the answer of a line. Raises ValueError."""
    answer: Answer = _decode_answer(base64.b64decode(line))
    return answer


_decode_request: Any = msgspec.msgpack.Decoder(Request).decode
_decode_answer: Any = msgspec.msgpack.Decoder(Answer).decode
