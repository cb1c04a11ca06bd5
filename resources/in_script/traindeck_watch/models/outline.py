"""The modules of a model with their parameters, by duck typing: PyTorch, Keras and TensorFlow.

It also runs in the workers of recipes (`engine/worker/model_outline.py`), so that a model is
described in one way. It reads shapes only, and never waits for a device.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

Row = list[Any]
"""Path, depth, kind, parameters, trainable ones, bytes, whether some are shared, detail, folded."""

MOST_ROWS = 2000
_LONGEST = 160
_DEEPEST = 60
_SIZES = (
    ("in_features", "out_features"),
    ("in_channels", "out_channels"),
    ("num_embeddings", "embedding_dim"),
    ("input_size", "hidden_size"),
)
_ONE_SIZE = ("units", "filters", "output_dim", "num_features", "normalized_shape", "rate", "p")
_BITS = re.compile(r"(\d+)")

Weight = tuple[int, int, int, bool]
"""Identity, number of values, bytes, and whether it is trained."""


def outline(model: Any) -> list[Row]:
    """Return a row for each module of `model`, each before those in it.

    A model with too many modules is described down to a smaller depth.
    """
    tree = _Tree(model)
    rows = tree.rows
    depth = _DEEPEST
    while len(rows) > MOST_ROWS and depth > 1:
        depth = min(depth - 1, max(row[1] for row in rows) - 1)
        rows = [_folded(row, depth) for row in rows if row[1] <= depth]
    if len(rows) > MOST_ROWS:
        rows = [_folded(rows[0], 0), *rows[1:MOST_ROWS]]
    return rows


def is_model(thing: Any) -> bool:
    """Whether `outline` can describe it."""
    return _is_torch(thing) or _is_keras(thing) or _is_tf_module(thing)


def library_versions() -> dict[str, str]:
    """Return the versions that this process has loaded, of the frameworks and of CUDA."""
    found: dict[str, str] = {}
    torch, tensorflow = sys.modules.get("torch"), sys.modules.get("tensorflow")
    keras = sys.modules.get("keras")
    for name, module in (("torch", torch), ("tensorflow", tensorflow), ("keras", keras)):
        version = getattr(module, "__version__", "")
        if isinstance(version, str) and version:
            found[name] = str(version)  # torch's is of a type of its own
    if torch is not None:
        version = getattr(getattr(torch, "version", None), "cuda", None)
        if version:
            found["CUDA"] = str(version)
            _try(found, "cuDNN", lambda: _cudnn(torch.backends.cudnn.version()))
            _try(found, "NCCL", lambda: ".".join(map(str, torch.cuda.nccl.version())))
    elif tensorflow is not None:
        build: dict[str, Any] = {}
        try:
            build = dict(tensorflow.sysconfig.get_build_info())
        except Exception:
            return found
        for title, key in (("CUDA", "cuda_version"), ("cuDNN", "cudnn_version")):
            if build.get(key):
                found[title] = str(build[key])
    return found


def _try(found: dict[str, str], name: str, read: Any) -> None:
    try:
        found[name] = str(read())
    except Exception:
        found.pop(name, None)  # this build has none


def _cudnn(number: int) -> str:
    """Such as 91501 -> `9.15.1`, and 8902 -> `8.9.2`."""
    if number >= 10000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


class _Tree:
    """Walks a model once."""

    def __init__(self, model: Any) -> None:
        self.rows: list[Row] = []
        self._counted: set[int] = set()
        self._walked: set[int] = set()
        if _is_torch(model):
            self._of_flat, self._views = _unflattened(model)
            self._walk_torch(model, "", 0)
        elif _is_keras(model):
            self._walk_keras(model, "", 0)
        else:
            self._walk_tf(model, "", 0)

    def _add(self, path: str, depth: int, kind: str, detail: str) -> Row:
        row: Row = [path, depth, kind[:_LONGEST], 0, 0, 0, False, detail[:_LONGEST], False]
        self.rows.append(row)
        return row

    def _count(self, row: Row, weights: Iterable[Weight]) -> None:
        for identity, number, size, trained in weights:
            if identity in self._counted:
                row[6] = True
                continue
            self._counted.add(identity)
            row[3] += number
            row[4] += number if trained else 0
            row[5] += size

    def _count_own(self, row: Row, weights: list[tuple[str, Weight]], has_inner: bool) -> None:
        """Count what the module of `row` holds itself: beside inner modules, each of it has a row
        of its own, so that the rows add up."""
        for name, weight in weights:
            part = row
            if has_inner and weight[0] not in self._counted:
                path = f"{row[0]}.{name}" if row[0] else name
                part = self._add(path, row[1] + 1, "Parameter", "")
            self._count(part, [weight])

    def _adopt(self, row: Row, first: int, depth: int) -> None:
        """Add what the modules in it have."""
        for inner in self.rows[first:]:
            if inner[1] == depth + 1:
                for column in (3, 4, 5):
                    row[column] += inner[column]
                row[6] = row[6] or inner[6]

    def _walk_torch(self, module: Any, path: str, depth: int) -> None:
        module = _unwrapped(module)
        row = self._add(path, depth, _torch_kind(module), _first_line(_call(module, "extra_repr")))
        first = len(self.rows)
        if id(module) in self._walked:
            row[6] = True
            return
        self._walked.add(id(module))
        own = vars(module)
        children = _torch_children(module)
        weights = list(self._of_flat.get(id(module), ()))
        for name, weight in (own.get("_parameters") or {}).items():
            if weight is not None and not _is_flat(weight) and id(weight) not in self._views:
                weights.append((name, _torch_weight(weight)))
        self._count_own(row, weights, bool(children))
        for weight in (own.get("_buffers") or {}).values():
            if weight is not None:
                identity, _, size, _ = _torch_weight(weight)
                self._count(row, [(identity, 0, size, False)])
        if depth < _DEEPEST:
            for name, child in children.items():
                self._walk_torch(child, f"{path}.{name}" if path else name, depth + 1)
        self._adopt(row, first, depth)

    def _walk_keras(self, layer: Any, path: str, depth: int) -> None:
        row = self._add(path, depth, _keras_kind(layer), "")
        first = len(self.rows)
        if id(layer) in self._walked:
            row[6] = True
            return
        self._walked.add(id(layer))
        children = _keras_children(layer) if depth < _DEEPEST else []
        names: dict[str, int] = {}
        for child in children:
            name = str(getattr(child, "name", "") or type(child).__name__)
            names[name] = names.get(name, 0) + 1
            name = name if names[name] == 1 else f"{name}_{names[name]}"
            self._walk_keras(child, f"{path}.{name}" if path else name, depth + 1)
        inner = set(self._counted)
        variables = _safe(layer, "weights")
        if not children:
            row[7] = ", ".join(map(_shape, variables[:4]))
        weights = [(_tf_name(each), _tf_weight(each)) for each in variables]
        shared = row[6]
        own = [each for each in weights if each[1][0] not in inner]
        self._count_own(row, own, bool(children))
        row[6] = shared or (not children and len(own) < len(weights))
        self._adopt(row, first, depth)

    def _walk_tf(self, module: Any, path: str, depth: int) -> None:
        row = self._add(path, depth, type(module).__name__, "")
        first = len(self.rows)
        if id(module) in self._walked:
            row[6] = True
            return
        self._walked.add(id(module))
        if depth < _DEEPEST:
            for name, child in _tf_children(module):
                inside = f"{path}.{name}" if path else name
                if _is_keras(child):
                    self._walk_keras(child, inside, depth + 1)
                else:
                    self._walk_tf(child, inside, depth + 1)
        inner = set(self._counted)
        weights = [(_tf_name(each), _tf_weight(each)) for each in _safe(module, "variables")]
        own = [each for each in weights if each[1][0] not in inner]
        self._count_own(row, own, len(self.rows) > first)
        self._adopt(row, first, depth)


_WRAPPED = ("_orig_mod", "module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_WRAPPERS = ("torch.", "deepspeed.", "lightning.", "pytorch_lightning.")


def _unwrapped(module: Any) -> Any:
    """The user's own module, without what compiles, replicates or shards it."""
    for _ in range(8):
        inner = vars(module).get("_modules") or {}
        name = next((name for name in _WRAPPED if inner.get(name) is not None), "")
        if not name or not type(module).__module__.startswith(_WRAPPERS):
            break
        module = inner[name]
    return module


def _folded(row: Row, depth: int) -> Row:
    return [*row[:8], True] if row[1] == depth else row


def _is_torch(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    kind = getattr(getattr(torch, "nn", None), "Module", None)
    return kind is not None and isinstance(thing, kind) and not _is_keras(thing)


def _is_keras(thing: Any) -> bool:
    return hasattr(thing, "count_params") and hasattr(thing, "trainable_weights")


def _is_tf_module(thing: Any) -> bool:
    return hasattr(thing, "trainable_variables") and hasattr(thing, "submodules")


def _torch_weight(weight: Any) -> Weight:
    try:
        number = 1
        for size in weight.shape:
            number *= int(size)
        return id(weight), number, number * int(weight.element_size()), bool(weight.requires_grad)
    except Exception:  # it gets its shape with the first batch
        return id(weight), 0, 0, bool(getattr(weight, "requires_grad", False))


def _is_flat(weight: Any) -> bool:
    return hasattr(weight, "_param_infos") and hasattr(weight, "_shapes")


def _torch_children(module: Any) -> dict[str, Any]:
    children = vars(module).get("_modules") or {}
    return {name: child for name, child in children.items() if child is not None}


def _unflattened(model: Any) -> tuple[dict[int, list[tuple[str, Weight]]], set[int]]:
    """By module: what the flat parameters of FSDP's first version hold of it, in full size, with
    names. And the identities of the modules' own parameters, which are views of a shard."""
    found: dict[int, list[tuple[str, Weight]]] = {}
    views: set[int] = set()
    for module in model.modules():
        flat = getattr(vars(module).get("_handle"), "flat_param", None)
        if flat is None or not _is_flat(flat):
            continue
        for info, shape in zip(flat._param_infos, flat._shapes):
            number = 1
            for size in shape:
                number *= int(size)
            identity = hash((id(flat), id(info.module), info.param_name))
            weight = (identity, number, number * flat.element_size(), bool(flat.requires_grad))
            found.setdefault(id(info.module), []).append((info.param_name, weight))
            own = vars(info.module).get("_parameters") or {}
            if own.get(info.param_name) is not None:
                views.add(id(own[info.param_name]))
    return found, views


def _torch_kind(module: Any) -> str:
    name = _class_name(module)
    for first, second in _SIZES:
        sizes = vars(module).get(first), vars(module).get(second)
        if all(isinstance(size, int) for size in sizes):
            return f"{name} {sizes[0]}→{sizes[1]}"
    for attribute in _ONE_SIZE:
        size = vars(module).get(attribute)
        if isinstance(size, (int, float)) and not isinstance(size, bool):
            return f"{name} {size:g}"
        if isinstance(size, tuple) and len(size) == 1:
            return f"{name} {size[0]}"
    children = [_unwrapped(each) for each in _torch_children(module).values()]
    kinds = {_class_name(each) for each in children}
    if name in ("Sequential", "ModuleList") and len(kinds) == 1:
        return f"{len(children)} × {kinds.pop()}"
    return name


def _class_name(module: Any) -> str:
    name = type(module).__name__
    if any(each.__name__ == "FSDPModule" for each in type(module).__mro__):
        return name[4:]  # FSDP makes a class `FSDPLinear` of `Linear`
    return name


def _keras_kind(layer: Any) -> str:
    name = type(layer).__name__
    for attribute in _ONE_SIZE:
        size = vars(layer).get(attribute)
        if isinstance(size, (int, float)) and not isinstance(size, bool):
            return f"{name} {size:g}"
    return name


def _shape(variable: Any) -> str:
    return "×".join(str(size) for size in variable.shape) or "1"


def _keras_children(layer: Any) -> list[Any]:
    flatten = getattr(layer, "_flatten_layers", None)
    if flatten is None:
        return []
    found = [each for each in flatten(include_self=False, recursive=False) if each is not layer]
    # What a Sequential makes of itself holds the same layers.
    return [each for each in found if each is not vars(layer).get("_functional")]


def _tf_children(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(module).items()):
        if name.startswith("_self_"):
            continue
        parts = list(value) if isinstance(value, (list, tuple)) else [value]
        for number, part in enumerate(parts):
            if _is_tf_module(part) or _is_keras(part):
                yield (f"{name}.{number}" if isinstance(value, (list, tuple)) else name), part


def _tf_name(weight: Any) -> str:
    """Such as `scale` of a variable `block/scale:0`."""
    return str(getattr(weight, "name", "")).rpartition("/")[2].partition(":")[0] or "variable"


def _tf_weight(weight: Any) -> Weight:
    number = 1
    for size in getattr(weight, "shape", ()) or ():
        number *= int(size or 0)
    kind = getattr(weight, "dtype", "")
    text = str(getattr(kind, "name", kind))
    bits = _BITS.search(text)
    size = 1 if bits is None else max(1, int(bits[1]) // 8)
    return id(weight), number, number * size, bool(getattr(weight, "trainable", False))


def _safe(thing: Any, name: str) -> list[Any]:
    try:
        return list(getattr(thing, name))
    except Exception:  # a layer that was not built yet
        return []


def _call(thing: Any, name: str) -> str:
    try:
        return str(getattr(thing, name)())
    except Exception:
        return ""


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""
