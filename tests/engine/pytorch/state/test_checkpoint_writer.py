"""The safetensors files of a checkpoint: what others read in them, and how they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import safetensors.torch
import torch
from safetensors import safe_open
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from engine.pytorch.state import checkpoint_writer, training_state

TYPES = (
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn),
    *(torch.int64, torch.int16, torch.uint8, torch.bool, torch.complex64),
)


class Model(nn.Module):
    """Tensors of all types and shapes; two names for one weight, and rows of a larger tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        for dtype in TYPES:
            values = torch.randn(3, 5).to(dtype)
            self.register_buffer(f"of_{dtype}".replace("torch.", ""), values)
        self.register_buffer("number", torch.tensor(2.5))
        self.register_buffer("empty", torch.empty(0, 4))
        self.register_buffer("turned", torch.randn(4, 3).T)
        self.register_buffer("part", torch.randn(100, 2)[7:9])
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight


def content(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def saved(folder: Path, module: nn.Module, **options: Any) -> Path:
    (folder / training_state.TENSORS).mkdir(parents=True)
    training_state.save(folder, module, [], None, {}, **options)
    [file] = (folder / training_state.TENSORS).iterdir()
    return file


def test_every_tensor_is_read_as_it_was(tmp_path: Path) -> None:
    model = Model()
    read = safetensors.torch.load_file(saved(tmp_path, model))
    expected = {f"model.{name}": value for name, value in model.state_dict().items()}
    assert read.keys() == expected.keys()
    for name, value in expected.items():
        assert read[name].dtype == value.dtype
        assert torch.equal(content(read[name]), content(value)), name


def test_the_file_says_what_the_files_before_said(tmp_path: Path) -> None:
    model = Model()
    with safe_open(saved(tmp_path / "new", model), "pt") as new:
        metadata, names = new.metadata(), set(new.keys())
    with (
        mock.patch.object(
            training_state,
            "CheckpointWriter",
            lambda folder, count: HuggingFaceStorageWriter(str(folder), save_distributed=True),
        ),
        mock.patch.object(training_state, "_Planner", Cloning),
    ):
        file = saved(tmp_path / "old", model)
    with safe_open(file, "pt") as old:
        assert set(old.keys()) == names
        assert old.metadata()["format"] == metadata["format"]
        key = checkpoint_writer.CUSTOM_METADATA_KEY
        assert json.loads(old.metadata()[key]) == json.loads(metadata[key])


class Cloning(training_state._Planner):
    """What PyTorch's writer needs: no two tensors in one memory."""

    def resolve_data(self, write_item: Any) -> Any:
        return super().resolve_data(write_item).clone()


def test_a_tensor_is_written_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_writer, "PIECE_BYTES", 7)
    pieces: list[int] = []
    model = Model()
    file = saved(tmp_path, model, count=pieces.append)
    assert max(pieces) == 7
    assert sum(pieces) == sum(value.nbytes for value in model.state_dict().values())
    read = safetensors.torch.load_file(file)
    assert torch.equal(read["model.of_float64"], model.of_float64)


def test_a_restore_reads_it(tmp_path: Path) -> None:
    model, other = Model(), Model()
    for tensor in [*other.buffers(), *other.parameters()]:
        tensor.data = torch.zeros_like(tensor)
    other.second.weight = other.first.weight
    saved(tmp_path, model)
    training_state.restore(tmp_path, other, [], None, {})
    for name, value in model.state_dict().items():
        assert torch.equal(content(other.state_dict()[name]), content(value)), name
    assert other.second.weight is other.first.weight


def test_what_comes_from_a_gpu_passes_through_the_same_memory(tmp_path: Path) -> None:
    """New memory for each piece took the host longer than its copy."""
    writer = checkpoint_writer.CheckpointWriter(tmp_path, print)

    class OnGpu(torch.Tensor):
        device = torch.device("cuda")

    first, second = torch.arange(7, dtype=torch.uint8), torch.arange(3, dtype=torch.uint8)
    assert writer._on_host(first) is first, "it is there"
    one = writer._on_host(first.as_subclass(OnGpu))
    place = one.data_ptr()
    assert one.tolist() == first.tolist()
    two = writer._on_host(second.as_subclass(OnGpu))
    assert (two.data_ptr(), two.tolist()) == (place, second.tolist())
