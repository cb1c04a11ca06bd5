"""What is run on GPUs that do not exist, and what is found there; imports no framework."""

from __future__ import annotations

from itertools import cycle, product
from typing import Any

import msgspec

from engine.spec.field_info import Setting

RANKS = (
    ("torch/single", 1, (0,)),
    ("torch/data_parallel", 2, (0,)),
    ("torch/ddp", 2, (1,)),
    ("torch/fsdp", 2, (0,)),
    ("torch/model_parallel", 2, (0,)),
    ("torch/keras_ddp", 2, (1,)),
    ("torch/pipeline", 3, (0, 1, 2)),
)
"""The strategies of PyTorch, the number of GPUs, and the ranks that run one after the other."""

NUMBERS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""In which type matrices are multiplied, by the precision. (tf32 is float32 with other kernels.)"""

SOME = (
    (("fp32", 0, 1), ("bf16", 1, 2), ("fp16", 1, 1)),
    (("fp32", 1, 2), ("bf16", 0, 1), ("fp16", 0, 2)),
)
"""Precision, clipping and accumulation: every value occurs in each of the two, and every two values
in both together. A strategy has one of them, in turn."""

Combinations = tuple[tuple[str, int, int], ...]

ALL: Combinations = tuple(product(NUMBERS, (0, 1), (1, 2)))


class Trial(msgspec.Struct, kw_only=True, frozen=True):
    """One training, on one rank."""

    strategy: str
    gpus: int = 1
    rank: int = 0
    precision: str = "fp32"
    clip_norm: int = 0
    accumulation: int = 1
    fields: dict[str, Any] = {}
    """Other fields of the spec, where they are not the default."""

    settings: dict[str, Setting] = {}
    """Settings of the recipe."""

    recipe: str = "torch"

    @property
    def name(self) -> str:
        """A name for a failed test."""
        more = [f"{key}={value}" for key, value in {**self.fields, **self.settings}.items()]
        more += [self.recipe] if self.recipe == "average" else []
        of = f" of {self.gpus}" if self.gpus > 1 else ""
        return (
            f"{self.strategy} rank {self.rank}{of}, {self.precision}, clip_norm {self.clip_norm}, "
            f"accumulation {self.accumulation}{', ' if more else ''}{', '.join(more)}"
        )


class Found(msgspec.Struct, kw_only=True):
    """What a trial showed. Waits of the host are counted by their kind and place."""

    per_step: dict[str, int] = {}
    per_chunk: dict[str, int] = {}
    per_read: dict[str, int] = {}
    """When the values of a chunk are read."""

    per_batch: dict[str, int] = {}
    """Of validation."""

    per_validation: dict[str, int] = {}
    """In each chunk of a validation."""

    computed_in: list[str] = []
    """Types of the products of matrices."""

    before: int = 0
    """Bytes in device memory before it was freed."""

    left: dict[str, int] = {}
    """Bytes in device memory after it was freed, by the place that allocated them."""

    pinned: int = 0
    """Bytes of the host's memory that a checkpoint has pinned."""

    shares_buckets: bool = True
    """Whether DDP has each gradient once, in its buckets."""

    error: str = ""
    """The exception that ended the trial."""


def trials_of(*combinations: Combinations) -> list[Trial]:
    """Return the trials of all strategies, each with one of `combinations`, in turn.

    A pipeline refuses fp16.
    """
    return [
        Trial(
            strategy=strategy,
            gpus=gpus,
            rank=rank,
            precision=precision,
            clip_norm=clip_norm,
            accumulation=accumulation,
            recipe="keras" if strategy == "torch/keras_ddp" else "torch",
        )
        for (strategy, gpus, ranks), chosen in zip(RANKS, cycle(combinations), strict=False)
        for precision, clip_norm, accumulation in chosen
        for rank in ranks
        if (strategy, precision) != ("torch/pipeline", "fp16")
    ]


SINGLE = Trial(strategy="torch/single")

FURTHER = [
    msgspec.structs.replace(SINGLE, settings={"lazy": True}),
    msgspec.structs.replace(SINGLE, settings={"data": "rows"}),
    msgspec.structs.replace(SINGLE, fields={"on_nan": "skip"}),
    msgspec.structs.replace(SINGLE, fields={"optimizer": "rmsprop"}, precision="fp16"),
    msgspec.structs.replace(SINGLE, fields={"optimizer": "adam"}, precision="fp16"),
    Trial(strategy="torch/fsdp", gpus=2, recipe="average"),
    Trial(strategy="torch/ddp", gpus=2, recipe="average", precision="bf16"),
]
"""What else a run may have that touches devices."""
