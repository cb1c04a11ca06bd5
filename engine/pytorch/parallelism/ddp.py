"""A whole model on every rank, its gradients averaged by DistributedDataParallel."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from engine.pytorch.devices import is_gpu
from engine.pytorch.parallel import ONLY, Objective, Rank, RecipeFunction, WholeModel
from engine.pytorch.parallelism import gradient_exchange
from engine.pytorch.recipe.torch_recipe import Turn, Values
from engine.pytorch.stopwatch import Stopwatch
from engine.training.errors import TrainingFailed
from engine.training.shrinking import SHRINK

NANOSECONDS = 1e9
"""In a second; DDP logs its times in nanoseconds."""

_UNUSED = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")
"""In the message of DDP: the numbers of parameters without a gradient."""


class DDPModel(WholeModel):
    """One replica of DDP training; all ranks must construct it together.

    A DDP exchanges all gradients that it knows of, in one backward pass. So each of several
    optimizers has a DDP of its own, which knows its parameters only.

    With `on_oom` shrink there is no DDP: the gradients are exchanged after the backward pass.
    """

    def __init__(
        self, module: nn.Module, rank: Rank, *, has_step: bool = False, finds_unused: bool = False
    ) -> None:
        """`module` is on the rank's device already.

        `has_step`: the recipe's step calls it. `finds_unused`: steps may leave out parameters.
        """
        super().__init__(module, rank)
        self._has_step = has_step
        # A harmless warning: some kernels return gradients whose strides differ from the bucket's.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        self._ddps: dict[str, DistributedDataParallel] = {}
        self._trained_by = {"": self.parameters()}
        self._finds_unused = finds_unused
        # SyncBatchNorm exchanges statistics in the forward pass, where a rank may fail.
        is_repeatable = not any(isinstance(m, nn.SyncBatchNorm) for m in module.modules())
        self.can_repeat_steps = rank.spec.on_oom == SHRINK and is_repeatable
        self._stopwatch = Stopwatch(rank.device)
        if self.can_repeat_steps and self.replicas > 1:
            gradient_exchange.copy_from_first([*module.parameters(), *module.buffers()])
        self.restore_devices()

    def exchange_gradients(self, optimizer: str, *, has_equal_sets: bool) -> None:
        if not self.can_repeat_steps or self.replicas == 1:
            return
        with self._stopwatch.measuring():
            gradient_exchange.average(self._trained_by[optimizer], has_equal_sets=has_equal_sets)
            gradient_exchange.copy_from_first(list(self.module.buffers()))

    def sync_buffers(self) -> None:
        if self.replicas > 1:
            gradient_exchange.copy_from_first(list(self.module.buffers()))

    def use_optimizers(self, parameters: Mapping[str, Sequence[nn.Parameter]]) -> None:
        super().use_optimizers(parameters)
        self.restore_devices()

    def needs_all_gradients(self) -> bool:
        return bool(self._ddps) and not self._finds_unused

    def allow_missing_gradients(self) -> None:
        self._finds_unused = True
        self.restore_devices()

    def train_batch(
        self, batch: Any, weight: float, objective: Objective, *, sync: bool, turn: Turn = ONLY
    ) -> Values:
        try:
            return super().train_batch(batch, weight, objective, sync=sync, turn=turn)
        except RuntimeError as error:
            if found := _UNUSED.search(str(error)):
                raise TrainingFailed(self._unused(found[1], turn.optimizer)) from error
            raise

    def _unused(self, numbers: str, optimizer: str) -> str:
        """Say which parameters, by their `numbers` in DDP, had no gradient in the step before."""
        own = {id(parameter) for parameter in self._trained_by[optimizer]}
        names = [name for name, p in self.module.named_parameters() if id(p) in own]
        unused = [names[int(number)] for number in numbers.split() if int(number) < len(names)]
        return (
            f"{', '.join(unused)} got no gradient in the step before, so the replicas no longer "
            "had equal gradients. If steps may leave out parameters, write "
            "FIND_UNUSED_PARAMETERS = True into the recipe; DDP then looks for them in every step."
        )

    def call_in_training(self, function: RecipeFunction, batch: Any, optimizer: str) -> Values:
        call = self._ddps.get(optimizer, self._recipe_call)
        values: Values = call(function, batch)
        return values

    def gradient_exchange(self, sync: bool) -> AbstractContextManager[Any]:
        stack = ExitStack()
        for ddp in self._ddps.values() if not sync else ():
            stack.enter_context(ddp.no_sync())
        return stack

    def communication_seconds(self, steps: int) -> float:
        """Return the seconds that the gradients took beyond the backward pass: DDP measures them in
        its last sampled step, one of 100, and the others count as that one."""
        if self.replicas == 1:
            return 0.0
        if self.can_repeat_steps:
            return self._stopwatch.read_and_reset()
        waited = 0.0
        for ddp in self._ddps.values():
            logged = ddp._get_ddp_logging_data()  # type: ignore[no-untyped-call]
            hidden = float(logged.get("backward_compute_comm_overlap_time", 0))
            waited += max(0.0, float(logged.get("backward_comm_time", 0)) - hidden)
        return steps * waited / NANOSECONDS

    def free_devices(self) -> None:
        self._ddps = {}  # their buckets hold as much memory as the gradients
        self._forward = self.module

    def restore_devices(self) -> None:
        self._ddps = {}
        if self.can_repeat_steps:
            return
        for name, trained in self._trained_by.items():
            if trained:  # DDP refuses a model without trainable parameters
                self._ddps[name] = self._ddp(trained)
        if not self._has_step and self._ddps:
            self._forward = self._ddps[""]

    def _ddp(self, trained: Sequence[nn.Parameter]) -> DistributedDataParallel:
        """Return a DDP that exchanges the gradients of the parameters in `trained`."""
        if not self._has_step:
            device_ids = [self.device] if is_gpu(self.device) else None
            return DistributedDataParallel(
                self.module,
                device_ids=device_ids,
                find_unused_parameters=self._finds_unused,
                gradient_as_bucket_view=True,  # or each gradient is in memory twice
            )
        own = {id(parameter) for parameter in trained}
        others = [
            name
            for name, parameter in self._recipe_call.named_parameters()
            if id(parameter) not in own
        ]
        wrapped = self._recipe_call
        ignore: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore(wrapped, others)
        return DistributedDataParallel(
            wrapped, find_unused_parameters=self._finds_unused, gradient_as_bucket_view=True
        )
