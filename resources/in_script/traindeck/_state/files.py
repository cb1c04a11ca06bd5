"""A checkpoint as a file: `rank0.pt` of torch, or `rank0.npz` without it.

Reading never runs code: torch.load with weights_only, arrays without pickle.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from traindeck._errors import TraindeckError

_INDEX = "index"

Tree = dict[str, Any]


def write(folder: str, tree: Tree) -> None:
    """Write the plain `tree` into `folder`, durably. Raises OSError."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder, _name())
    with path.open("wb") as file:
        _write(tree, file)
        file.flush()
        os.fsync(file.fileno())


def read(folder: str) -> Tree:
    """Return what `write` wrote. Raises TraindeckError if it is missing or damaged."""
    path = Path(folder, _name())
    if not path.exists():
        raise TraindeckError(
            f"The checkpoint {Path(folder).name} has no {path.name}: the script that saved it "
            "used another library. Resume with the script that has saved it."
        )
    try:
        tree: Tree = _read(path)
    except Exception as error:
        raise TraindeckError(
            f"{path.name} in the checkpoint {Path(folder).name} is damaged, or holds code, which "
            f"is never run: {error}"
        ) from error
    return tree


def _name() -> str:
    return "rank0.pt" if "torch" in sys.modules else "rank0.npz"


def _write(tree: Tree, file: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.save(tree, file)
        return
    arrays: dict[str, Any] = {}
    text = json.dumps(_without_arrays(tree, arrays))
    numpy = sys.modules.get("numpy")
    if numpy is None:
        file.write(text.encode())
    else:
        index = numpy.frombuffer(text.encode(), dtype="uint8")
        numpy.savez(file, **{_INDEX: index}, **arrays)


def _read(file: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None:
        return torch.load(file, map_location="cpu", weights_only=True)
    numpy = sys.modules.get("numpy")
    if numpy is None:
        data = file.read() if hasattr(file, "read") else Path(file).read_bytes()
        return _with_arrays(json.loads(data), {})
    with numpy.load(file, allow_pickle=False) as arrays:
        return _with_arrays(json.loads(arrays[_INDEX].tobytes()), arrays)


def _without_arrays(value: Any, arrays: dict[str, Any]) -> Any:
    """Return `value` in JSON's types; arrays are moved into `arrays`."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"$": "array", "v": name}
    if isinstance(value, dict):
        items = [[_without_arrays(k, arrays), _without_arrays(v, arrays)] for k, v in value.items()]
        return {"$": "dict", "v": items}
    if isinstance(value, (list, tuple, set)):
        entries = [_without_arrays(entry, arrays) for entry in value]
        return entries if type(value) is list else {"$": type(value).__name__, "v": entries}
    if isinstance(value, bytes):
        return {"$": "bytes", "v": value.hex()}
    if isinstance(value, complex):
        return {"$": "complex", "v": [value.real, value.imag]}
    return value


def _with_arrays(value: Any, arrays: Any) -> Any:
    if isinstance(value, list):
        return [_with_arrays(entry, arrays) for entry in value]
    if not isinstance(value, dict):
        return value
    kind, content = value["$"], value["v"]
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {_with_arrays(k, arrays): _with_arrays(v, arrays) for k, v in content}
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "complex":
        return complex(*content)
    return {"tuple": tuple, "set": set}[kind](_with_arrays(content, arrays))
