"""A model whose parameters, gradients and optimizer state are sharded over the ranks (FSDP2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from engine.pytorch.parallel import Parallel, Rank, WholeModel
from engine.pytorch.precision import MIXED
from engine.pytorch.stopwatch import Stopwatch
from engine.training.errors import TrainingFailed

MIN_UNIT_PARAMETERS = 2**20
"""A block with fewer parameters is gathered together with the module that contains it."""


class FSDPModel(WholeModel):
    """One rank's shards. FSDP gathers the parameters of a unit before it uses them.

    All ranks must construct it together.
    """

    def __init__(self, module: nn.Module, rank: Rank, *, has_step: bool = False) -> None:
        """`has_step`: the recipe's step calls `module`, or only parts of it."""
        if sparse := _sparse(module):
            raise TrainingFailed(
                f"torch/fsdp cannot shard the sparse gradients of {sparse}: let it have "
                "sparse=False, or choose torch/ddp."
            )
        units = _units(module)
        super().__init__(module, rank, units)
        self.can_repeat_steps = False  # what it has gathered is not known after a failure
        self._parameter_count = sum(p.numel() for p in module.parameters() if p.requires_grad)
        dtype = MIXED.get(rank.spec.precision)
        policy = MixedPrecisionPolicy()
        if dtype:
            policy = MixedPrecisionPolicy(dtype, torch.float32, output_dtype=torch.float32)
        mesh = init_device_mesh(rank.device.type, (rank.world_size,))
        *blocks, root = units
        for block in blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        if has_step:
            # A step may call a part of the model, so its parameters are gathered around the step.
            # The batch stays as it is: its targets are not cast.
            root = self._recipe_call
            policy = MixedPrecisionPolicy(dtype, torch.float32, cast_forward_inputs=False)
        fully_shard(root, mesh=mesh, mp_policy=policy)
        self._root = root
        self._stopwatch = Stopwatch(rank.device)
        gather: Any = _TimedCollective(distributed.all_gather_into_tensor, self._stopwatch)
        scatter: Any = _TimedCollective(distributed.reduce_scatter_tensor, self._stopwatch)
        for unit in root.modules():
            if isinstance(unit, FSDPModule):
                unit.set_custom_all_gather(gather)
                unit.set_custom_reduce_scatter(scatter)

    loss_alone = Parallel.loss_alone

    def gradient_exchange(self, sync: bool) -> AbstractContextManager[Any]:
        cast(FSDPModule, self._root).set_requires_gradient_sync(sync)
        return nullcontext()

    def training_only(self, optimizer: str) -> AbstractContextManager[Any]:
        # FSDP decides once which parameters it gathers with gradients.
        return nullcontext()

    @property
    def placed_module(self) -> nn.Module:
        return self._root

    def reshard(self) -> None:
        for unit in self._root.modules():
            if isinstance(unit, FSDPModule):
                unit.reshard()

    def communication_seconds(self, steps: int) -> float:
        """Return the seconds in all-gather and reduce-scatter."""
        return self._stopwatch.read_and_reset()

    def count_parameters(self) -> int:
        return self._parameter_count

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        norm = nn.utils.get_total_norm(gradients)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm


def _sparse(module: nn.Module) -> str:
    """Return the name of an embedding with sparse gradients; empty: there is none."""
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse:
            return name or type(part).__name__
    return ""


class _TimedCollective:
    """Replaces a collective of FSDP by `collective`, and measures its time."""

    def __init__(self, collective: Callable[..., Any], stopwatch: Stopwatch) -> None:
        self._collective = collective
        self._stopwatch = stopwatch

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, **options: Any
    ) -> distributed.Work | None:
        with self._stopwatch.measuring():
            work: distributed.Work | None = self._collective(output_tensor, input_tensor, **options)
        return work


def _units(module: nn.Module) -> list[nn.Module]:
    """Return the modules whose parameters FSDP gathers together: large blocks, then `module`.

    Inner blocks come first. A block is a child of a Sequential or of a ModuleList, and shares no
    parameter with the rest of the model: FSDP cannot gather a tied weight in two units.
    """
    uses = _uses(module)
    blocks = [
        child
        for container in module.modules()
        if isinstance(container, nn.Sequential | nn.ModuleList)
        for child in container.children()
        if not isinstance(child, nn.ModuleList) and _size(child) >= MIN_UNIT_PARAMETERS
        if all(count == uses[parameter] for parameter, count in _uses(child).items())
    ]
    return [*reversed(blocks), module]


def _uses(module: nn.Module) -> Counter[nn.Parameter]:
    """Return how many modules in `module` have each parameter as their own."""
    return Counter(p for child in module.modules() for p in child.parameters(recurse=False))


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
