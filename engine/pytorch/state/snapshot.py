"""What a forward pass changes beside gradients, so that a step can be computed once more."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch

from engine.pytorch.devices import gpu_module, is_gpu

_foreach_copy = torch._foreach_copy_  # one call for all tensors of a device


class Snapshot:
    """The random states of this process, and the values of some tensors."""

    def __init__(self, tensors: Sequence[torch.Tensor], devices: Sequence[torch.device]) -> None:
        """Take it of `tensors` and of the generators of `devices`."""
        self._tensors = [tensor.detach() for tensor in tensors]
        self._kept = [torch.empty_like(tensor) for tensor in self._tensors]
        self._gpus = [device for device in devices if is_gpu(device)]
        self.take()

    @torch.no_grad()
    def take(self) -> None:
        """Take it anew."""
        if self._kept:
            _foreach_copy(self._kept, self._tensors)
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._cuda = [gpu_module(gpu).get_rng_state(gpu) for gpu in self._gpus]

    @torch.no_grad()
    def bring_back(self) -> None:
        """Set everything to what it was when the snapshot was taken."""
        if self._kept:
            _foreach_copy(self._tensors, self._kept)
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        for gpu, state in zip(self._gpus, self._cuda, strict=True):
            gpu_module(gpu).set_rng_state(state, gpu)
