"""One rank's stage of a model; the micro-batches of a batch pass through the stages of all ranks.

The schedules come from torch.distributed.pipelining: 1F1B in training, GPipe in validation and for
few micro-batches. They need micro-batches of one size, and the shapes of the tensors between the
stages. This module computes those shapes once for each size of batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle
from torch.utils._pytree import tree_leaves, tree_map

from engine.pytorch.compilation import compile_forward
from engine.pytorch.parallel import ONLY, Objective, Parallel, Rank, scaled
from engine.pytorch.parallelism.stage_signature import StageModule, stage_signatures
from engine.pytorch.precision import Precision
from engine.pytorch.recipe.torch_recipe import Turn, Values
from engine.pytorch.stopwatch import Stopwatch
from engine.training.probes.keras_layers import NoteOutputs

MAX_SCHEDULES = 8
"""The number of schedules to keep, one per kind of batch, because each has its own buffers."""


@dataclass(frozen=True)
class MicroBatches:
    """The division of a batch into `count` micro-batches of `size` rows; the last one is padded."""

    samples: int
    count: int
    size: int

    @staticmethod
    def of(samples: int, maximum: int) -> MicroBatches:
        """Divide `samples` into at most `maximum` micro-batches; each has at least one sample."""
        size = -(-samples // min(maximum, samples))
        return MicroBatches(samples, -(-samples // size), size)

    def rows(self, number: int) -> slice:
        """Return the rows of micro-batch `number`, without padding."""
        return slice(number * self.size, min((number + 1) * self.size, self.samples))

    def pad(self, inputs: Any) -> Any:
        """Return `inputs` with copies of the last row, so that each micro-batch has `size` rows."""
        padding = self.count * self.size - self.samples
        if not padding:
            return inputs
        return _map_rows(
            inputs, lambda rows: torch.cat([rows, rows[-1:].expand(padding, *rows.shape[1:])])
        )


class CompiledSchedule(NamedTuple):
    """The schedule for batches of one kind (mode, sizes, shapes), with the stage that it calls."""

    schedule: PipelineScheduleSingle
    stage_module: StageModule


class UncheckedStage(PipelineStage):
    """A stage whose schedule does not compare the inputs of a model and what we return for its
    outputs with the examples, as PyTorch before 2.12 does: it would refuse both."""

    def _validate_fwd_input(self, args: Any, kwargs: Any) -> None: ...

    def _validate_fwd_outputs(self, outputs: Any) -> None: ...


class TimedStage(UncheckedStage):
    """A stage that measures its time of computation."""

    stopwatch: Stopwatch

    def forward_one_chunk(self, *args: Any, **options: Any) -> Any:
        with self.stopwatch.measuring():
            return super().forward_one_chunk(*args, **options)

    def backward_one_chunk(self, *args: Any, **options: Any) -> None:
        with self.stopwatch.measuring():
            super().backward_one_chunk(*args, **options)


class PipelineModel(Parallel):
    """One rank's stage. All ranks get the same batches; the last rank computes the loss."""

    def __init__(self, module: nn.Module, stage: nn.Module, rank: Rank) -> None:
        """`module` is the whole model without the parameters of the other stages."""
        stage.to(rank.device)
        self.module = module.to(rank.device)
        self.device = rank.device
        self._stage = stage
        self._rank = rank
        self._is_first = rank.number == 0
        self._is_last = rank.number == rank.world_size - 1
        self._max_micro_batches = rank.spec.microbatches or 2 * rank.world_size
        self._schedules: dict[Any, CompiledSchedule] = {}
        self._is_sizing = False
        self._schedule_stopwatch = Stopwatch(rank.device)
        self._stage_stopwatch = Stopwatch(rank.device)
        if rank.spec.compile:
            compile_forward(stage)

    def train_batch(
        self, batch: Any, weight: float, objective: Objective, *, sync: bool, turn: Turn = ONLY
    ) -> Values:
        inputs, targets = batch
        micro_batches = self._micro_batches(inputs)

        def loss(outputs: Any, number: int) -> torch.Tensor:
            """Return the weighted loss of a micro-batch, without its padding."""
            rows = micro_batches.rows(number)
            samples: int = rows.stop - rows.start
            without_padding = _map_rows(outputs, lambda output: output[:samples])
            micro_targets = _map_rows(targets, lambda target: target[rows])
            share = samples / micro_batches.samples
            if objective.weight:
                micro_inputs = _map_rows(inputs, lambda rows_of: rows_of[rows])
                amount = objective.weight((micro_inputs, micro_targets))
                share = amount / total if (total := objective.weight(batch)) else 0.0
            return scaled(objective.mean_loss(without_padding, micro_targets), weight * share)

        losses: list[torch.Tensor] = []
        with self._schedule_stopwatch.measuring():
            compiled = self._schedule_for(inputs, micro_batches, objective.precision)
            self._run(compiled, inputs, micro_batches, loss, losses)
        total = torch.stack(losses).sum() if losses else torch.zeros((), device=self.device)
        return {"loss": total}

    def validate_batch(self, batch: Any, objective: Objective, turn: Turn = ONLY) -> Values:
        inputs, targets = batch
        micro_batches = self._micro_batches(inputs)
        results: list[Any] = []

        def keep_outputs(outputs: Any, number: int) -> torch.Tensor:
            results.append(outputs)
            return torch.empty(0)

        with torch.no_grad():
            compiled = self._schedule_for(inputs, micro_batches, objective.precision)
            self._run(compiled, inputs, micro_batches, keep_outputs, None)
            if not results:
                return {}
            outputs = tree_map(lambda *rows: torch.cat(rows)[: micro_batches.samples], *results)
            with objective.precision.autocast():
                return objective.loss_and_metrics(outputs, targets)

    def watch_layers(self, note: NoteOutputs) -> list[Callable[[], object]]:
        def of_step(*seen: Any) -> None:
            if not self._is_sizing:
                note(*seen)

        return super().watch_layers(of_step)

    def train(self) -> None:
        super().train()
        self._stage.train()

    def evaluate(self) -> None:
        super().evaluate()
        self._stage.eval()

    def count_parameters(self) -> int:
        of_stage = torch.tensor(super().count_parameters())
        return int(self._rank.group.all_reduce_sum(of_stage))

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        squares = super().gradient_norm(gradients).to(self.device).double().square()
        distributed.all_reduce(squares)  # in the group of the devices: the host does not wait
        return squares.sqrt().float()

    def communication_seconds(self, steps: int) -> float:
        """Return the seconds in which this rank waited for other stages."""
        waited = self._schedule_stopwatch.read_and_reset() - self._stage_stopwatch.read_and_reset()
        return max(0.0, waited)

    def free_devices(self) -> None:
        self._schedules.clear()  # their buffers hold activations and gradients

    def end_trial(self) -> None:
        self._schedules.clear()  # a trial has batches of other sizes

    def _micro_batches(self, inputs: Any) -> MicroBatches:
        samples = next(len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor))
        return MicroBatches.of(samples, self._max_micro_batches)

    def _schedule_for(
        self, inputs: Any, micro_batches: MicroBatches, precision: Precision
    ) -> CompiledSchedule:
        """Return the schedule for batches like `inputs`; all ranks must call this together."""
        training = torch.is_grad_enabled()
        shapes = [
            (leaf.shape[1:], leaf.dtype)
            for leaf in tree_leaves(inputs)
            if isinstance(leaf, torch.Tensor)
        ]
        schedule_key = (training, micro_batches.count, micro_batches.size, *shapes)
        compiled = self._schedules.pop(schedule_key, None)
        if compiled is None:
            if len(self._schedules) == MAX_SCHEDULES:
                del self._schedules[next(iter(self._schedules))]  # the least recently used one
            example = _map_rows(micro_batches.pad(inputs), lambda rows: rows[: micro_batches.size])
            compiled = self._compile_schedule(example, micro_batches, precision, training)
        self._schedules[schedule_key] = compiled
        return compiled

    def _compile_schedule(
        self, example: Any, micro_batches: MicroBatches, precision: Precision, training: bool
    ) -> CompiledSchedule:
        rank = self._rank
        self._is_sizing = True
        input_signature, output_signature = stage_signatures(self._stage, example, rank, precision)
        self._is_sizing = False
        self._stage.train(training)
        stage_module = StageModule(self._stage, input_signature, precision)
        stage_class = TimedStage if training else UncheckedStage
        stage = stage_class(
            stage_module,
            rank.number,
            rank.world_size,
            self.device,
            input_args=input_signature.examples() if input_signature else (),
            output_args=output_signature.examples() if output_signature else (torch.empty(0),),
        )
        if isinstance(stage, TimedStage):
            stage.stopwatch = self._stage_stopwatch
        # With fewer micro-batches than stages, 1F1B is GPipe, and PyTorch refuses it.
        schedule = (
            Schedule1F1B if training and micro_batches.count >= rank.world_size else ScheduleGPipe
        )
        loss = _precomputed_loss if training else None
        return CompiledSchedule(
            schedule(stage, micro_batches.count, loss_fn=loss, scale_grads=False), stage_module
        )

    def _run(
        self,
        compiled: CompiledSchedule,
        inputs: Any,
        micro_batches: MicroBatches,
        process_outputs: Callable[[Any, int], torch.Tensor],
        losses: list[torch.Tensor] | None,
    ) -> None:
        """Run a batch through all stages; all ranks must call this together.

        The last rank appends `process_outputs(outputs, number)` of each micro-batch to `losses`.
        """
        try:
            if self._is_first:
                compiled.schedule.step(micro_batches.pad(inputs), return_outputs=False)
            elif self._is_last:
                compiled.stage_module.process_outputs = process_outputs
                numbers = torch.arange(micro_batches.count)
                target = None if losses is None else numbers
                compiled.schedule.step(
                    number=numbers, target=target, losses=losses, return_outputs=False
                )
            else:
                compiled.schedule.step(return_outputs=False)
        except RuntimeError as error:
            # The schedule wraps the error of a stage; only that error names the line of the recipe.
            failure: BaseException = error.__cause__ or error
        else:
            return
        raise failure


def _precomputed_loss(loss: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    """Return `loss`: a schedule needs a loss function, but the last stage has the loss already."""
    return loss


def _map_rows(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return `tree` with `function` applied to every tensor with at least one dimension."""
    return tree_map(
        lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf, tree
    )
