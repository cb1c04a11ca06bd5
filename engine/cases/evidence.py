"""What a worker keeps of the step that failed: its batch, its weights, and how it fails.

Tensors lie in safetensors files, which no reader executes; the rest is JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine.files.atomic_file import write_atomically
from engine.files.regular_file import read_regular

FOLDER = "failure"
"""In the folder of the run."""

MOST_BATCH = 3_000_000
MOST_WEIGHTS = 6_000_000
"""Bytes that a worker keeps; of more, it keeps the sizes alone."""

_MOST_DETAILS = 256 * 2**10


class Kind(StrEnum):
    """The way in which a step has failed."""

    ERROR = "error"
    """An exception in the step."""

    MEMORY = "memory"
    """A device was out of memory: the sizes decide, and no value does."""

    NOT_FINITE = "not finite"
    """The loss is NaN or infinite."""

    SAMPLE = "sample"
    """A sample could not be read."""

    HANG = "hang"
    """A sample is read for ever."""

    START = "start"
    """The recipe gave no model or no data."""


class Raw(NamedTuple):
    """A tensor as a safetensors file has it."""

    dtype: str
    """Such as `F32`."""

    shape: tuple[int, ...]
    data: bytes


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The failed step of one rank."""

    kind: Kind
    attempt: int
    rank: int
    error: str = ""
    """The name of the exception's class; of NOT_FINITE: empty."""

    message: str = ""
    """The text of the exception, as the part of the batch that is kept raises it."""

    step: int = 0
    """The number of the step, from 1."""

    epoch: int = 0
    """Completed epochs."""

    batch: int = 0
    """The number of the global batch in the epoch, from 0."""

    in_validation: bool = False
    optimizer: str = ""
    """The name of the optimizer whose part of the step it is; empty: there is only one."""

    tree: Any = None
    """The nesting of the batch: see `tree_of`. None: no batch was in hand."""

    rows: int = 0
    """Samples of the batch that is kept."""

    rows_before: int = 0
    """Samples of the batch that failed."""

    samples: tuple[str, ...] = ()
    """Names of the samples that are kept."""

    reading: tuple[int, ...] = ()
    """Samples one of which is read for ever."""

    index: int = -1
    """The index of the sample that cannot be read; -1: it is not known."""

    device: str = "cpu"
    """The framework's type of device: `cpu` or `cuda`."""

    available: int = 0
    """Bytes that the process had of its device; 0: it is not known."""

    has_weights: bool = False
    repeats: bool | None = None
    """Whether the same step failed again at once; None: it was not tried."""

    notes: tuple[str, ...] = ()
    """What is left out, and why, in sentences."""


def text_of(error: BaseException) -> str:
    """Return the text of an exception as JSON takes it: `str()` may fail, or give a class of its
    own, as that of a KeyError from a loader worker does."""
    try:
        text = str.__str__(str(error))
    except Exception:
        return ""
    return text.encode(errors="backslashreplace").decode()


def tree_of(batch: Any, put: Callable[[Any], dict[str, Any] | None]) -> Any:
    """Return the nesting of `batch` as JSON; `put` describes a tensor, and returns None for others.

    What cannot be described is named under `left_out`.
    """
    if (found := put(batch)) is not None or (found := _plain(batch)) is not None:
        return found
    match batch:
        case bytes():
            return {"bytes": batch.decode("latin-1")}
        case dict() if all("value" in (_plain(key) or {}) for key in batch):
            return {"dict": [[_value(key), tree_of(value, put)] for key, value in batch.items()]}
        case tuple() | list():
            kind = "list" if isinstance(batch, list) else "tuple"
            fields = {"fields": batch._fields} if hasattr(batch, "_fields") else {}
            return {kind: [tree_of(value, put) for value in batch], **fields}
    return {"left_out": type(batch).__qualname__}


def _plain(leaf: Any) -> dict[str, Any] | None:
    """Describe a plain value as JSON has it; of NumPy's, and of other subclasses, the value."""
    match leaf:
        case float() if not math.isfinite(leaf):
            return {"float": float.__repr__(leaf)}
        case int() if not -(2**63) <= leaf < 2**63:
            return {"int": int.__repr__(leaf)}
        case str() if not str.isascii(leaf) and _has_surrogates(leaf):
            return None
        case bool() | int() | float() | str() | None:
            return {"value": _value(leaf)}
    return None


def _value(leaf: Any) -> Any:
    for kind in (bool, int, float, str):
        if isinstance(leaf, kind):
            return str.__str__(leaf) if kind is str else kind(leaf)
    return leaf


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def left_out_of(tree: Any) -> list[str]:
    """Return the names of the classes that `tree_of` could not describe."""
    match tree:
        case {"left_out": str(name)}:
            return [name]
        case {"dict": list(entries)}:
            return [name for _, value in entries for name in left_out_of(value)]
        case {"list": list(values)} | {"tuple": list(values)}:
            return [name for value in values for name in left_out_of(value)]
    return []


def encode_tensors(tensors: Mapping[str, Raw]) -> bytes:
    """Return the content of a safetensors file."""
    header, place = {}, 0
    for name, raw in tensors.items():
        end = place + len(raw.data)
        header[name] = {"dtype": raw.dtype, "shape": raw.shape, "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join(
        [len(text).to_bytes(8, "little"), text, *(raw.data for raw in tensors.values())]
    )


def write_evidence(
    folder: Path, evidence: Evidence, batch: Mapping[str, Raw], weights: Mapping[str, Raw]
) -> None:
    """Write what a rank keeps into the folder of its run. Raises OSError."""
    place = folder / FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    for part, tensors in (("batch", batch), ("weights", weights)):
        write_atomically(tensors_file(folder, evidence.rank, part), encode_tensors(tensors))
    write_atomically(place / f"rank{evidence.rank}.json", msgspec.json.encode(evidence))


def read_evidence(folder: Path, rank: int, attempt: int) -> Evidence | None:
    """Return what a rank has kept of an attempt; None: nothing that can be read."""
    try:
        content = read_regular(folder / FOLDER / f"rank{rank}.json", _MOST_DETAILS)
        found = msgspec.json.decode(content, type=Evidence)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.attempt == attempt else None


def tensors_file(folder: Path, rank: int, part: str) -> Path:
    """Return the file with the tensors of a `part` (batch, weights) that a rank has kept."""
    return folder / FOLDER / f"rank{rank}.{part}.safetensors"
