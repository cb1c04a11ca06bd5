"""What a rank saw of one step that is trained again: its samples, layers and parameters."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

INSPECT_STEP = "TRAINDECK_INSPECT_STEP"
"""The environment variable of a replay: the step, from 1, of which the ranks write inspections."""

MOST_SAMPLES = 256
"""Samples of a rank that an inspection keeps: the most suspicious ones."""

MOST_PICTURES = 64
MOST_ALONE = 8
"""Samples whose gradient is computed alone: the most suspicious ones."""

_FOLDER = "inspection"


class Picture(msgspec.Struct, frozen=True):
    """A small image of a sample: rows of pixels of 1 or 3 bytes each, from the top left."""

    width: int
    height: int
    channels: int
    pixels: bytes


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the model gets of a sample."""

    smallest: float = math.nan
    """Of its numbers that are finite; NaN: it has none."""

    largest: float = math.nan
    mean: float = math.nan
    not_finite: int = 0
    """How many of its numbers are NaN or infinite."""

    text: str = ""
    picture: Picture | None = None


class SampleFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of a step."""

    name: str
    """Its index in the data set, and its file: `sample 812 (img_0812.png)`."""

    rank: int
    loss: float | None = None
    """Of this sample, with the weights before the step; None: it is not known."""

    target: str = ""
    inputs: Inputs = Inputs()
    gradient_norm: float | None = None
    """Of this sample alone, in evaluation mode; None: it was not computed."""


class LayerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The outputs of one layer in the forward pass of a step."""

    name: str
    """Its path in the model: `encoder.layers.3.linear1`; empty: the model itself."""

    kind: str
    """The name of its class."""

    mean: float
    """Of the outputs that are finite, as all figures but the next but two."""

    smallest: float
    largest: float
    not_finite: float
    """The share of the outputs that are NaN or infinite."""

    has_finite_inputs: bool = True
    samples: tuple[str, ...] = ()
    """Samples whose outputs are not finite; empty: none, all, or their outputs are no rows."""
    root_mean_square: float = math.nan
    mean_size: float = math.nan
    """Of the outputs without their signs."""

    count: int = 0
    """How many numbers its outputs are; 0: it is not known."""

    is_training: bool | None = None
    """Whether the layer was in training mode; None: it is not known."""

    settings: str = ""
    """What it was made with, such as `kernel_size=(3, 3), stride=(1, 1)`."""


class ParameterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of the model, or a rank's part of it."""

    name: str
    weight_norm: float
    """Before the step."""

    gradient_norm: float | None
    """As the update used it: averaged over the ranks, before clipping. None: it got none."""

    update_norm: float
    """Of the change by the step."""

    is_part: bool = False
    """Whether other ranks have further parts of it."""

    optimizer: str = ""
    """What updates it, and how: `SGD, lr=0.1, weight_decay=0`; empty: it is not known."""

    @property
    def layer(self) -> str:
        """The path of its layer: `encoder.linear1` of `encoder.linear1.weight`."""
        keras = self.name.removeprefix("weights.")
        return keras.rpartition("/")[0] if "/" in keras else self.name.rpartition(".")[0]


class RankInspection(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank saw of a step."""

    rank: int
    samples: tuple[SampleFigures, ...] = ()
    """The most suspicious one first."""

    samples_in_all: int = 0
    layers: tuple[LayerFigures, ...] = ()
    """In the order in which their outputs were there."""

    parameters: tuple[ParameterFigures, ...] = ()
    """In the order of the model."""

    own_losses: bool = False
    """Whether the losses are those of sample_loss() of the recipe."""

    losses_alone: bool = False
    """Whether each loss was computed from the sample alone, in evaluation mode; if not, it is from
    the outputs of the step itself."""

    in_evaluation: bool = False
    """Whether outputs of layers and gradients were computed in evaluation mode."""

    notes: tuple[str, ...] = ()
    """What could not be found out, and why, in sentences."""


def joined(parts: Sequence[LayerFigures]) -> LayerFigures:
    """Return the figures of all outputs of a layer, of which each of `parts` has some."""
    sizes = [part.count or 1 for part in parts]
    finite = [size * (1 - part.not_finite) for part, size in zip(parts, sizes, strict=True)]

    def mean(values: Iterable[float]) -> float:
        known = [(v, n) for v, n in zip(values, finite, strict=True) if n and not math.isnan(v)]
        return sum(v * n for v, n in known) / sum(n for _, n in known) if known else math.nan

    return replace(
        parts[0],
        mean=mean(part.mean for part in parts),
        root_mean_square=math.sqrt(mean(part.root_mean_square**2 for part in parts)),
        mean_size=mean(part.mean_size for part in parts),
        smallest=min(part.smallest for part in parts),
        largest=max(part.largest for part in parts),
        not_finite=1 - sum(finite) / sum(sizes),
        count=sum(part.count for part in parts),
        has_finite_inputs=all(part.has_finite_inputs for part in parts),
        samples=tuple(name for part in parts for name in part.samples),
    )


def plain_settings(found: Mapping[Any, Any]) -> str:
    """Return the settings that are numbers or words: `lr=0.1, weight_decay=0`."""
    kinds = (bool, int, float, str, tuple, list)
    return ", ".join(
        f"{name}={value:.7g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in found.items()
        if isinstance(value, kinds)
    )


def inspected_step() -> int:
    """Return the step, from 1, that the ranks of this run inspect; 0: none."""
    return int(os.environ.get(INSPECT_STEP, "0"))


def write_inspection(folder: Path, inspection: RankInspection) -> None:
    """Write what a rank saw into the folder of its run."""
    (folder / _FOLDER).mkdir(exist_ok=True)
    file = folder / _FOLDER / f"rank{inspection.rank}.msgpack"
    file.write_bytes(msgspec.msgpack.encode(inspection))


def read_inspections(folder: Path) -> list[RankInspection]:
    """Return what the ranks of a run saw, by rank. Raises OSError, msgspec.MsgspecError."""
    found = [
        msgspec.msgpack.decode(file.read_bytes(), type=RankInspection)
        for file in (folder / _FOLDER).glob("rank*.msgpack")
    ]
    return sorted(found, key=lambda each: each.rank)


def suspicion(sample: SampleFigures) -> tuple[int, float]:
    """Return a key that sorts samples: what is not finite first, then the largest loss.

    Inputs come before the gradient of the sample alone, and this before its loss.
    """
    is_fine = 2 * (not sample.inputs.not_finite) + math.isfinite(sample.gradient_norm or 0.0)
    if sample.loss is None:
        return is_fine, math.inf
    return is_fine, -sample.loss if math.isfinite(sample.loss) else -math.inf
