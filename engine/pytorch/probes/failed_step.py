"""Keeps the step that has failed: the smallest part of its batch that fails too, and the weights.

Its process is about to end. What is computed here takes part in no collective, so that no other
rank goes on with it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from engine.cases.evidence import (
    MOST_BATCH,
    MOST_WEIGHTS,
    Evidence,
    Kind,
    Raw,
    text_of,
    tree_of,
    write_evidence,
)
from engine.pytorch import memory
from engine.pytorch.parallel import Objective, Parallel, Rank, loss_of
from engine.pytorch.recipe.torch_recipe import Turn
from engine.pytorch.samples.batch_sharder import LocalBatch
from engine.pytorch.samples.names import Names, chain_of, failed_batch
from engine.pytorch.samples.nested import leaves_of, rows_of, take_rows
from engine.training.errors import LossNotFinite, TrainingFailed

TRIAL_SECONDS = 3.0
"""Time to look for a smaller part that fails."""

_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}
_MOST_NAMES = 100
_SAMPLE = re.compile(r"\bIn sample (\d+)\b")
_NOT_FINITE = "the loss is not finite"


class NotFinite(NamedTuple):
    """The first step of this rank whose loss was not finite, and its batches, read again."""

    turn: Turn
    parts: list[LocalBatch]
    weights: Iterator[str]
    """Brings weights in place that may give that loss, one set after the other; yields what they
    are, in a clause."""


class FailedStep:
    """What one rank keeps of the step that has failed."""

    def __init__(
        self,
        parallel: Parallel,
        objective: Objective,
        rank: Rank,
        turn: Turn,
        place: tuple[Path, int],
    ) -> None:
        """`turn`: of the step; `place`: the folder of the run, and the number of the attempt."""
        self._parallel = parallel
        self._objective = objective
        self._rank = rank
        self._turn = turn
        self._folder, attempt = place
        self._kept: dict[str, Raw] = {}
        self._fields: dict[str, Any] = {"attempt": attempt, "rank": rank.number, "notes": []}

    def keep(self, error: BaseException, not_finite: NotFinite | None) -> None:
        """Write what there is of the step that `error` has ended. Raises OSError."""
        with_batch = failed_batch(error)
        cause = _cause(error)
        fields = self._fields
        fields |= {"kind": Kind.ERROR, "error": type(cause).__name__, "message": text_of(cause)}
        fields["device"] = self._rank.device.type
        if memory.is_out_of_memory(cause, self._rank.devices):
            fields["kind"] = Kind.MEMORY
            self._note_memory()
        elif (index := _sample_of(error)) >= 0:
            fields |= {"kind": Kind.SAMPLE, "index": index}
        if isinstance(error, LossNotFinite):
            fields |= {"kind": Kind.NOT_FINITE, "error": "", "message": ""}
            if not_finite is not None:
                self._turn = not_finite.turn
                self._keep_not_finite(not_finite)
        elif with_batch is not None:
            fields["in_validation"] = "validation" in with_batch.of
            self._keep_batch(with_batch.batch, with_batch.names)
        elif isinstance(cause, TrainingFailed):
            fields["notes"].append("Traindeck has refused this: by itself, it may not fail.")
        weights = self._weights() if self._kept else {}
        fields |= {
            "step": self._turn.step + 1,
            "epoch": self._turn.epoch,
            "batch": self._turn.batch,
            "optimizer": self._turn.optimizer,
            "has_weights": bool(weights),
            "notes": tuple(fields["notes"]),
        }
        write_evidence(self._folder, Evidence(**fields), self._kept, weights)

    def _keep_not_finite(self, found: NotFinite) -> None:
        """Keep the part whose loss is not finite, with weights that make it so."""
        try:
            for name in found.weights:
                for local in found.parts:
                    if self._failure_of(local.batch) == _NOT_FINITE:
                        self._fields["notes"].append(f"The weights are {name}.")
                        self._keep_batch(local.batch, local.names)
                        return
        except Exception as error:  # the model cannot be made again
            self._fields["notes"].append(f"Other weights were not found: {error}")
        self._fields["notes"].append(
            "The weights before the step are not known, and no others gave that loss: `traindeck "
            "replay` trains the step again."
        )
        if found.parts:
            self._fields["repeats"] = False
            self._put(found.parts[0].batch)

    def _keep_batch(self, batch: Any, names: Names | None) -> None:
        """Keep a batch that fails, or the smallest part of it that fails in the same way."""
        before = rows_of(batch) or 0
        part, rows = batch, range(before)
        if self._may_try():
            failure = self._failure_of(batch)
            is_error = self._fields["kind"] == Kind.ERROR
            expected = _shape_of(self._fields["message"]) if is_error else _NOT_FINITE
            self._fields["repeats"] = failure is not None and _shape_of(failure) == expected
            if self._fields["repeats"]:
                part, rows = self._smallest(batch, expected)
        found = tuple(names.of(row) for row in rows[:_MOST_NAMES]) if names else ()
        self._fields |= {"rows": len(rows), "rows_before": before, "samples": found}
        self._put(part)

    def _may_try(self) -> bool:
        """Whether the step may be done again: alone, on a device that works."""
        is_usual = self._fields["kind"] in (Kind.ERROR, Kind.NOT_FINITE)
        return is_usual and self._rank.world_size == 1 and "CUDA" not in self._fields["message"]

    def _smallest(self, batch: Any, expected: str) -> tuple[Any, range]:
        """Return the smallest part that fails, and its rows of the batch, by halving."""
        rows, until = range(rows_of(batch) or 0), time.monotonic() + TRIAL_SECONDS
        while len(rows) > 1 and time.monotonic() < until:
            half = len(rows) // 2
            for part in (slice(0, half), slice(half, len(rows))):
                smaller = take_rows(batch, part)
                failure = self._failure_of(smaller)
                if failure is not None and _shape_of(failure) == expected:
                    batch, rows = smaller, rows[part]
                    if failure != _NOT_FINITE:
                        self._fields["message"] = failure
                    break
            else:
                break
        return batch, rows

    def _failure_of(self, batch: Any) -> str | None:
        """Do the step for a batch alone; return the text of its failure."""
        in_validation = self._fields.get("in_validation", False)
        self._parallel.evaluate() if in_validation else self._parallel.train()
        try:
            if in_validation:
                loss: torch.Tensor = loss_of(
                    self._parallel.validate_batch(batch, self._objective, self._turn)
                )
            else:
                loss = self._parallel.loss_alone(batch, self._objective, self._turn)
                if self._fields["kind"] == Kind.ERROR:
                    torch.autograd.backward(loss)
        except Exception as error:
            return text_of(error)
        return None if math.isfinite(float(loss.detach())) else _NOT_FINITE

    def _put(self, batch: Any) -> None:
        """Keep the values of a batch, or their sizes where they are too large or lost."""
        tensors = [leaf for _, leaf in leaves_of(batch) if isinstance(leaf, torch.Tensor)]
        has_room = sum(each.nbytes for each in tensors) <= MOST_BATCH
        if not has_room:
            self._fields["notes"].append("The batch is too large to be kept: its sizes are.")
        keeps = has_room and self._fields["kind"] != Kind.MEMORY

        def put(leaf: Any) -> dict[str, Any] | None:
            if not isinstance(leaf, torch.Tensor) or leaf.dtype not in _TYPES:
                return None
            name = str(len(self._kept))
            if keeps:
                try:
                    self._kept[name] = _raw(leaf)
                except RuntimeError as error:  # a device after a failed kernel
                    self._fields["notes"].append(f"Its values cannot be read: {error}")
                    name = "lost"
            return {"tensor": name, "shape": list(leaf.shape), "dtype": _TYPES[leaf.dtype]}

        self._fields["tree"] = tree_of(batch, put)

    def _weights(self) -> dict[str, Raw]:
        """Return the weights, if they fit and this rank has all of them."""
        model = self._parallel.recipe_model()
        by_number = getattr(model, "variables", None)  # a Keras model
        if by_number is not None:
            found = {str(number): each.value.data for number, each in enumerate(by_number)}
        else:
            found = dict(model.state_dict()) if isinstance(model, nn.Module) else {}
        tensors = {k: v for k, v in found.items() if isinstance(v, torch.Tensor)}
        if any(isinstance(each, DTensor) for each in tensors.values()):
            self._fields["notes"].append("The weights are divided over the ranks, and not kept.")
            return {}
        if sum(each.nbytes for each in tensors.values()) > MOST_WEIGHTS:
            self._fields["notes"].append("The weights are too large to be kept.")
            return {}
        try:
            return {name: _raw(each) for name, each in tensors.items()}
        except (RuntimeError, KeyError) as error:
            self._fields["notes"].append(f"The weights cannot be read: {error}")
            return {}

    def _note_memory(self) -> None:
        if held := memory.device_memory(self._rank.device):
            self._fields["available"] = held.free + held.reserved


def _cause(error: BaseException) -> BaseException:
    """Return the exception of the recipe or of PyTorch that a sentence of ours explains."""
    return next((each for each in chain_of(error) if not isinstance(each, TrainingFailed)), error)


def _sample_of(error: BaseException) -> int:
    """Return the index of the sample that could not be read; -1: none is named."""
    for each in chain_of(error):
        notes = "\n".join([text_of(each), *getattr(each, "__notes__", ())])
        if found := _SAMPLE.search(notes):
            return int(found[1])
    return -1


def _shape_of(text: str) -> str:
    """Return the text of a failure without numbers: a smaller batch has other sizes."""
    return re.sub(r"\d+", "#", text)


def _raw(tensor: torch.Tensor) -> Raw:
    own = tensor.detach().cpu().contiguous()
    data = own.reshape(-1).view(torch.uint8).numpy().tobytes() if own.numel() else b""
    return Raw(_TYPES[tensor.dtype], tuple(tensor.shape), data)
