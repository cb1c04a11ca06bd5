"""What is found in the first batch and at the first step of a training, and said before more.

Nothing of it advances a random stream or changes the model. It costs about one step: two or three
forward passes where the loss is divided among replicas, and none on one device.
"""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

from engine.pytorch.devices import is_gpu
from engine.pytorch.parallel import Objective, Parallel, Rank
from engine.pytorch.precision import MIXED
from engine.pytorch.probes.index_check import IndexCheck
from engine.pytorch.recipe.optimizer_plan import OptimizerPlan
from engine.pytorch.recipe.torch_recipe import Carried, Turn, Value
from engine.pytorch.samples.batch_sharder import LocalBatch
from engine.pytorch.samples.nested import first_not_finite, rows_of, take_rows
from engine.pytorch.state.snapshot import Snapshot
from engine.training.errors import TrainingFailed

_log = logging.getLogger(__name__)

TOLERANCE = 1e-3
"""Relative difference of two losses that are equal but for rounding, also over many samples."""

TOLERANCE_MIXED = 3e-2
"""The same in bf16 and fp16."""

MOST_NAMES = 8
"""Names that a sentence lists."""

Notice = Callable[[str], None]
"""Says a sentence once, from one rank."""


class _Sizes(NamedTuple):
    """Losses of a batch and of its halves, with what they are the means of."""

    whole: float
    halves: tuple[float, float]
    amounts: tuple[float, float]

    @property
    def expected(self) -> float:
        """The mean over the halves."""
        (left, right), (first, second) = self.halves, self.amounts
        return (left * first + right * second) / (first + second)


_KERAS = "_torch_params."
"""Before the path of a variable in the names of a Keras model's parameters."""


def shared_tensors(model: nn.Module) -> tuple[list[list[str]], list[list[str]]]:
    """Return the names of tied parameters, and of different parameters with the same memory."""
    names: dict[int, list[str]] = defaultdict(list)
    places: dict[tuple[Any, int], dict[int, str]] = defaultdict(dict)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        own = name.rpartition(_KERAS)[2]  # a Keras model lists those of the models inside it, too
        if parameter.requires_grad and own not in names[id(parameter)]:  # counters are not trained
            names[id(parameter)].append(own)
        if parameter.layout is torch.strided and not parameter.is_meta and parameter.numel():
            place = parameter.device, parameter.untyped_storage().data_ptr()
            places[place].setdefault(id(parameter), name)
    tied = [found for found in names.values() if len(found) > 1]
    overlapping = [list(found.values()) for found in places.values() if len(found) > 1]
    return tied, overlapping


def check_shared_tensors(model: Any, strategy: str, devices: Sequence[torch.device]) -> str:
    """Return what to say about parameters of `model` that share memory; empty: nothing.

    Raises TrainingFailed where they would no longer share it: PyTorch moves each of them alone.
    """
    if not isinstance(model, nn.Module):
        return ""
    tied, overlapping = shared_tensors(model)
    if overlapping and (devices[0].type != "cpu" or strategy in ("torch/fsdp", "torch/pipeline")):
        raise TrainingFailed(
            f"The parameters {listed(overlapping[0])} are different parameters in one memory, and "
            f"{strategy} on {devices[0].type} gives each a memory of its own: make them one "
            "parameter (self.head.weight = self.embedding.weight)."
        )
    if not tied:
        return ""
    return (
        f"{listed(tied[0])} {'is' if len(tied[0]) == 1 else 'are'} one parameter (tied weights): "
        "it is trained once, and saved under each name."
    )


def plan_notices(plans: Mapping[str, OptimizerPlan], module: nn.Module) -> Iterator[str]:
    """Yield what to say about the optimizers of a run before it begins."""
    for plan in plans.values():
        for each in plan.schedulers:
            if each.is_assumed and not each.per_step:  # PyTorch describes the others so
                yield (
                    f"The scheduler {type(each.scheduler).__name__} of the recipe steps after "
                    'every epoch: return {"scheduler": ..., "interval": "step"} in its place if '
                    "it counts optimizer steps."
                )
    updated = {
        id(parameter)
        for plan in plans.values()
        for group in plan.optimizer.param_groups
        for parameter in group["params"]
    }
    left = [n for n, p in module.named_parameters() if p.requires_grad and id(p) not in updated]
    if left:
        yield (
            f"No optimizer updates {listed(left)}. If that is meant, freeze "
            f"{'it' if len(left) == 1 else 'them'} with requires_grad_(False)."
        )


class Trial:
    """One rank's look at the first step; all ranks call every method, in the same order."""

    def __init__(
        self,
        parallel: Parallel,
        objective: Objective,
        rank: Rank,
        weight: Callable[[Any], float] | None,
        notice: Notice,
    ) -> None:
        self._parallel = parallel
        self._objective = objective
        self._rank = rank
        self._weight = weight
        self._notice = notice
        self._said: set[str] = set()

    def say_once(self, text: str) -> None:
        """Say `text`, unless it was said before."""
        if text not in self._said:
            self._said.add(text)
            self._notice(text)

    def indices(self) -> AbstractContextManager[object]:
        """Return a context for the first step, which names an index that a GPU could not.

        There is none beside torch.compile, which would compile a second time after it.
        """
        modules = self._parallel.module.modules()
        is_compiled = self._rank.spec.compile or any(map(_is_compiled, modules))
        is_needed = is_gpu(self._rank.device) and not is_compiled
        return IndexCheck() if is_needed else nullcontext()

    def inputs(self, local: LocalBatch) -> None:
        """Say which inputs of a local batch are not finite."""
        if problem := self.input_problem([local]):
            self._notice(f"{problem} This was found before the first step.")

    def input_problem(self, locals: Sequence[LocalBatch]) -> str:
        """Return which inputs of any rank's `locals` are not finite, in a sentence; or nothing."""
        text = ""
        for local in locals:
            if local.samples and (found := first_not_finite(local.batch)):
                leaf, row = found
                part = f" (in batch{leaf})" if leaf else ""
                text = f"The data hold NaN or infinity: {local.name(row)}{part}."
                break
        flags = torch.zeros(self._rank.world_size, dtype=torch.float64)
        flags[self._rank.number] = bool(text)
        found_by = self._rank.group.all_reduce_sum(flags).nonzero().flatten().tolist()
        if not found_by:
            return ""
        is_first = self._rank.number == found_by[0]
        return self._rank.group.broadcast_text(text if is_first else "")

    def loss(self, local: LocalBatch, turn: Turn) -> None:
        """Compare the loss of a local batch with that of its halves, if it is divided in training.

        Raises TrainingFailed on all ranks for a loss that is a sum.
        """
        spec = self._rank.spec
        parts = self._parallel.replicas * spec.accumulation
        if parts == 1 and self._rank.world_size == 1:
            return
        sizes = self._losses(local, turn)
        tolerance = TOLERANCE_MIXED if spec.precision in MIXED else TOLERANCE
        is_sum = differs = False
        if sizes is not None:
            near = tolerance * max(abs(sizes.whole), 1e-6)
            differs = abs(sizes.whole - sizes.expected) > near
            is_sum = differs and abs(sizes.whole - sum(sizes.halves)) <= near
        flags = torch.tensor([is_sum, differs], dtype=torch.float64)
        any_sum, any_differs = self._rank.group.all_reduce_sum(flags).tolist()
        if any_differs and self._is_random(local, turn, sizes, tolerance):
            return
        what = f"{parts} parts" if parts > 1 else "micro-batches"
        if any_sum:
            raise TrainingFailed(
                "The loss of a batch is the sum of the losses of its halves, and not their mean: "
                f"computed in {what}, it would be too small. Return a mean, and define "
                "weight(batch) if it is one over something other than samples, such as tokens."
            )
        if any_differs:
            why = "Does weight(batch) return the number of what the loss is the mean of?"
            if self._weight is None:
                why = (
                    "If it is a mean over something other than samples, such as tokens "
                    "(ignore_index, padding), define weight(batch), which returns their number."
                )
            self._notice(
                "The loss of a batch is not the mean of the losses of its halves, so a batch that "
                f"is computed in {what} trains otherwise than in one. {why}"
            )

    def gradients(self, optimizer: str, parameters: Sequence[nn.Parameter]) -> None:
        """Say which `parameters` of an optimizer got no gradient in the first step."""
        if names := self.without_gradients(parameters):
            of = f" in the step of the optimizer {optimizer}" if optimizer else ""
            self._notice(
                f"{listed(names)} got no gradient{of}: the loss does not depend on "
                f"{'it' if len(names) == 1 else 'them'}. If that is meant, freeze "
                f"{'it' if len(names) == 1 else 'them'} with requires_grad_(False)."
            )

    def lacks_gradients(self, parameters: Sequence[nn.Parameter]) -> bool:
        """Return whether any rank has no gradient of one of `parameters`."""
        lacking = torch.tensor([float(bool(self.without_gradients(parameters)))])
        return bool(self._rank.group.all_reduce_sum(lacking.double()))

    def without_gradients(self, parameters: Sequence[nn.Parameter]) -> list[str]:
        """Return the names of `parameters` that have no gradient on this rank."""
        wanted = {id(parameter) for parameter in parameters}
        return [
            name
            for name, parameter in self._parallel.module.named_parameters()
            if parameter.requires_grad and parameter.grad is None and id(parameter) in wanted
        ]

    def _losses(self, local: LocalBatch, turn: Turn) -> _Sizes | None:
        """Return the losses of a batch and of its halves; None if it cannot be divided."""
        count = local.samples if rows_of(local.batch) == local.samples else 0
        can_halve = torch.tensor([float(count >= 2)], dtype=torch.float64)
        if float(self._rank.group.all_reduce_sum(can_halve)) < self._rank.world_size:
            return None
        halves = [slice(0, count // 2), slice(count // 2, count)]
        try:
            with self._unchanged():
                parts = [take_rows(local.batch, rows) for rows in halves]
                first, second = (self._amount(part) for part in parts)
                whole, left, right = (self._loss(part, turn) for part in (local.batch, *parts))
        except Exception as error:  # the training says it, if it meets it too
            _log.info("the loss of a part of a batch cannot be computed: %r", error)
            return None
        sizes = _Sizes(whole, (left, right), (first, second))
        is_finite = torch.tensor([whole, left, right]).isfinite().all()
        return sizes if is_finite and first + second else None

    def _is_random(
        self, local: LocalBatch, turn: Turn, sizes: _Sizes | None, tolerance: float
    ) -> bool:
        """Return whether the loss of one batch differs from time to time, on any rank."""
        differs = False
        with self._unchanged():
            random.seed(1)
            np.random.seed(1)
            torch.manual_seed(1)
            try:
                again = self._loss(local.batch, turn)
            except Exception as error:
                _log.info("the loss of a batch cannot be computed again: %r", error)
            else:
                near = 0.1 * tolerance * max(abs(again), 1e-6)
                differs = sizes is not None and abs(sizes.whole - again) > near
        flag = torch.tensor([float(differs)], dtype=torch.float64)
        return bool(self._rank.group.all_reduce_sum(flag))

    def _loss(self, batch: Any, turn: Turn) -> float:
        """Return the loss of `batch` in evaluation mode; 0 on a rank that does not compute it."""
        objective = self._objective._replace(validate=None, metrics=_no_metrics)
        own = turn._replace(carried=Carried() if turn.carried else None)
        values: dict[str, Value] = self._parallel.validate_batch(batch, objective, own)
        return float(values.get("loss", 0.0))

    def _amount(self, batch: Any) -> float:
        return self._weight(batch) if self._weight else float(rows_of(batch) or 0)

    def remember(self) -> Callable[[], None]:
        """Return a function that brings back the present random states and buffers."""
        return Snapshot(self._parallel.changed_tensors(), self._rank.devices).bring_back

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Compute in evaluation mode, and change nothing."""
        bring_back = self.remember()
        self._parallel.evaluate()
        try:
            yield
        finally:
            bring_back()
            self._parallel.end_trial()
            self._parallel.train()


def _is_compiled(module: nn.Module) -> bool:
    return isinstance(module, OptimizedModule) or module._compiled_call_impl is not None


def _no_metrics(outputs: Any, targets: Any) -> dict[str, Value]:
    return {}


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
