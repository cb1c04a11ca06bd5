"""What a model changes beside its state_dict: buffers that it leaves out, and plain attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

_BASE = frozenset(vars(nn.Module())) | {"training"}
_PLAIN = (bool, int, float, str, type(None))
_TENSOR = "tensor "
_MOST_VALUES = 1000
"""Plain values in one attribute; what has more is not looked at."""


class UnsavedState:
    """Finds what has changed in a model since this was made, without a copy of any tensor."""

    def __init__(self, model: Any) -> None:
        self._model = model if isinstance(model, nn.Module) else nn.Module()
        self._saved = frozenset(self._model.state_dict())
        self._begun = {name: _fingerprint(value) for name, value in self._values()}

    def changed(self) -> dict[str, Any]:
        """Return by name what has changed, with tensors of the host."""
        found = {}
        for name, value in self._values():
            before, now = self._begun.get(name, "None"), _fingerprint(value)
            # Where there was no tensor, one is the rest of a step.
            if now != before and now.startswith(_TENSOR) <= before.startswith(_TENSOR):
                found[name] = value.detach().cpu() if _is_tensor(value) else value
        return found

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring back what `changed` returned; what this part of the model lacks is left out."""
        for name, value in saved.items():
            path, _, attribute = name.rpartition(".")
            try:
                module = self._model.get_submodule(path)
            except AttributeError:
                continue
            before = getattr(module, attribute, None)
            if not _is_tensor(value):
                setattr(module, attribute, value)
            elif isinstance(before, torch.Tensor) and before.shape == value.shape:
                before.detach().copy_(value)
            elif isinstance(before, torch.Tensor):
                setattr(module, attribute, value.to(before.device))

    def _values(self) -> Iterator[tuple[str, Any]]:
        for path, module in self._model.named_modules():
            if any(kind.__module__.partition(".")[0] == "keras" for kind in type(module).__mro__):
                continue  # its attributes are of the framework
            prefix = f"{path}." if path else ""
            for name, buffer in module._buffers.items():
                if prefix + name not in self._saved and _is_tensor(buffer):
                    yield prefix + name, buffer
            for name, value in vars(module).items():
                if name not in _BASE and (_is_tensor(value) or _count(value) <= _MOST_VALUES):
                    yield prefix + name, value


def _is_tensor(value: Any) -> bool:
    """Whether it is a plain tensor that no step is differentiated through."""
    return type(value) is torch.Tensor and value.layout is torch.strided and not (
        value.requires_grad or value.is_meta
    )  # fmt: skip


def _count(value: Any) -> float:
    """Return how many plain values there are in `value`; infinity: it has others."""
    if type(value) in _PLAIN:
        return 1
    if type(value) is dict:
        value = [*value, *value.values()]
    if type(value) not in (list, tuple) or len(value) > _MOST_VALUES:
        return float("inf")
    return sum(map(_count, value))


def _fingerprint(value: Any) -> str:
    if not _is_tensor(value):
        return repr(value)
    content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{_TENSOR}{tuple(value.shape)} {hashlib.blake2b(content).hexdigest()}"
