"""Names an index out of range, before a kernel of the GPU fails and cannot say where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from engine.pytorch.devices import gpu_module, is_gpu
from engine.training.errors import TrainingFailed


class IndexCheck(TorchFunctionMode):
    """In its context, classes and rows of embeddings are compared with their number.

    The host waits for the GPU at each of them.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if (check := _CHECKS.get(func)) and not torch.compiler.is_compiling():
            check(*args, **given)
        return func(*args, **given)


def _check_classes(
    outputs: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    **_: Any,
) -> None:
    if targets.is_floating_point() or not outputs.ndim:  # probabilities
        return
    classes = outputs.shape[1 if outputs.ndim > 1 else 0]
    wrong = _first_outside(targets, classes, ignore_index)
    if wrong is not None:
        raise TrainingFailed(
            f"The first batch has the class {wrong} among its targets, and the model has {classes} "
            f"outputs, for the classes 0 to {classes - 1}. Mend the targets, give the model more "
            "outputs, or name what is no class with ignore_index."
        )


def _check_rows(indices: Tensor, weight: Tensor, *_: Any, **__: Any) -> None:
    rows = weight.shape[0]
    wrong = _first_outside(indices, rows)
    if wrong is not None:
        raise TrainingFailed(
            f"The first batch has the index {wrong}, such as a token, and the embedding has {rows} "
            f"rows, for 0 to {rows - 1}. Mend the data, or make the embedding larger."
        )


def _first_outside(indices: Tensor, count: int, ignored: int | None = None) -> int | None:
    """Return the first of `indices` that is neither `ignored` nor below `count`; None: no one."""
    if is_gpu(indices.device) and gpu_module(indices.device).is_current_stream_capturing():
        return None
    try:
        is_outside = (indices < 0) | (indices >= count)
        if ignored is not None:
            is_outside &= indices != ignored
        return int(indices[is_outside][0]) if bool(is_outside.any()) else None
    except RuntimeError:  # a tensor of vmap cannot be read
        return None


_CHECKS: Mapping[Any, Callable[..., None]] = {
    functional.cross_entropy: _check_classes,
    functional.nll_loss: _check_classes,
    functional.embedding: _check_rows,
}
