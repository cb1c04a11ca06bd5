"""States as trees of plain values, which a checkpoint can hold and reading never runs code.

Plain are numbers, texts, bytes, None, lists, tuples, sets and dicts, and tensors. An array of NumPy
is written as a dict with a tag.
"""

from __future__ import annotations

import sys
from typing import Any

from traindeck._errors import TraindeckError

_TAG = "__traindeck__"
_LEAVES = (bool, int, float, complex, str, bytes, type(None))


def to_plain(value: Any, where: str) -> Any:
    """Return `value` as a plain tree; tensors are not copied.

    `where` names it in the sentence of the TraindeckError that is raised for what is not plain.
    """
    if type(value) in _LEAVES:
        return value
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (*_LEAVES, tuple):
                raise _refusal(f"the key {key!r} of {where}", key)
        return {key: to_plain(entry, f"{where}[{key!r}]") for key, entry in value.items()}
    if type(value) in (list, tuple) or _is_named_tuple(value) or _is_size(value):
        entries = [to_plain(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
        return entries if type(value) is list else tuple(entries)
    if type(value) is set:
        return {to_plain(entry, f"{where}[...]") for entry in value}
    array = _plain_array(value, where)
    if array is not None:
        return array
    tensor = _plain_tensor(value, where)
    if tensor is not None:
        return tensor
    raise _refusal(where, value)


def from_plain(value: Any) -> Any:
    """Return what `to_plain` was given, apart from types of containers."""
    if isinstance(value, dict):
        if value.get(_TAG) == "array":
            array = value["value"]
            array = array.numpy() if hasattr(array, "numpy") else array
            return array[()] if value["scalar"] else array
        return {key: from_plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(from_plain(entry) for entry in value)
    return value


def _plain_array(value: Any, where: str) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    if value.dtype.kind not in "biufc":
        raise _refusal(where, value, f"an array of the type {value.dtype}")
    array: Any = numpy.ascontiguousarray(value).reshape(value.shape)
    torch = _torch()
    if torch is not None:
        try:
            array = torch.from_numpy(array.copy())
        except TypeError:
            raise _refusal(where, value, f"an array of the type {value.dtype}") from None
    return {_TAG: "array", "value": array, "scalar": isinstance(value, numpy.generic)}


def _plain_tensor(value: Any, where: str) -> Any:
    torch = _torch()
    if torch is None:
        return None
    if isinstance(value, (torch.dtype, torch.device)):
        return value
    if not isinstance(value, torch.Tensor):
        return None
    if value.is_meta or type(value).__name__.startswith("Uninitialized"):
        raise _refusal(where, value, "a tensor that has no values yet")
    if type(value) is not torch.Tensor and type(value).__name__ not in ("Parameter", "Buffer"):
        raise _refusal(where, value)
    return value.detach()


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _is_size(value: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(value, torch.Size)


def _torch() -> Any:
    return sys.modules.get("torch")


def _refusal(where: str, value: Any, what: str = "") -> TraindeckError:
    found = what or f"a value of the type {type(value).__module__}.{type(value).__qualname__}"
    return TraindeckError(
        f"{where} is {found}, which no checkpoint can hold: let state_dict() return numbers, "
        "texts, lists, dicts, tensors and arrays only."
    )
