"""What every strategy says about itself before any framework is imported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import msgspec


class WorkerPlan(msgspec.Struct, frozen=True):
    """One process of the pool."""

    rank: int
    devices: tuple[str, ...]
    """The devices that this process uses, by their names in the spec."""


class Strategy(ABC):
    """One way to spread training over devices.

    A strategy is one file in `engine/pytorch/strategies` or `engine/tf/strategies` that binds an
    instance to the name `strategy`. The window reads that instance, so the file imports its
    framework inside functions only; the functions that need it run in workers.
    """

    name: ClassVar[str]
    """Full name, such as `torch/ddp`: the framework, a slash, the short name."""

    title: ClassVar[str]
    """As the form shows it, such as `Distributed data parallel (DDP)`."""

    summary: ClassVar[str]
    """One sentence for the tooltip: what it does and when to choose it."""

    recipe_frameworks: ClassVar[frozenset[str]]
    """The recipes it trains: `torch`, `keras`."""

    needs: ClassVar[str]
    """What it needs to run, in words, such as `1 device`."""

    @property
    def framework(self) -> str:
        """`torch` or `tf`: which framework its workers import."""
        return self.name.partition("/")[0]

    @property
    def short_name(self) -> str:
        """The name without its framework."""
        return self.name.partition("/")[2]

    @abstractmethod
    def problems(self, devices: Sequence[str]) -> list[str]:
        """Why it cannot run on `devices` (at least one), each in a sentence that names the fix."""

    @abstractmethod
    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        """The processes to start for `devices`, by rank."""

    def replicas(self, devices: Sequence[str]) -> int:
        """How many copies of the model share a global batch."""
        return len(devices)


def one_process_per_device(devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
    """The pool of the multi-process strategies: rank k has device k."""
    return tuple(WorkerPlan(rank, (device,)) for rank, device in enumerate(devices))


def one_process(devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
    """The pool of the single-process strategies: rank 0 has every device."""
    return (WorkerPlan(0, tuple(devices)),)
