"""Saves the weights of all models that train, and their optimizers, at a step that all ranks reach.

The file is one of `torch.save`, and loads with `weights_only=True`:
`{"format": 1, "step": ..., "models": {name: state dict}, "optimizers": {name: state dict}}`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from traindeck_watch.names import name_of_object
from traindeck_watch.objects import objects_of

if TYPE_CHECKING:
    from traindeck_watch.watch import Watch

_OTHERS_SECONDS = 60.0
_PLAIN = (bool, int, float, str, bytes, type(None))
_WRAPPERS = ("_orig_mod", "module")
"""Where torch.compile and data parallel wrappers hold the model."""


def save_weights(
    torch: ModuleType,
    watch: Watch,
    optimizers: list[tuple[str, Any]],
    path: str,
    *,
    by_hand: Sequence[Any] = (),
) -> list[str]:
    """Write `<path>.pt`, and return its name; nothing if nothing is known that trains.

    `by_hand`: what a script without an optimizer trains.

    All ranks call this at the same step: sharded weights are gathered.
    """
    if not optimizers and not by_hand:
        return []
    keeper = _Keeper(torch, watch)
    models, loose = _models_of(torch, optimizers, by_hand)
    if not models and not loose:
        return []
    content: dict[str, Any] = {"format": 1, "step": watch.step, "models": {}, "optimizers": {}}
    rank, world = watch.rank(), watch.world()
    with torch.no_grad():
        for name, model in models.items():
            state = _model_state(torch, model, is_sharded=_is_sharded(model) and world > 1)
            # What every rank has is kept once.
            if rank == 0 or (world > 1 and not _is_replicated(torch, model)):
                content["models"][name] = keeper.kept(state)
        for number, (name, optimizer) in enumerate(optimizers):
            model = _owner(models, optimizer)
            sharded = model is not None and _is_sharded(model) and world > 1
            state = _optimizer_state(model, optimizer, is_sharded=sharded)
            if rank == 0 or (world > 1 and not (model and _is_replicated(torch, model))):
                content["optimizers"][name or f"optimizer_{number}"] = keeper.kept(state)
        if loose and (rank == 0 or world == 1):
            content["parameters"] = keeper.kept(loose)
    write = getattr(torch.save, "_traindeck_original", torch.save)
    final = f"{path}.pt"
    with open(f"{final}.part", "wb") as file:  # noqa: PTH123
        write(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{final}.part", final)  # noqa: PTH105
    if rank == 0 and os.environ.get("TRAINDECK_WORLD", "1") == "1" and world > 1:
        _wait_for_others(os.path.dirname(final), world)  # noqa: PTH120
    keeper.tell()
    return [final]


def leaves_of(torch: ModuleType, loss: Any) -> list[Any]:
    """Return the tensors that get a gradient from `loss`: one tensor, or several.

    `zero_grad` has thrown away the gradients of the step before when this is asked.
    """
    losses = loss if isinstance(loss, (tuple, list)) else [loss]
    waiting = [each.grad_fn for each in losses if isinstance(each, torch.Tensor)]
    leaves, seen = [], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.append(leaf)
        waiting += [following for following, _ in node.next_functions]
    return leaves


def _wait_for_others(folder: str, world: int) -> None:
    """The script has started its other ranks itself: no other process waits for their parts."""
    missing = [f"rank{rank}.pt" for rank in range(1, world)]
    end = time.monotonic() + _OTHERS_SECONDS
    while missing and time.monotonic() < end:
        time.sleep(0.02)
        missing = [name for name in missing if not os.path.exists(f"{folder}/{name}")]  # noqa: PTH110
    if missing:
        raise RuntimeError(f"the part of a rank is missing: {', '.join(missing)}")


def models_of(torch: ModuleType, optimizers: list[tuple[str, Any]]) -> list[Any]:
    """The outermost modules that hold parameters of these optimizers."""
    return list(_models_of(torch, optimizers, ())[0].values())


def _models_of(
    torch: ModuleType, optimizers: list[tuple[str, Any]], by_hand: Sequence[Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outermost modules that hold trained parameters, by name; and parameters of no module."""
    kind = torch.nn.Module
    modules = objects_of(kind)
    trained = {
        id(p): p for _, optimizer in optimizers for g in optimizer.param_groups for p in g["params"]
    }
    if not optimizers:
        trained = {id(leaf): leaf for leaf in by_hand}
    inner = {
        id(child) for m in modules for child in (vars(m).get("_modules") or {}).values() if child
    }
    frame = sys._getframe(1)
    models: dict[str, Any] = {}
    owned: set[int] = set()
    for module in modules:
        if id(module) in inner:
            continue
        mine = {id(p) for p in module.parameters()} & trained.keys()
        if not mine or mine <= owned:
            continue
        owned |= mine
        whole = _unwrapped(torch, module)
        found = name_of_object(module, frame, ()) or name_of_object(whole, frame, ())
        name = base = found or type(whole).__name__
        number = 2
        while name in models:
            name, number = f"{base}_{number}", number + 1
        models[name] = module
    loose = [p for key, p in trained.items() if key not in owned]
    return models, {str(number): p for number, p in enumerate(loose)}


def _unwrapped(torch: ModuleType, module: Any) -> Any:
    """The user's own model, without what compiles or replicates it. FSDP's wrapper stays: it alone
    can gather the weights."""
    for _ in range(8):
        if _is_sharded(module) and type(module).__name__ == "FullyShardedDataParallel":
            return module
        for name in _WRAPPERS:
            inner = (vars(module).get("_modules") or {}).get(name)
            if inner is not None and type(module).__module__.startswith(
                ("torch.", "deepspeed.", "lightning.", "pytorch_lightning.")
            ):
                module = inner
                break
        else:
            return module
    return module


def _is_sharded(module: Any) -> bool:
    """Whether each rank holds a part of the weights."""
    return any(type(m).__name__ == "FullyShardedDataParallel" for m in module.modules()) or any(
        hasattr(p, "device_mesh") for p in module.parameters()
    )


def _is_replicated(torch: ModuleType, module: Any) -> bool:
    names = {type(m).__name__ for m in module.modules()}
    return "DistributedDataParallel" in names and not _is_sharded(module)


def _owner(models: dict[str, Any], optimizer: Any) -> Any:
    """The model whose parameters the optimizer changes."""
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for model in models.values():
        if any(id(p) in mine for p in model.parameters()):
            return model
    return None


def _model_state(torch: ModuleType, model: Any, *, is_sharded: bool) -> Any:
    if not is_sharded:
        return _unwrapped(torch, model).state_dict()
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=options)


def _optimizer_state(model: Any, optimizer: Any, *, is_sharded: bool) -> Any:
    if not is_sharded:
        return optimizer.state_dict()
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_optimizer_state_dict(model, optimizer, options=options)


class _Keeper:
    """Copies state to the CPU, and leaves out what cannot be loaded without running code."""

    def __init__(self, torch: ModuleType, watch: Watch) -> None:
        self._torch = torch
        self._watch = watch
        self._copies: dict[Any, Any] = {}
        self._left_out: set[str] = set()

    def kept(self, value: Any) -> Any:
        """Return the same, of plain containers, numbers and tensors."""
        torch = self._torch
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            return {self.kept(k): self.kept(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return (
                [self.kept(v) for v in value]
                if isinstance(value, list)
                else tuple(self.kept(v) for v in value)
            )
        if isinstance(value, (torch.dtype, torch.device, torch.Size)):
            return value
        item = getattr(value, "item", None)
        if item is not None and getattr(value, "shape", None) == ():
            return item()  # a number of NumPy
        self._left_out.add(type(value).__name__)
        return None

    def tell(self) -> None:
        """Say what was left out."""
        if self._left_out:
            kinds = ", ".join(sorted(self._left_out))
            self._watch.notice(f"Saved weights do not hold objects of these types: {kinds}.")

    def _tensor(self, value: Any) -> Any:
        torch = self._torch
        value = value.detach()
        if type(value) is not torch.Tensor:
            full = getattr(value, "full_tensor", None)
            value = full() if full is not None else value.as_subclass(torch.Tensor)
        if value.layout is not torch.strided:
            return value.cpu()
        storage = value.untyped_storage()
        key = (value.data_ptr(), value.dtype, tuple(value.shape), tuple(value.stride()))
        if value.data_ptr() and key in self._copies:
            return self._copies[key]  # tied weights stay tied
        copy = value.cpu()
        if storage.nbytes() > 2 * value.numel() * value.element_size():
            copy = copy.clone()  # a view of something large
        if value.data_ptr():
            self._copies[key] = copy
        return copy
