"""What the ranks of a pipeline send and receive, played as NCCL does it at worst.

A send of NCCL ends only when it is received. So an order that works with gloo may wait for ever on
GPUs. The schedules run here rank by rank, without the others, and tell what they would exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any
from unittest import mock

import pytest
import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.testing._internal.distributed import fake_pg

from engine.pytorch.parallel import Objective, Rank
from engine.pytorch.parallelism.pipeline import PipelineModel
from engine.pytorch.parallelism.stage_signature import StageSignature, TensorSpec
from engine.pytorch.precision import Precision
from engine.pytorch.process_group import SingleProcess
from engine.spec.run_spec import RunSpec
from tests.support.sentences import sentence

CPU = torch.device("cpu")
WIDTH = 4

Part = tuple[str, int]
"""`send` or `receive`, and the other rank."""

Kernel = frozenset[Part]
"""What one kernel exchanges: it ends when all its parts are matched."""


def signatures(
    stage: Any, example: Any, rank: Rank, precision: Any
) -> tuple[StageSignature | None, StageSignature | None]:
    """Return what the ranks would tell each other: every stage gives rows of one size."""
    training = torch.is_grad_enabled()
    between = StageSignature((TensorSpec((1, WIDTH), "float32", training),), False)
    is_last = rank.number == rank.world_size - 1
    return (between if rank.number else None), (None if is_last else between)


@contextmanager
def alone(rank: int, stages: int) -> Iterator[None]:
    """Be one rank of a pool whose other ranks are silent."""
    store = fake_pg.FakeStore()
    distributed.init_process_group("fake", store=store, rank=rank, world_size=stages)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def exchanged(rank: int, stages: int, micro_batches: int, *, training: bool) -> list[Kernel]:
    """Run a batch through the stage of one rank; return what it sends and receives, in order."""
    kernels: list[Kernel] = []

    def note(operations: list[Any], desc: str | None = None) -> list[Any]:
        parts = [("send" if o.op is distributed.isend else "receive", o.peer) for o in operations]
        if len({kind for kind, _ in parts}) == 1:  # then each may be a kernel of its own
            kernels.extend(frozenset([part]) for part in parts)
        elif parts:
            kernels.append(frozenset(parts))
        return []

    spec = RunSpec(
        recipe="r",
        strategy="torch/pipeline",
        devices=("cpu:0",) * stages,
        microbatches=micro_batches,
    )
    objective = Objective(lambda o, t: o.sum(), lambda o, t: {}, Precision("fp32", "cpu"))
    batch = torch.zeros(micro_batches, WIDTH), torch.zeros(micro_batches)
    stage = nn.Linear(WIDTH, WIDTH)
    with (
        alone(rank, stages),
        mock.patch("engine.pytorch.parallelism.pipeline.stage_signatures", signatures),
        mock.patch.object(schedules, "_batch_p2p", note),
        # Before the first step, ranks make communicators: before 2.12 one way, since then another.
        mock.patch.object(PipelineStage, "_get_init_p2p_neighbors_ops", return_value=[]),
        mock.patch.object(schedules._PipelineSchedule, "_warmup_p2p", _is_warm, create=True),
    ):
        model = PipelineModel(stage, stage, Rank(rank, stages, (CPU,), SingleProcess(), spec))
        if training:
            model.train_batch(batch, 1.0, objective, sync=True)
        else:
            model.validate_batch(batch, objective)
    return kernels


def _is_warm(schedule: Any, stages: list[Any], *_: Any) -> None:
    for stage in stages:
        stage._inference_mode = schedules.InferenceMode.STATIC


def play(programs: list[list[Kernel]], *, one_queue: bool) -> str:
    """Play what the ranks do; return where they wait for ever, or nothing.

    `one_queue`: all kernels of a rank run one after the other, as on one communicator. Otherwise a
    pair of ranks has one of its own, as where communicators are made when they are needed.
    """
    queues: dict[tuple[int, object], list[set[Part]]] = {}
    for rank, kernels in enumerate(programs):
        for kernel in kernels:
            pair = frozenset({rank, *(peer for _, peer in kernel)})
            name = "all" if one_queue or len(kernel) > 1 else pair
            queues.setdefault((rank, name), []).append(set(kernel))
    begun: dict[tuple[int, object], set[Part]] = {q: todo.pop(0) for q, todo in queues.items()}

    def finish(queue: tuple[int, object], part: Part) -> None:
        begun[queue].discard(part)
        while not begun[queue] and queues[queue]:
            begun[queue] = queues[queue].pop(0)

    def match() -> bool:
        for sender, parts in begun.items():
            for kind, peer in parts:
                if kind != "send":
                    continue
                for receiver, others in begun.items():
                    fits = receiver[0] == peer and (one_queue or receiver[1] == sender[1])
                    if fits and ("receive", sender[0]) in others:
                        finish(sender, ("send", peer))
                        finish(receiver, ("receive", sender[0]))
                        return True
        return False

    while match():
        pass
    return ", ".join(
        f"rank {rank} waits to {kind} {'to' if kind == 'send' else 'from'} rank {peer}"
        for (rank, _), parts in begun.items()
        for kind, peer in parts
    )


def counts(stages: int) -> list[int]:
    """Numbers of micro-batches around those at which a schedule changes."""
    return sorted({1, stages - 1, stages, stages + 1, 2 * stages, 2 * stages + 1})


@pytest.mark.parametrize("stages", range(2, 9))
def test_no_rank_waits_for_ever_for_another(stages: int) -> None:
    stuck = {}
    for count in counts(stages):
        for training in (True, False):
            programs = [exchanged(rank, stages, count, training=training) for rank in range(stages)]
            # Each of them sends and receives what its place asks for.
            between = [min(rank, 1) + min(stages - 1 - rank, 1) for rank in range(stages)]
            found = [len(list(chain(*kernels))) for kernels in programs]
            assert found == [count * sides * (2 if training else 1) for sides in between]
            for one_queue in (True, False):
                if where := play(programs, one_queue=one_queue):
                    stuck[count, training, one_queue] = where
    assert stuck == {}


def test_an_exchange_that_can_wait_for_ever_is_seen() -> None:
    both_send_first = [
        [frozenset([("send", 1)]), frozenset([("receive", 1)])],
        [frozenset([("send", 0)]), frozenset([("receive", 0)])],
    ]
    assert sentence("rank-waits-to-send-to-rank") in play(both_send_first, one_queue=True)
    together = [
        [frozenset([("send", 1), ("receive", 1)])],
        [frozenset([("send", 0), ("receive", 0)])],
    ]
    assert play(together, one_queue=True) == ""
