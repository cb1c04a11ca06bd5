"""Rules about what ranks exchange: the all-reduce, and copies between memories.

Bandwidths are those of NVIDIA's nccl-tests: the algorithm bandwidth is the size of the message by
the time, and the bus bandwidth of an all-reduce over n ranks is that times 2(n-1)/n, which is what
each link carries whatever n is (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from engine.doctor.finding import Change, Finding
from engine.planning.checks.figures import milliseconds, seconds_by_number
from engine.planning.checks.training import step_seconds
from engine.planning.short_run import ShortRun
from engine.spec.device_names import all_on_cpu
from engine.system.units import byte_size

ALL_REDUCE, BETWEEN, TO_GPU = "all-reduce", "copies between GPUs", "copies to GPUs"
GRADIENT_BYTES = 4
"""Of one parameter: gradients are exchanged in FP32."""

DOMINATES = 0.5
"""Part of a step that the exchange alone would take, from which on it is said."""

SLOW_TO_GPU = 3e9
"""Bytes per second from pinned memory, below which a card sits in a slow slot."""

REDUCED = ("torch/ddp", "torch/keras_ddp", "tf/mirrored", "tf/multi_worker")
"""Strategies that sum all gradients once a step."""

COPY_BYTES = 64 * 2**20


def all_reduce_finding(run: ShortRun) -> Finding:
    """Return how fast the ranks sum messages, and what that means for this model."""
    table = seconds_by_number(run, "all_reduce")
    ranks, is_tf = len(run.spec.slots), run.spec.strategy.startswith("tf/")
    if not table:
        if is_tf and ranks > 1:
            text = "How this strategy exchanges gradients is part of its step time."
        elif len(run.rank_shares) > 1:
            text = "There was no time to measure it."
        else:
            text = "One process trains: no gradients are summed over ranks."
        return Finding(name=ALL_REDUCE, level="ok", text=text)
    smallest, largest = min(table), max(table)
    bandwidth = largest / table[largest]
    text = (
        f"{ranks} {'replicas' if is_tf else 'ranks'} sum {byte_size(smallest)} in "
        f"{milliseconds(table[smallest])}, and "
        f"{byte_size(largest)} with {_rate(bandwidth)} (bus bandwidth "
        f"{_rate(bus_bandwidth(bandwidth, ranks))})."
    )
    step, size = step_seconds(run), run.parameters * GRADIENT_BYTES
    if run.spec.strategy not in REDUCED or not (step and size):
        return Finding(name=ALL_REDUCE, level="ok", text=text)
    expected = time_of(table, size)
    text += f" The {byte_size(size)} of gradients of a step need about {milliseconds(expected)}"
    if expected < DOMINATES * step:
        return Finding(name=ALL_REDUCE, level="ok", text=f"{text}.")
    twice = 2 * run.spec.batch_size
    return Finding(
        name=ALL_REDUCE,
        level="hint",
        text=f"{text}, and the whole step takes {milliseconds(step)}.",
        advice="The exchange costs the same for a larger batch, which needs fewer steps; one "
        "device alone may be as fast.",
        change=Change(f"Use the batch size {twice}", {"batch_size": twice}),
    )


def bus_bandwidth(algorithm_bandwidth: float, ranks: int) -> float:
    """Return the bus bandwidth of an all-reduce, as nccl-tests define it."""
    return algorithm_bandwidth * 2 * (ranks - 1) / ranks


def time_of(table: Mapping[int, float], size: float) -> float:
    """Return the seconds for a message of `size` bytes: between two sizes of the table linearly,
    above the largest one with its bandwidth."""
    sizes = sorted(table)
    if size <= sizes[0]:
        return table[sizes[0]]
    for low, high in pairwise(sizes):
        if size <= high:
            part = (size - low) / (high - low)
            return table[low] + part * (table[high] - table[low])
    return table[sizes[-1]] * size / sizes[-1]


def copies_findings(run: ShortRun) -> list[Finding]:
    """Return how fast memory is copied to and between the GPUs; a CPU has no such copies."""
    if all_on_cpu(run.spec.devices):
        text = "The training uses no GPU: nothing is copied to one."
        return [Finding(name=TO_GPU, level="ok", text=text)]
    return [*_to_gpu(run), *_between_gpus(run)]


def _to_gpu(run: ShortRun) -> Sequence[Finding]:
    rates: dict[str, dict[int, float]] = {"pinned": {}, "pageable": {}}
    for name, value in run.measured.items():
        match name.split("/"):
            case ["rank", rank, "to_gpu", kind, "seconds"] if kind in rates:
                rates[kind][int(rank)] = COPY_BYTES / value
    if not all(rates.values()):
        return [Finding(name=TO_GPU, level="ok", text="There was no time to measure it.")]
    pinned = rates["pinned"]
    slowest = min(pinned, key=lambda rank: pinned[rank])
    text = (
        f"The host copies to each GPU with at least {_rate(pinned[slowest])} from pinned memory "
        f"and {_rate(min(rates['pageable'].values()))} from pageable memory."
    )
    if pinned[slowest] >= SLOW_TO_GPU:
        return [Finding(name=TO_GPU, level="ok", text=text)]
    return [
        Finding(
            name=TO_GPU,
            level="warning",
            text=text,
            advice=f"The card of rank {slowest} ({run.spec.slots[slowest]}) sits in a slow slot, "
            "or its link has come up with fewer lanes: `nvidia-smi -q -d PCI` shows them.",
        )
    ]


def _between_gpus(run: ShortRun) -> Sequence[Finding]:
    rates, through_host = {}, []
    for name, value in run.measured.items():
        match name.split("/"):
            case ["between_gpus", first, second, "seconds"]:
                rates[int(first), int(second)] = COPY_BYTES / value
            case ["between_gpus", first, second, "direct"] if not value:
                through_host.append(f"{first} to {second}")
    if not rates:
        return []
    slow = min(rates, key=lambda pair: rates[pair])
    text = (
        f"Copies between GPUs reach {_rate(rates[slow])} (GPU {slow[0]} to {slow[1]} of the run) "
        f"to {_rate(max(rates.values()))}."
    )
    if not through_host:
        return [Finding(name=BETWEEN, level="ok", text=text)]
    return [
        Finding(
            name=BETWEEN,
            level="hint",
            text=f"{text} {len(through_host)} of {len(rates)} go through the host's memory: "
            f"{', '.join(through_host[:4])}.",
            advice="Choose GPUs that reach each other directly, if there are such: the window "
            "shows their links.",
        )
    ]


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.3g} GB/s"
