"""The number formats of a training, and the loss scale of fp16."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

NOTHING = nullcontext()
"""A context for any use: steps make none anew."""

MIXED = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """Runs forward and backward pass in the spec's precision."""

    def __init__(self, name: str, device_type: str) -> None:
        """`name` is one of `RunSpec.precision`; `device_type` is `cpu` or `cuda`."""
        self._device_type = device_type
        self.dtype: torch.dtype | None = MIXED.get(name)
        """The dtype of autocast; None without autocast."""

        if name in ("fp32", "tf32"):  # else they are what PyTorch, or the recipe, has set
            torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
            torch.backends.cudnn.allow_tf32 = name == "tf32"
        # In fp16, small gradients would become 0, so the loss is multiplied by a scale.
        self.scaler = torch.amp.GradScaler(device_type, enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context for the forward pass and the loss."""
        if self.dtype is None:
            return NOTHING
        return torch.autocast(self._device_type, self.dtype)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of `loss` (0-d) in place, multiplied by the loss scale in fp16."""
        torch.autograd.backward(self.scaler.scale(loss))
