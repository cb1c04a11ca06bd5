"""The content of a PyTorch checkpoint: tensors in any number of shards, random state per rank.

torch.distributed.checkpoint writes and reads the tensors as safetensors files, so every strategy
can read the checkpoint of any other one, with any number of ranks. Reading never runs code.
"""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import distributed, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.planner import WriteItem
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors
from torch.distributed.checkpoint.state_dict_saver import save as save_tensors
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from engine.training.errors import CannotBeSaved, CheckpointMisfit

TENSORS = "tensors"
"""Folder of the safetensors files."""

_FLAT = StateDictOptions(flatten_optimizer_state_dict=True, strict=False)
_MODEL, _OPTIMIZER, _STATE = "model.", "optimizer.", "optimizer.state."

State = dict[str, Any]


def check(module: nn.Module) -> None:
    """Raise CannotBeSaved, with names, if no checkpoint can bring `module` back; copy no data."""
    problems = [
        f"{name} {problem}"
        for name, entry in get_model_state_dict(module).items()
        if (problem := next(filter(None, map(_problem, tree_leaves(entry) or [entry])), ""))
    ]
    if problems:
        raise CannotBeSaved(
            f"No checkpoint of this model can be saved: {'; '.join(problems)}. Change the recipe's "
            "model, or keep them out of its state_dict (persistent=False for a buffer)."
        )


def save(
    folder: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    group: distributed.ProcessGroup | None,
) -> None:
    """Write the tensors of model and optimizer into `folder`; all ranks must call it together.

    `group` is the gloo group in which the ranks divide the work; None: there is one rank.
    """
    tensors, _ = _tensors(module, optimizer)
    writer = HuggingFaceStorageWriter(str(folder / TENSORS), save_distributed=True)
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
    optimizer: torch.optim.Optimizer,
    group: distributed.ProcessGroup | None,
) -> None:
    """Load model and optimizer, in place, from a `folder` of `save` by any number of ranks.

    All ranks must call it together. Raises CheckpointMisfit when model or optimizer do not fit, or
    when the files are damaged.
    """
    tensors, other_entries = _tensors(module, optimizer)
    try:
        reader = HuggingFaceStorageReader(str(folder / TENSORS))
        unused = _unused(module, tensors, reader)
        with _without_single_process_warning():
            load_tensors(
                {name: value for name, value in tensors.items() if name not in unused},
                storage_reader=reader,
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
        optimizer,
        model_state_dict=_with_prefix(_MODEL, tensors),
        optim_state_dict=other_entries | _with_prefix(_OPTIMIZER, tensors),
        options=_FLAT,
    )
    for parameter in unused.values():
        optimizer.state.pop(parameter, None)  # get_state_dict made one, with a step done


def save_rank_state(path: Path, state: State, devices: Sequence[torch.device]) -> None:
    """Write `state` and the random state of this rank, including that of its `devices`."""
    buffer = io.BytesIO()
    torch.save({"random": _random_state(devices), "own": state}, buffer)
    path.write_bytes(buffer.getbuffer())  # torch.save does not report a full disk


def restore_rank_state(path: Path, devices: Sequence[torch.device]) -> State:
    """Restore the random state; return the `state` that `save_rank_state` wrote.

    Never runs code. Raises CheckpointMisfit when `save_rank_state` did not write the file.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            content: State = torch.load(path, map_location="cpu", weights_only=True)
        _set_random_state(content["random"], devices)
        state: State = content["own"]
    except Exception as error:  # also the exceptions of pickle
        raise CheckpointMisfit(
            f"{path.name} in the checkpoint {path.parent.name} is not what Traindeck saves: it is "
            "damaged, or it holds code, which is never run. Resume from another checkpoint."
        ) from error
    return state


class _Planner(DefaultSavePlanner):
    """Copies the tensors that safetensors refuses, such as tied weights; each name is saved.

    A restore loads in place, so weights that share memory still share it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._storages: set[int] = set()

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        data = super().resolve_data(write_item)
        if not isinstance(data, torch.Tensor):
            return data
        own = data.contiguous().resolve_conj().resolve_neg()
        # The writer copies what is on a GPU: a copy there would only need its memory.
        storage = own.untyped_storage().data_ptr()
        if own.is_cpu and storage in self._storages:
            return own.clone()
        self._storages.add(storage)
        return own


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


def _tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[State, State]:
    """Return the tensors of model and optimizer by name, and the optimizer's other entries.

    The other entries follow from the spec and the recipe, so a checkpoint does not hold them.
    """
    model, optim = get_state_dict(module, optimizer, options=_FLAT)
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


def _random_state(devices: Sequence[torch.device]) -> State:
    version, python_state, gauss = random.getstate()
    numpy_state: tuple[Any, ...] = np.random.get_state(legacy=True)  # type: ignore[assignment]
    name, keys, position, has_gauss, cached = numpy_state
    return {
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state(device) for device in _gpus(devices)],
        "python": [version, list(python_state), gauss],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
    }


def _set_random_state(state: State, devices: Sequence[torch.device]) -> None:
    torch.set_rng_state(state["torch"])
    # Additional GPUs, which have no state in the checkpoint, keep their new state.
    for device, gpu_state in zip(_gpus(devices), state["cuda"], strict=False):
        torch.cuda.set_rng_state(gpu_state, device)
    version, python_state, gauss = state["python"]
    random.setstate((version, tuple(python_state), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))


def _gpus(devices: Sequence[torch.device]) -> list[torch.device]:
    return [device for device in devices if device.type == "cuda"]
