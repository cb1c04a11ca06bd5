"""States as trees of plain values, which a checkpoint can hold and reading never runs code.

Plain are numbers, texts, bytes, None, lists, tuples, sets and dicts, and tensors. Arrays of NumPy
and shards of FSDP are written as dicts with a tag.
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
        kind = value.get(_TAG)
        if kind == "array":
            array = value["value"]
            array = array.numpy() if hasattr(array, "numpy") else array
            return array[()] if value["scalar"] else array
        if kind == "shard":
            return Shard(value["local"], value["dim"], value["shape"], value["stride"])
        return {key: from_plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(from_plain(entry) for entry in value)
    return value


class Shard:
    """This rank's part of a tensor that FSDP has divided; `with_mesh` makes it that again."""

    def __init__(self, local: Any, dim: Any, shape: Any, stride: Any) -> None:
        self._local = local
        self._dim = dim
        self._shape = shape
        self._stride = stride

    def with_mesh(self, mesh: Any) -> Any:
        """Return the divided tensor on the devices of `mesh`."""
        from torch.distributed.tensor import DTensor, Replicate
        from torch.distributed.tensor import Shard as Placement

        placement = Replicate() if self._dim is None else Placement(self._dim)
        device = "cpu" if mesh.device_type == "cpu" else f"cuda:{_torch().cuda.current_device()}"
        return DTensor.from_local(
            self._local.to(device),
            mesh,
            [placement],
            run_check=False,
            shape=_torch().Size(self._shape),
            stride=tuple(self._stride),
        )


def with_mesh(value: Any, mesh: Any) -> Any:
    """Return `value` with every Shard in it as a divided tensor."""
    if isinstance(value, Shard):
        return value.with_mesh(mesh)
    if isinstance(value, dict):
        return {key: with_mesh(entry, mesh) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(with_mesh(entry, mesh) for entry in value)
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
    if type(value).__name__ == "DTensor":
        return _plain_shard(value, where)
    if value.is_meta or type(value).__name__.startswith("Uninitialized"):
        raise _refusal(where, value, "a tensor that has no values yet")
    if type(value) is not torch.Tensor and type(value).__name__ not in ("Parameter", "Buffer"):
        raise _refusal(where, value)
    return value.detach()


def _plain_shard(value: Any, where: str) -> Any:
    placements = value.placements
    if len(placements) != 1 or not (placements[0].is_shard() or placements[0].is_replicate()):
        raise _refusal(where, value, f"a tensor divided as {placements}")
    return {
        _TAG: "shard",
        "local": value.detach().to_local(),
        "dim": placements[0].dim if placements[0].is_shard() else None,
        "shape": list(value.shape),
        "stride": list(value.stride()),
    }


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
