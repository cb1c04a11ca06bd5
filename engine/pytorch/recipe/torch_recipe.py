"""Everything that a recipe offers to a PyTorch training, in one form: `TorchRecipe`.

The trainer knows only this form. `from_file` makes it from the functions of a recipe file; what
trains in another form (modules with a training step of their own) needs only another maker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from engine.pytorch.recipe.optimizer_plan import OptimizerPlan

Value = torch.Tensor | float
"""A number of a step: a tensor with one element, or a number of Python."""

Values = dict[str, Value]

RecipeStages = Callable[[Any, int], Sequence[Any]]
"""A recipe's `stages(model, count)`."""

Loss = Callable[[Any, Any], torch.Tensor]
Metrics = Callable[[Any, Any], Values]


class Carried:
    """What a recipe carries from one local batch to the next, such as the state of an LSTM."""

    def __init__(self) -> None:
        self.state: Any = None
        """Nested tensors without a graph; None at the beginning of an epoch."""


class Turn(NamedTuple):
    """Which optimizer's part of a step is computed, and what is carried into it."""

    optimizer: str = ""
    """The name of the optimizer; empty if there is only one, without a name."""

    carried: Carried | None = None
    epoch: int = 0
    """Completed epochs."""

    batch: int = 0
    """The number of the global batch in the epoch, or of the validation batch, from 0."""

    step: int = 0
    """Completed optimizer steps."""


Step = Callable[[Any, Any, Turn], Values]
"""Computes the loss and other values of a batch, with its graph: `step(model, batch, turn)`."""

Validate = Callable[[Any, Any], Values]
"""Computes means over a batch: `validate(model, batch)`."""


class PlannedRun(NamedTuple):
    """What the functions that make optimizers may ask for."""

    learning_rate: float
    total_steps: int
    """Optimizer steps of the whole run; 0 if the length of the data is not known."""

    steps_per_epoch: int
    """0 if the length of the data is not known."""

    default_learning_rate: float = 0.0
    """That of the recipe's DEFAULTS: another one was chosen for the run."""

    precision: str = "default"
    """That of the spec."""


class TrainedModel(NamedTuple):
    """The model as the functions that make optimizers see it, on this rank's devices."""

    model: Any
    """What `make_model` gave; with this rank's part of the parameters only."""

    parameters: Any
    """The parameters that are trained, as a list."""

    named_parameters: Any
    """The same, each with its name in the model."""

    as_torch_optimizer: Callable[[Any], torch.optim.Optimizer]
    """Converts an optimizer of Keras. Raises TypeError for what is no optimizer."""


@dataclass(frozen=True, kw_only=True)
class TorchRecipe:
    """The functions of a recipe; settings are bound, and what is not offered is None."""

    make_datasets: Callable[[], Any]
    """Return the data sets."""

    make_model: Callable[[Any], Any]
    """Return the model, on the CPU, from what `make_datasets` returned."""

    takes_data: bool = False
    """Whether `make_model` needs what `make_datasets` returned; it is None otherwise."""

    build: Callable[[Any, Any], None]
    """Create the parameters whose shapes depend on the data, from a batch of one sample."""

    loss: Loss
    """The loss of `loss(outputs, targets)`, or its default; unused if there is a `step`."""

    sample_loss: Loss | None = None
    """The loss of each sample, for one who looks into a step: `sample_loss(outputs, targets)`, or
    `sample_loss(model, batch)` if there is a `step`."""

    metrics: Metrics
    """Validation metrics of `metrics(outputs, targets)`; unused if there is a `step`."""

    step: Step | None = None
    carries_state: bool = False
    """Whether `step` uses `Turn.carried`."""

    weight: Callable[[Any], float] | None = None
    """What the loss of a batch is the mean of, such as its tokens; None: its samples."""

    validate: Validate | None = None
    after_validation: Callable[[Any], Values] | None = None
    """Called with the model on all ranks after the last batch of a validation. Its values are
    further metrics of the validation, and must be equal on all ranks."""

    forget_batch: Callable[[], None] | None = None
    """Undo what the last call of `validate` counted: that batch stood in for an empty one, because
    the ranks outnumber the samples of its global batch."""

    make_optimizers: Callable[[TrainedModel, PlannedRun], Mapping[str, OptimizerPlan]]
    """Return the optimizers by name, in the order of their steps; one alone has no name ("")."""

    has_own_optimizer: bool = False
    """Whether `make_optimizers` is the recipe's, and no default."""

    has_several_optimizers: bool = False
    make_average: Callable[[nn.Module], Any] | None = None
    """Return a `torch.optim.swa_utils.AveragedModel` of the model: `ema(model)`."""

    on_epoch: Callable[[Any, int, Mapping[str, float]], Any] | None = None
    """Called after the validation of each epoch, on all ranks: `on_epoch(model, epoch, metrics)`.
    A result that is true ends the training; a text says why."""

    after_epoch: Callable[[], Values] | None = None
    """Called at the end of each epoch on all ranks, after `on_epoch`: further values of it."""

    stages: RecipeStages | None = None

    may_skip_parameters: bool = False
    """Whether steps may leave out parameters: DDP then looks for them in every step."""

    takes_pairs: bool = True
    """Whether each batch is a pair of inputs and targets."""

    has_own_loss: bool = False
    """Whether `loss` is the recipe's, and no default."""

    collate: Callable[[list[Any]], Any] | None = None
    """Makes a batch of samples: `collate(samples)`; None: as a DataLoader does."""

    @property
    def calls_model(self) -> bool:
        """Whether the recipe calls the model itself, instead of getting its outputs."""
        return self.step is not None or self.validate is not None
