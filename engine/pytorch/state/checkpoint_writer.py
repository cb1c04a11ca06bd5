"""Writes the tensors of a checkpoint into a safetensors file, with little memory beside them.

The writer of PyTorch copies what is on a GPU into pinned memory, which the process never gives
back, and has the whole file in memory once more before it writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

import safetensors.torch
import torch
from torch.distributed.checkpoint._hf_utils import (
    CUSTOM_METADATA_KEY,
    SAVED_OFFSETS_KEY,
    _gen_file_name,
)
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

PIECE_BYTES = 2**26
"""So much of a tensor is copied from its device at once."""

_ALIGNMENT = 8
_LENGTH_BYTES = 8


class _Entry(NamedTuple):
    """A tensor, or this rank's part of one, and where it lies behind the header of the file."""

    item: WriteItem
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int

    @property
    def end(self) -> int:
        return self.begin + self.dtype.itemsize * torch.Size(self.shape).numel()


class CheckpointWriter(HuggingFaceStorageWriter):
    """Writes one file per rank, which `HuggingFaceStorageReader` reads; it syncs nothing."""

    def __init__(self, folder: Path, count: Callable[[int], None]) -> None:
        """`count` gets the bytes that were written, piece by piece."""
        super().__init__(str(folder), save_distributed=True)
        self._folder = folder
        self._count = count
        self._piece: torch.Tensor | None = None

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the tensors of `plan`. Raises OSError."""
        written: Future[list[WriteResult]] = Future()
        results = []
        if plan.items:
            entries = _placed(plan.items)
            name = _gen_file_name(1, 1, plan.storage_data["shard_index"])
            with (self._folder / name).open("wb", buffering=0) as file:
                _write(file, _header(entries))
                for entry in entries:
                    tensor = planner.resolve_data(entry.item)
                    assert isinstance(tensor, torch.Tensor)
                    self._write_tensor(file, tensor.detach())
                    results.append(
                        WriteResult(
                            index=entry.item.index,
                            size_in_bytes=entry.end - entry.begin,
                            storage_data=None,
                        )
                    )
        written.set_result(results)
        return written

    def _write_tensor(self, file: IO[bytes], tensor: torch.Tensor) -> None:
        content = tensor.reshape(-1).view(torch.uint8)
        for begin in range(0, len(content), PIECE_BYTES):
            piece = self._on_host(content[begin : begin + PIECE_BYTES])
            _write(file, piece.numpy().data)
            self._count(len(piece))

    def _on_host(self, piece: torch.Tensor) -> torch.Tensor:
        """Return the values of `piece` in memory of the host, until the next call.

        New memory for each would cost more than the copy: the system clears it page by page.
        """
        if piece.device.type == "cpu":
            return piece
        if self._piece is None:
            self._piece = torch.empty(PIECE_BYTES, dtype=torch.uint8)
        return self._piece[: len(piece)].copy_(piece)


def _placed(items: Sequence[WriteItem]) -> list[_Entry]:
    """Return the tensors in the order of the file: the larger their elements, the earlier."""
    found = []
    for item in items:
        assert item.tensor_data is not None
        found.append((item, item.tensor_data.properties.dtype, item.tensor_data.chunk.sizes))
    found.sort(key=lambda each: (-each[1].itemsize, each[0].index.fqn))
    entries: list[_Entry] = []
    for item, dtype, sizes in found:
        entries.append(_Entry(item, dtype, tuple(sizes), entries[-1].end if entries else 0))
    return entries


def _header(entries: Sequence[_Entry]) -> bytes:
    """Return the length of the header and the header."""
    offsets: dict[str, dict[str, list[int]]] = {}
    content: dict[str, object] = {"__metadata__": {"format": "pt"}}
    for entry in entries:
        name, data = entry.item.index.fqn, entry.item.tensor_data
        assert data is not None
        offsets[name] = {SAVED_OFFSETS_KEY: list(data.chunk.offsets)}
        content[name] = {
            "dtype": _name_of(entry.dtype),
            "shape": list(entry.shape),
            "data_offsets": [entry.begin, entry.end],
        }
    content["__metadata__"] = {"format": "pt", CUSTOM_METADATA_KEY: json.dumps(offsets)}
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


@cache
def _name_of(dtype: torch.dtype) -> str:
    """Return the name of a type in safetensors files. Raises SafetensorError if it has none."""
    saved = safetensors.torch.save({"tensor": torch.empty(0, dtype=dtype)})
    length = int.from_bytes(saved[:_LENGTH_BYTES], "little")
    name: str = json.loads(saved[_LENGTH_BYTES : _LENGTH_BYTES + length])["tensor"]["dtype"]
    return name


def _write(file: IO[bytes], content: bytes | memoryview) -> None:
    """Write all of `content`: a file without a buffer may take a part of it."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
