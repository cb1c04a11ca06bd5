"""The content of a PyTorch checkpoint: tensors in any number of shards, random state per rank.

torch.distributed.checkpoint writes and reads the tensors as safetensors files, so every strategy
can read the checkpoint of any other one, with any number of ranks. Reading never runs code.
"""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import distributed, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.planner import ReadItem, SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import save as save_tensors
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from engine.pytorch.devices import gpu_module, is_gpu
from engine.pytorch.state.checkpoint_writer import CheckpointWriter
from engine.training.errors import CannotBeSaved, CheckpointMisfit

TENSORS = "tensors"
"""Folder of the safetensors files."""

SHARED = "shared.pt"
"""File with the state that all ranks have, besides tensors, such as that of schedulers."""

_FLAT = StateDictOptions(flatten_optimizer_state_dict=True, strict=False)
_MODEL, _OPTIMIZER, _STATE = "model.", "optimizer.", "optimizer.state."

State = dict[str, Any]
Count = Callable[[int], None]


def check(module: nn.Module) -> None:
    """Raise CannotBeSaved, with names, if no checkpoint can bring `module` back; copy no data."""
    problems = _problems(get_model_state_dict(module))
    if problems:
        raise CannotBeSaved(
            f"No checkpoint of this model can be saved: {'; '.join(problems)}. Change the recipe's "
            "model, or keep them out of its state_dict (persistent=False for a buffer)."
        )


def check_complete(module: Any) -> None:
    """Raise CannotBeSaved if `state_dict()` of the model leaves out what is trained, with names.

    What is frozen may be left out: model() gives it again.
    """
    if not isinstance(module, nn.Module):
        return
    saved = module.state_dict()
    left = {n: p for n, p in module.named_parameters() if p.requires_grad and n not in saved}
    if left:  # or it has another name there
        values = [value for value in saved.values() if isinstance(value, torch.Tensor)]
        left = {n: p for n, p in left.items() if not any(p.is_set_to(v) for v in values)}
    if left:
        more = f" and {len(left) - 8} more" if len(left) > 8 else ""
        raise CannotBeSaved(
            "No checkpoint of this model can be exact: its state_dict() leaves out the trained "
            f"parameters {', '.join([*left][:8])}{more}. Keep the state_dict() of PyTorch, or "
            "freeze them with requires_grad_(False)."
        )


def check_saving(
    module: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    group: distributed.ProcessGroup | None,
    further: State,
    plain: Mapping[str, State],
) -> None:
    """Do what saves a checkpoint, but write nothing; all ranks must call it together.

    `plain` are states of plain values, by what they are. No tensor is copied from a device. Raises
    CannotBeSaved, with names.
    """
    tensors, _ = _tensors(module, optimizers)
    problems = _problems(tensors | further)
    for what, state in plain.items():
        try:
            _content(io.BytesIO(_saved(state)))
        except Exception as error:
            problems.append(f"{what} holds what is no plain value ({_cause(error)})")
    try:
        with _without_single_process_warning():
            save_tensors(
                tensors | further,
                storage_writer=_DryWriter("checkpoint", save_distributed=True),
                planner=_Planner(),
                process_group=group,
                no_dist=group is None,
            )
    except CheckpointException as error:
        problems.append(_cause(error))
    if problems:
        raise CannotBeSaved(
            f"No checkpoint of this training can be saved: {'; '.join(problems)}. It was tried "
            "after the first step; change the recipe."
        )


def save(
    folder: Path,
    module: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    group: distributed.ProcessGroup | None,
    further: State,
    count: Count = lambda size: None,
) -> None:
    """Write the tensors of model and optimizers into `folder`; all ranks must call it together.

    `group` is the gloo group in which the ranks divide the work; None: there is one rank.
    `further` are other tensors by name, which begin with other words. `count` gets the bytes that
    were written, piece by piece. The files are not synced: who publishes the checkpoint does it
    piece by piece, because one sync of a large file would look like a disk that hangs.
    """
    tensors, _ = _tensors(module, optimizers)
    tensors |= further
    writer = CheckpointWriter(folder / TENSORS, count)
    with _without_single_process_warning():
        save_tensors(
            tensors,
            storage_writer=writer,
            planner=_Planner(),
            process_group=group,
            no_dist=group is None,
        )


def restore(
    folder: Path,
    module: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    group: distributed.ProcessGroup | None,
    further: State,
    count: Count = lambda size: None,
) -> None:
    """Load model and optimizer, in place, from a `folder` of `save` by any number of ranks.

    All ranks must call it together. It calls `count` with the bytes of each tensor. Raises
    CheckpointMisfit when model or optimizer do not fit, or when the files are damaged.
    """
    tensors, other_entries = _tensors(module, optimizers)
    tensors |= further
    try:
        reader = HuggingFaceStorageReader(str(folder / TENSORS))
        unused = _unused(module, tensors, reader)
        with _without_single_process_warning():
            load_tensors(
                {name: value for name, value in tensors.items() if name not in unused},
                storage_reader=reader,
                planner=_LoadPlanner(count),
                process_group=group,
                no_dist=group is None,
            )
    except (CheckpointException, SafetensorError, RuntimeError, ValueError) as error:
        raise CheckpointMisfit(
            f"The checkpoint {folder.name} does not fit this model and optimizer: "
            f"{_cause(error)}. Resume with the recipe and settings that it was saved with."
        ) from error
    set_state_dict(
        module,
        optimizers,
        model_state_dict=_with_prefix(_MODEL, tensors),
        optim_state_dict=other_entries | _with_prefix(_OPTIMIZER, tensors),
        options=_FLAT,
    )
    for parameter in unused.values():
        for optimizer in optimizers:  # get_state_dict made a state, with a step done
            optimizer.state.pop(parameter, None)


def save_shared_state(folder: Path, state: State) -> None:
    """Write `state`, of plain values, into `folder`. Only one rank calls it."""
    (folder / SHARED).write_bytes(_saved(state))


def restore_shared_state(folder: Path) -> State:
    """Return what `save_shared_state` wrote; {} if it was not called. Raises CheckpointMisfit."""
    path = folder / SHARED
    return _loaded(path) if path.exists() else {}


def save_rank_state(path: Path, state: State, devices: Sequence[torch.device]) -> None:
    """Write `state` and the random state of this rank, including that of its `devices`."""
    path.write_bytes(_saved({"random": random_state(devices), "own": state}))


def restore_rank_state(path: Path, devices: Sequence[torch.device]) -> State:
    """Restore the random state; return the `state` that `save_rank_state` wrote.

    Never runs code. Raises CheckpointMisfit when `save_rank_state` did not write the file.
    """
    content = _loaded(path)
    try:
        set_random_state(content["random"], devices)
    except Exception as error:
        raise _not_ours(path) from error
    return _own_state(content, path)


def rank_state(path: Path) -> State:
    """Return the `state` that `save_rank_state` wrote. Never runs code. Raises CheckpointMisfit."""
    return _own_state(_loaded(path), path)


def _own_state(content: State, path: Path) -> State:
    try:
        state: State = content["own"]
    except KeyError as error:
        raise _not_ours(path) from error
    return state


def _saved(state: State) -> memoryview:
    buffer = io.BytesIO()  # torch.save to a file does not report a full disk
    torch.save(state, buffer)
    return buffer.getbuffer()


def _loaded(path: Path) -> State:
    """Return the content of a file of `_saved`; never runs code. Raises CheckpointMisfit."""
    try:
        return _content(path)
    except Exception as error:  # also the exceptions of pickle
        raise _not_ours(path) from error


def _content(file: Path | io.BytesIO) -> State:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Detected pickle protocol")
        content: State = torch.load(file, map_location="cpu", weights_only=True)
    return content


def _not_ours(path: Path) -> CheckpointMisfit:
    return CheckpointMisfit(
        f"{path.name} in the checkpoint {path.parent.name} is not what Traindeck saves: it is "
        "damaged, or it holds code, which is never run. Resume from another checkpoint."
    )


class _Planner(DefaultSavePlanner):
    """Gives the values of each tensor as they are in a file; no other copy of them is made."""

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        data = super().resolve_data(write_item)
        if not isinstance(data, torch.Tensor):
            return data
        return data.contiguous().resolve_conj().resolve_neg()


class _LoadPlanner(DefaultLoadPlanner):
    """Counts what is loaded."""

    def __init__(self, count: Count) -> None:
        super().__init__()
        self._count = count

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:
        super().commit_tensor(read_item, tensor)
        self._count(tensor.nbytes)


class _DryWriter(HuggingFaceStorageWriter):
    """Takes part in saving a checkpoint, and writes nothing."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        written: Future[list[WriteResult]] = Future()
        written.set_result([])
        return written


def _problems(state: State) -> list[str]:
    """Return which entries a checkpoint cannot hold, and why."""
    return [
        f"{name} {problem}"
        for name, entry in state.items()
        if (problem := next(filter(None, map(_problem, tree_leaves(entry) or [entry])), ""))
    ]


def _problem(value: Any) -> str:
    """Return why a checkpoint cannot hold `value`, a part of a model; empty if it can."""
    if not isinstance(value, torch.Tensor):
        return f"holds a value of type {type(value).__name__}, which is no tensor"
    if value.is_meta or is_lazy(value):
        return "has no values yet"
    if value.layout != torch.strided:
        return f"has the layout {value.layout}: convert it with to_dense()"
    if any(size > 1 and not step for size, step in zip(value.shape, value.stride(), strict=True)):
        return "has several elements at one place in memory (expand): convert it with clone()"
    try:
        safetensors.torch.load(safetensors.torch.save({"": torch.empty(0, dtype=value.dtype)}))
    except (KeyError, SafetensorError):
        return f"has the type {value.dtype}, which safetensors files do not have"
    return ""


@contextmanager
def _without_single_process_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable")
        yield


def _cause(error: BaseException) -> str:
    """Return the first line of the message; of several ranks' errors, take the first one."""
    if isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    return str(error).strip().split("\n")[0].rstrip(".")


def _tensors(module: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> tuple[State, State]:
    """Return the tensors of model and optimizers by name, and the optimizer's other entries.

    The other entries follow from the spec and the recipe, so a checkpoint does not hold them.
    """
    model, optim = get_state_dict(module, optimizers, options=_FLAT)
    tensors = {_MODEL + name: value for name, value in model.items()}
    other_entries: State = {}
    for name, value in optim.items():
        if isinstance(value, torch.Tensor):
            tensors[_OPTIMIZER + name] = value
        else:
            other_entries[name] = value
    return tensors, other_entries


def _unused(module: nn.Module, tensors: State, reader: HuggingFaceStorageReader) -> State:
    """Return parameters by the names in `tensors` of an optimizer state that the files lack.

    A parameter has no state until it has a gradient. That the files are of an optimizer that keeps
    other tensors is another matter: those names are not returned.
    """
    try:
        saved = reader.read_metadata().state_dict_metadata.keys()
    except Exception:  # the files are damaged: who loads them meets this again and reports it
        return {}
    states = {_owner_and_kind(name) for name in saved if name.startswith(_STATE)}
    owners, kinds = {owner for owner, _ in states}, {kind for _, kind in states}
    parameters = dict(module.named_parameters())
    found: State = {}
    for name in tensors.keys() - saved:
        owner, kind = _owner_and_kind(name)
        if owner not in owners and kind in kinds and owner in parameters:
            found[name] = parameters[owner]
    return found


def _owner_and_kind(name: str) -> tuple[str, str]:
    """Split the name of an optimizer's tensor: `weight`, `exp_avg`."""
    owner, _, kind = name.removeprefix(_STATE).rpartition(".")
    return owner, kind


def _with_prefix(prefix: str, tensors: State) -> State:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def random_state(devices: Sequence[torch.device]) -> State:
    version, python_state, gauss = random.getstate()
    numpy_state: tuple[Any, ...] = np.random.get_state(legacy=True)  # type: ignore[assignment]
    name, keys, position, has_gauss, cached = numpy_state
    return {
        "torch": torch.get_rng_state(),
        "cuda": [gpu_module(device).get_rng_state(device) for device in _gpus(devices)],
        "python": [version, list(python_state), gauss],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
    }


def set_random_state(state: State, devices: Sequence[torch.device]) -> None:
    torch.set_rng_state(state["torch"])
    # Additional GPUs, which have no state in the checkpoint, keep their new state.
    for device, gpu_state in zip(_gpus(devices), state["cuda"], strict=False):
        gpu_module(device).set_rng_state(gpu_state, device)
    version, python_state, gauss = state["python"]
    random.setstate((version, tuple(python_state), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))


def _gpus(devices: Sequence[torch.device]) -> list[torch.device]:
    return [device for device in devices if is_gpu(device)]
