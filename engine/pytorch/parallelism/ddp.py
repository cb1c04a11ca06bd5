"""A whole model on every rank, its gradients averaged by DistributedDataParallel."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from engine.pytorch.parallel import Rank, WholeModel


class DDPModel(WholeModel):
    """One replica of DDP training; all ranks must construct it together."""

    def __init__(self, module: nn.Module, rank: Rank) -> None:
        """`module` is on the rank's device already."""
        super().__init__(module, rank)
        # A harmless warning: some kernels return gradients whose strides differ from the bucket's.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        self._ddp: DistributedDataParallel | None = None
        self.restore_devices()

    def gradient_exchange(self, sync: bool) -> AbstractContextManager[Any]:
        return nullcontext() if sync or self._ddp is None else self._ddp.no_sync()

    def communication_share(self, seconds: float) -> float:
        """Return the fraction that DDP measures: communication that overlaps no computation."""
        if self._ddp is None or self.replicas == 1:
            return 0.0
        logged = self._ddp._get_ddp_logging_data()  # type: ignore[no-untyped-call]
        forward, backward = (
            float(logged.get(f"{phase}_compute_time", 0)) for phase in ("forward", "backward")
        )
        waited = float(logged.get("backward_comm_time", 0)) - float(
            logged.get("backward_compute_comm_overlap_time", 0)
        )
        total = forward + backward + max(0.0, waited)
        return max(0.0, waited) / total if total > 0 else 0.0

    def free_devices(self) -> None:
        self._ddp = None  # its buckets hold as much memory as the gradients
        self._forward = self.module

    def restore_devices(self) -> None:
        if any(parameter.requires_grad for parameter in self.module.parameters()):
            # DDP refuses a model without trainable parameters.
            device_ids = [self.device] if self.device.type == "cuda" else None
            self._ddp = DistributedDataParallel(self.module, device_ids=device_ids)
            self._forward = self.maybe_compiled(self._ddp)
