"""Gradients of two ranks are averaged after the backward pass, whatever each of them has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import distributed, nn

from engine.pytorch.parallelism import gradient_exchange


class Ranks:
    """Two ranks as threads, whose collectives meet each other."""

    def __init__(self) -> None:
        self.own = threading.local()
        self.barrier = threading.Barrier(2, timeout=60)
        self.given: list[Any] = [None, None]
        self.exchanged = 0

    def all_reduce(self, tensor: torch.Tensor, op: Any = distributed.ReduceOp.SUM) -> None:
        """As that of PyTorch."""
        first, second = self._together(tensor)
        found = torch.maximum(first, second) if op == distributed.ReduceOp.MAX else first + second
        self.barrier.wait()
        tensor.copy_(found.to_sparse() if tensor.is_sparse and not found.is_sparse else found)

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """As that of PyTorch."""
        found = self._together(tensor)[source]
        self.barrier.wait()
        tensor.copy_(found)

    def _together(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        self.given[self.own.rank] = tensor.clone()
        if self.own.rank == 0:
            self.exchanged += 1
        self.barrier.wait()
        return list(self.given)

    def run(self, function: Callable[[int], None]) -> None:
        """Call `function(rank)` on both ranks."""

        def of_rank(rank: int) -> None:
            self.own.rank = rank
            function(rank)

        threads = [threading.Thread(target=of_rank, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    made = Ranks()
    monkeypatch.setattr(distributed, "all_reduce", made.all_reduce)
    monkeypatch.setattr(distributed, "broadcast", made.broadcast)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    return made


def parameters(gradients: list[torch.Tensor | None], shapes: list[Any]) -> list[nn.Parameter]:
    made = []
    for gradient, shape in zip(gradients, shapes, strict=True):
        dtype = torch.float32 if gradient is None else gradient.dtype
        parameter = nn.Parameter(torch.zeros(shape, dtype=dtype))
        parameter.grad = gradient
        made.append(parameter)
    return made


def test_gradients_of_several_shapes_types_and_layouts_are_averaged(
    ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient_exchange, "BUCKET_BYTES", 40)
    given = [
        [
            torch.full((3,), 1.0 + rank),
            torch.arange(6.0).view(2, 3).t() * (1 + rank),
            torch.full((2,), 4.0 * rank, dtype=torch.bfloat16),
            torch.tensor(2.0 * rank),
        ]
        for rank in range(2)
    ]
    shapes = [(3,), (3, 2), (2,), ()]
    both = [parameters(list(each), shapes) for each in given]
    expected = [(a.float() + b.float()) / 2 for a, b in zip(*given, strict=True)]
    ranks.run(lambda rank: gradient_exchange.average(both[rank], has_equal_sets=True))
    for own in both:
        for parameter, wanted in zip(own, expected, strict=True):
            assert parameter.grad is not None
            assert parameter.grad.float().equal(wanted)
    assert ranks.exchanged == 3


def test_a_rank_without_a_gradient_counts_as_zero_and_one_without_any_stays_so(
    ranks: Ranks,
) -> None:
    both = [
        parameters([torch.ones(2), None, None], [(2,), (3,), (1,)]),
        parameters([torch.ones(2) * 3, torch.ones(3), None], [(2,), (3,), (1,)]),
    ]
    ranks.run(lambda rank: gradient_exchange.average(both[rank], has_equal_sets=False))
    for own in both:
        first, second, third = (parameter.grad for parameter in own)
        assert first is not None
        assert second is not None
        assert first.tolist() == [2, 2]
        assert second.tolist() == [0.5, 0.5, 0.5]
        assert third is None


def test_buffers_become_those_of_rank_0(ranks: Ranks) -> None:
    both = [
        [torch.full((2,), float(rank)), torch.tensor(rank), torch.tensor([5.0 + rank])]
        for rank in range(2)
    ]
    ranks.run(lambda rank: gradient_exchange.copy_from_first(both[rank]))
    assert [tensor.tolist() for tensor in both[1]] == [[0, 0], 0, [5]]
