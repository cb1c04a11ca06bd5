"""The number formats that a training computes in, and the gradient scaler of fp16."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

MIXED = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """How to run the forward pass and the backward pass in the spec's precision."""

    def __init__(self, name: str, device_type: str) -> None:
        """`name` is one of `RunSpec.precision`; `device_type` is `cpu` or `cuda`."""
        self._device_type = device_type
        self.dtype: torch.dtype | None = MIXED.get(name)
        """What the forward pass computes in, where it is not float32."""

        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = name == "tf32"
        # Half precision loses small gradients: they are computed enlarged.
        self.scaler = torch.amp.GradScaler(device_type, enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager[Any]:
        """For the forward pass and the loss."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self._device_type, self.dtype)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of `loss`, enlarged where fp16 needs that."""
        torch.autograd.backward(self.scaler.scale(loss))
