"""Looks into one step of a rank: the loss of each sample, outputs of layers, gradients, updates.

Nothing of it changes what the step computes: outputs are read as they pass, and what is computed
beside the step brings back the random states and buffers that it finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from msgspec.structs import replace
from torch import nn
from torch.distributed.tensor import DTensor

from engine.pytorch.optimizer_step import OptimizerStep
from engine.pytorch.parallel import Objective, Parallel, Rank
from engine.pytorch.precision import Precision
from engine.pytorch.recipe.torch_recipe import Turn
from engine.pytorch.samples.batch_sharder import LocalBatch
from engine.pytorch.samples.nested import leaves_of, rows_of, take_rows
from engine.pytorch.state.snapshot import Snapshot
from engine.training.probes.keras_layers import settings_of
from engine.training.probes.sample_figures import describe_inputs, describe_target
from engine.training.probes.step_inspection import (
    MOST_ALONE,
    MOST_PICTURES,
    MOST_SAMPLES,
    LayerFigures,
    ParameterFigures,
    RankInspection,
    SampleFigures,
    joined,
    plain_settings,
    suspicion,
)
from engine.training.recipe_functions import check_mean_of_losses, check_sample_losses


class _Passed(NamedTuple):
    """What went through the loss of the recipe at once."""

    part: int
    """The number of the local batch."""

    first_row: int
    outputs: Any
    targets: Any


class StepInspector:
    """The inspection of one step by one rank; the trainer tells it how far the step is."""

    def __init__(
        self, parallel: Parallel, objective: Objective, precision: Precision, rank: Rank
    ) -> None:
        self._parallel = parallel
        self._own = objective
        self._precision = precision
        self._rank = rank
        self._optimizer = ""
        self._parts: list[LocalBatch] = []
        self._passed: list[_Passed] = []
        self._layers: dict[str, LayerFigures] = {}
        self._is_watching = False
        self._samples: list[tuple[SampleFigures, Any]] = []
        self._is_alone = self._has_own = False
        self._parameters: dict[str, ParameterFigures] = {}
        self._before: dict[str, torch.Tensor] = {}
        self._notes: list[str] = []
        self._before_step = self._snapshot()
        self.objective = objective._replace(loss=self._watched_loss)
        """The objective to compute the step with."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the layers of the model in this context, which is the step."""
        if self._rank.spec.compile:  # it computes another graph where an output is read
            self._notes.append("The outputs of layers are not seen with torch.compile.")
            yield
            return
        undo = self._parallel.watch_layers(self._note_outputs)
        try:
            yield
        finally:
            for each in undo:
                each()

    def begin(self, optimizer: str) -> None:
        """Note that the gradients of an optimizer are computed now, perhaps once more."""
        self._optimizer = optimizer
        self._parts, self._passed, self._layers = [], [], {}
        self._is_watching = True

    def take_part(self, local: LocalBatch) -> None:
        """Note that a local batch is computed now."""
        self._parts.append(local)

    @contextmanager
    def update(self, update: OptimizerStep, turn: Turn) -> Iterator[None]:
        """Note samples and gradients of the step, and the update of the weights in this context."""
        self._before_update(update, turn)
        yield
        optimizers = _optimizers(update.optimizer)  # the learning rate is set in the update
        for name, parameter in self._named(update):
            before = self._before.pop(name)
            change = _norm(_own_part(parameter).detach().to("cpu") - before)
            self._parameters[name] = replace(
                self._parameters[name],
                update_norm=change,
                optimizer=optimizers.get(id(parameter), ""),
            )

    def _before_update(self, update: OptimizerStep, turn: Turn) -> None:
        self._is_watching = False
        scale = self._precision.scaler.get_scale() if self._precision.scaler.is_enabled() else 1.0
        for name, parameter in self._named(update):
            weight, gradient = _own_part(parameter), parameter.grad
            self._before[name] = weight.detach().to("cpu", copy=True)
            norm = None if gradient is None else _norm(_own_part(gradient)) / scale
            self._parameters[name] = ParameterFigures(
                name=name,
                weight_norm=_norm(weight),
                gradient_norm=norm,
                update_norm=math.nan,
                is_part=isinstance(parameter, DTensor),
            )
        if not self._samples:
            after = self._snapshot()
            self._before_step.bring_back()
            self._parallel.module.eval()
            self._note_samples(turn._replace(optimizer=self._optimizer))
            self._parallel.train()
            after.bring_back()

    def result(self) -> RankInspection:
        """Return what this rank saw."""
        samples = [sample for sample, _ in self._samples]
        return RankInspection(
            rank=self._rank.number,
            samples=tuple(sorted(samples, key=suspicion)[:MOST_SAMPLES]),
            samples_in_all=len(samples),
            layers=tuple(self._layers.values()),
            parameters=tuple(self._parameters.values()),
            own_losses=self._has_own,
            losses_alone=self._is_alone,
            notes=tuple(self._notes),
        )

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._parallel.changed_tensors(), self._rank.devices)

    def _named(self, update: OptimizerStep) -> Iterator[tuple[str, nn.Parameter]]:
        own = {id(parameter) for parameter in update.parameters}
        for name, parameter in self._parallel.module.named_parameters():
            if id(parameter) in own:
                yield name, parameter

    # Layers

    @torch.no_grad()
    def _note_outputs(self, name: str, layer: Any, inputs: Any, outputs: Any) -> None:
        if not (self._is_watching and self._parts):
            return
        leaves = [own for leaf in _floats(outputs) if (own := _own_part(leaf)).numel()]
        if not leaves:
            return
        are_finite = all(bool(torch.isfinite(leaf).all()) for leaf in _floats(inputs))
        before = self._layers.get(name)
        found = [_figures(name, layer, leaf, has_finite_inputs=are_finite) for leaf in leaves]
        seen = joined([*([before] if before else []), *found])
        rows = self._bad_rows(outputs) + (before.samples if before else ())
        self._layers[name] = replace(seen, samples=rows)

    def _bad_rows(self, outputs: Any) -> tuple[str, ...]:
        """Return the samples of the present part for which outputs are not finite, if not all."""
        part = self._parts[-1]
        rows = torch.zeros(part.samples, dtype=torch.bool)
        for leaf in _floats(outputs):
            own = _own_part(leaf)
            if own.ndim and len(own) == part.samples:
                rows |= ~torch.isfinite(own).reshape(len(own), -1).all(1).cpu()
        return () if rows.all() else tuple(part.name(row) for row in rows.nonzero().flatten())

    # Samples

    def _watched_loss(self, outputs: Any, targets: Any) -> torch.Tensor:
        part = len(self._parts) - 1
        seen = [rows_of(each.outputs) or 0 for each in self._passed if each.part == part]
        self._passed.append(_Passed(part, sum(seen), _detached(outputs), targets))
        return self._own.loss(outputs, targets)

    def _note_samples(self, turn: Turn) -> None:
        losses: list[list[float | None]] = [[None] * local.samples for local in self._parts]
        try:
            self._has_own = self._gives_losses(losses, turn)
            if self._has_own:
                self._is_alone = self._own.step is not None
            elif self._own.step is None:
                self._losses_of_outputs(losses)
            else:
                self._is_alone = True
                self._losses_of_rows(losses, turn)
        except Exception as error:
            self._notes.append(f"The loss of single samples cannot be computed: {error}")
        if self._own.step is None and not self._passed:
            return  # another rank computes the losses of these samples
        for local, of_part in zip(self._parts, losses, strict=True):
            for row, loss in enumerate(of_part):
                self._samples.append((self._sample(local, row, loss), _row(local, row)))
        self._samples.sort(key=lambda each: suspicion(each[0]))
        self._note_gradients(turn)

    @torch.no_grad()
    def _gives_losses(self, losses: list[list[float | None]], turn: Turn) -> bool:
        """Return whether sample_loss() of the recipe gave the loss of each sample."""
        own = self._own.sample_loss
        if own is None:
            return False
        has_step = self._own.step is not None
        try:
            if has_step:
                objective = self._own._replace(step=lambda *given: {"loss": own(*given[:2])})
                for local, of_part in zip(self._parts, losses, strict=True):
                    found = self._parallel.loss_alone(local.batch, objective, turn)
                    check_sample_losses(found.shape, local.samples, has_step=True)
                    of_part[:] = found.tolist()
                return True
            for passed in self._passed:
                with self._precision.autocast():
                    found = own(passed.outputs, passed.targets)
                    whole = float(self._own.mean_loss(passed.outputs, passed.targets))
                count, of_part = rows_of(passed.outputs) or 0, losses[passed.part]
                check_sample_losses(found.shape, count, has_step=False)
                check_mean_of_losses(found.tolist(), whole)
                at = slice(passed.first_row, passed.first_row + count)
                of_part[at] = found.tolist()[: len(of_part[at])]
        except Exception as error:
            self._notes.append(f"The losses are computed without sample_loss(): {error}")
            return False
        return True

    @torch.no_grad()
    def _losses_of_outputs(self, losses: list[list[float | None]]) -> None:
        """Compute the loss of each sample from the outputs of the step itself."""
        for passed in self._passed:
            count = rows_of(passed.outputs) or 0
            of_part = losses[passed.part]
            with self._precision.autocast():
                whole = self._own.loss(passed.outputs, passed.targets)
                for row in range(count):
                    at = passed.first_row + row
                    if at >= len(of_part):
                        break  # the only sample of a replica without samples
                    if whole.ndim and len(whole) == count:
                        of_part[at] = float(whole[row].mean())
                        continue
                    rows = slice(row, row + 1)
                    own = take_rows(passed.outputs, rows), take_rows(passed.targets, rows)
                    of_part[at] = float(self._own.mean_loss(*own))

    @torch.no_grad()
    def _losses_of_rows(self, losses: list[list[float | None]], turn: Turn) -> None:
        """Compute the loss of each sample alone, where step() of the recipe computes losses."""
        for local, of_part in zip(self._parts, losses, strict=True):
            for row in range(local.samples):
                of_part[row] = float(self._loss_alone(_row(local, row), turn))

    def _note_gradients(self, turn: Turn) -> None:
        """Compute the gradients of the worst samples alone; of all, if one is not finite."""
        whole = (each.gradient_norm or 0.0 for each in self._parameters.values())
        most = MOST_ALONE if all(map(math.isfinite, whole)) else MOST_SAMPLES
        try:
            for number, (sample, row) in enumerate(self._samples[:most]):
                parameters = self._parallel.parameters()
                with torch.enable_grad():
                    loss = self._loss_alone(row, turn)
                    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                norms = [_norm(gradient) for gradient in gradients if gradient is not None]
                changed = replace(sample, gradient_norm=math.hypot(*norms))
                self._samples[number] = changed, row
        except Exception as error:
            self._notes.append(f"The gradients of single samples cannot be computed: {error}")
        self._samples.sort(key=lambda each: suspicion(each[0]))

    def _loss_alone(self, row: Any, turn: Turn) -> torch.Tensor:
        return self._parallel.loss_alone(row, self._own, turn)

    def _sample(self, local: LocalBatch, row: int, loss: float | None) -> SampleFigures:
        own = _row(local, row)
        inputs, targets = (own, None) if self._own.step is not None else own
        shown = list(_arrays(targets))
        return SampleFigures(
            name=local.name(row) or f"row {row} of the batch",
            rank=self._rank.number,
            loss=loss,
            target=describe_target(shown[0]) if len(shown) == 1 else "",
            inputs=describe_inputs(list(_arrays(inputs)), shows=len(self._samples) < MOST_PICTURES),
        )


def _row(local: LocalBatch, row: int) -> Any:
    return take_rows(local.batch, slice(row, row + 1))


def _arrays(batch: Any) -> Iterator[np.ndarray[Any, Any] | str]:
    """Yield the leaves of a batch of one sample, without its first dimension."""
    for _, leaf in leaves_of(batch):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout is torch.strided and not leaf.is_complex() and len(leaf):
                own = leaf.detach()[0].cpu()
                yield (own.float() if own.is_floating_point() else own).numpy()
        elif isinstance(leaf, str):
            yield leaf


def _floats(tree: Any) -> list[torch.Tensor]:
    return [
        leaf.detach()
        for _, leaf in leaves_of(tree)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel()
    ]


def _figures(
    name: str, layer: Any, values: torch.Tensor, *, has_finite_inputs: bool
) -> LayerFigures:
    """Return the figures of one tensor of the outputs, which has numbers."""
    own = values.float().flatten()
    is_finite = torch.isfinite(own)
    share = 1.0 - float(is_finite.float().mean())
    finite = own[is_finite] if share else own
    has_any = bool(finite.numel())
    return LayerFigures(
        name=name,
        kind=type(layer).__name__,
        mean=float(finite.mean()) if has_any else math.nan,
        smallest=float(finite.min()) if has_any else math.inf,
        largest=float(finite.max()) if has_any else -math.inf,
        not_finite=share,
        has_finite_inputs=has_finite_inputs,
        root_mean_square=_norm(finite) / math.sqrt(len(finite)) if has_any else math.nan,
        mean_size=float(finite.abs().mean()) if has_any else math.nan,
        count=len(own),
        is_training=layer.training,
        settings=settings_of(layer),
    )


def _optimizers(optimizer: torch.optim.Optimizer) -> dict[int, str]:
    """Return what updates each parameter, and how, by the parameter's id."""
    found = {}
    for group in optimizer.param_groups:
        numbers = {k: v for k, v in group.items() if k not in ("params", "param_names")}
        text = f"{type(optimizer).__name__}, {plain_settings(numbers)}"
        found.update({id(parameter): text for parameter in group["params"]})
    return found


def _own_part(tensor: torch.Tensor) -> torch.Tensor:
    own: torch.Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return own.coalesce().values() if own.is_sparse else own


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(_own_part(tensor).detach().float()))


def _detached(tree: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, tree
    )
