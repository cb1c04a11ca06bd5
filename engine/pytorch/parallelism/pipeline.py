"""One rank's stage of a model; the micro-batches of a batch flow through the stages of all ranks.

The schedule is that of torch.distributed.pipelining. It wants micro-batches of one size and must
know what travels between the stages: both are found out here, once for every size of batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle
from torch.utils._pytree import tree_leaves, tree_map

from engine.pytorch.parallel import Figures, Objective, Parallel, Rank
from engine.pytorch.parallelism.stage_signature import Link, probe
from engine.pytorch.precision import Precision
from engine.pytorch.stopwatch import Stopwatch

MOST_FLOWS = 8
"""Kinds of batches whose buffers are kept."""


@dataclass(frozen=True)
class MicroBatches:
    """How a batch is divided: `count` parts of `size` rows, the last filled up with copies."""

    samples: int
    count: int
    size: int

    @staticmethod
    def of(samples: int, wanted: int) -> MicroBatches:
        """At most `wanted` parts, without empty ones."""
        size = -(-samples // min(wanted, samples))
        return MicroBatches(samples, -(-samples // size), size)

    def rows(self, number: int) -> slice:
        """The samples in a part."""
        return slice(number * self.size, min((number + 1) * self.size, self.samples))

    def fill_up(self, inputs: Any) -> Any:
        """`inputs` with copies of the last row, for all parts to be of one size."""
        missing = self.count * self.size - self.samples
        if not missing:
            return inputs
        return _each(
            inputs, lambda rows: torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])
        )


class CompiledSchedule(NamedTuple):
    """What batches of one kind flow through."""

    schedule: PipelineScheduleSingle
    link: Link


class TimedStage(PipelineStage):
    """A stage that measures how long it computes."""

    watch: Stopwatch

    def forward_one_chunk(self, *args: Any, **options: Any) -> Any:
        with self.watch.running():
            return super().forward_one_chunk(*args, **options)

    def backward_one_chunk(self, *args: Any, **options: Any) -> None:
        with self.watch.running():
            super().backward_one_chunk(*args, **options)


class Pipelined(Parallel):
    """One rank's stage. All ranks get the same batches; the last one sees the loss."""

    def __init__(self, module: nn.Module, stage: nn.Module, rank: Rank) -> None:
        """`module` is the whole model without the parameters of the other stages."""
        stage.to(rank.device)
        self.module = module.to(rank.device)
        self.device = rank.device
        self._stage = stage
        self._rank = rank
        self._is_first = rank.number == 0
        self._is_last = rank.number == rank.world_size - 1
        self._microbatches = rank.spec.microbatches or 2 * rank.world_size
        self._flows: dict[Any, CompiledSchedule] = {}
        self._all_time, self._own_time = Stopwatch(rank.device), Stopwatch(rank.device)
        self._called: Any = torch.compile(stage) if rank.spec.compile else stage

    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        parts = self._divide(inputs)

        def loss(outputs: Any, number: int) -> torch.Tensor:
            """A micro-batch's part of the result: its filling counts for nothing."""
            rows = parts.rows(number)
            samples: int = rows.stop - rows.start
            real = _each(outputs, lambda output: output[:samples])
            due = _each(targets, lambda target: target[rows])
            return objective.mean_loss(real, due) * (weight * samples / parts.samples)

        losses: list[torch.Tensor] = []
        with self._all_time.running():
            flow = self._flow(inputs, parts, objective.precision)
            self._run(flow, inputs, parts, loss, losses)
        return torch.stack(losses).sum() if losses else torch.zeros((), device=self.device)

    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> Figures:
        parts = self._divide(inputs)
        found: list[Any] = []

        def keep(outputs: Any, number: int) -> torch.Tensor:
            found.append(outputs)
            return torch.empty(0)

        with torch.no_grad():
            flow = self._flow(inputs, parts, objective.precision)
            self._run(flow, inputs, parts, keep, None)
            if not found:
                return {}
            outputs = tree_map(lambda *rows: torch.cat(rows)[: parts.samples], *found)
            with objective.precision.autocast():
                return objective.figures(outputs, targets)

    def train(self) -> None:
        super().train()
        self._stage.train()

    def evaluate(self) -> None:
        super().evaluate()
        self._stage.eval()

    def count_parameters(self) -> int:
        own = torch.tensor(super().count_parameters())
        return int(self._rank.group.all_reduce_sum(own))

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        own = super().gradient_norm(gradients).double().cpu()
        return self._rank.group.all_reduce_sum(own.square()).sqrt().float().to(self.device)

    def communication_share(self, seconds: float) -> float:
        """Of the training time, that in which this rank did not compute its stage."""
        waited = self._all_time.take() - self._own_time.take()
        return min(1.0, max(0.0, waited / seconds)) if seconds else 0.0

    def leave_devices(self) -> None:
        self._flows.clear()  # their buffers hold activations and gradients

    def _divide(self, inputs: Any) -> MicroBatches:
        samples = next(len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor))
        return MicroBatches.of(samples, self._microbatches)

    def _flow(self, inputs: Any, parts: MicroBatches, precision: Precision) -> CompiledSchedule:
        """The flow for batches such as `inputs`: the ranks make it together, and keep it."""
        training = torch.is_grad_enabled()
        shapes = [
            (leaf.shape[1:], leaf.dtype)
            for leaf in tree_leaves(inputs)
            if isinstance(leaf, torch.Tensor)
        ]
        kind = (training, parts.count, parts.size, *shapes)
        flow = self._flows.pop(kind, None)
        if flow is None:
            if len(self._flows) == MOST_FLOWS:
                del self._flows[next(iter(self._flows))]  # the one that was not used for longest
            example = _each(parts.fill_up(inputs), lambda rows: rows[: parts.size])
            flow = self._new_flow(example, parts, precision, training)
        self._flows[kind] = flow
        return flow

    def _new_flow(
        self, example: Any, parts: MicroBatches, precision: Precision, training: bool
    ) -> CompiledSchedule:
        rank = self._rank
        before, after = probe(self._stage, example, rank, precision)
        self._stage.train(training)
        link = Link(self._called, before, precision)
        kind = TimedStage if training else PipelineStage
        stage = kind(
            link,
            rank.number,
            rank.world_size,
            self.device,
            input_args=before.examples() if before else (),
            output_args=after.examples() if after else (torch.empty(0),),
        )
        if isinstance(stage, TimedStage):
            stage.watch = self._own_time
        # With fewer micro-batches than stages, 1F1B would be GPipe and is refused.
        schedule = Schedule1F1B if training and parts.count >= rank.world_size else ScheduleGPipe
        loss = _first if training else None
        return CompiledSchedule(schedule(stage, parts.count, loss_fn=loss, scale_grads=False), link)

    def _run(
        self,
        flow: CompiledSchedule,
        inputs: Any,
        parts: MicroBatches,
        finish: Callable[[Any, int], torch.Tensor],
        losses: list[torch.Tensor] | None,
    ) -> None:
        """Let a batch through; what `finish` makes of each micro-batch's outputs, in `losses`."""
        try:
            if self._is_first:
                flow.schedule.step(parts.fill_up(inputs), return_outputs=False)
            elif self._is_last:
                flow.link.finish = finish
                numbers = torch.arange(parts.count)
                target = None if losses is None else numbers
                flow.schedule.step(
                    number=numbers, target=target, losses=losses, return_outputs=False
                )
            else:
                flow.schedule.step(return_outputs=False)
        except RuntimeError as error:
            # The schedule wraps the error of a stage, of which the recipe's line is to be told.
            failure: BaseException = error.__cause__ or error
        else:
            return
        raise failure


def _first(loss: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """The loss of the schedule: the last stage has computed it already."""
    return loss


def _each(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """`tree` with `function` applied to its tensors, those that have rows."""
    return tree_map(
        lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf, tree
    )
