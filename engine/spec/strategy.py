"""The base class of strategies: what each one declares before a framework is imported."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from engine.spec.device_names import all_on_cpu

if TYPE_CHECKING:
    from engine.spec.recipe_file import RecipeInfo
    from engine.spec.run_spec import RunSpec


class WorkerPlan(msgspec.Struct, frozen=True):
    """One process of the pool."""

    rank: int
    devices: tuple[str, ...]
    """The devices that this process uses, by their names in the spec; none: it computes nothing."""

    role: str = ""
    """What it does, such as `parameter server`; empty where all processes do the same."""

    @property
    def label(self) -> str:
        """Its name in sentences, such as `Rank 1 (worker) on cpu:0`."""
        role = f" ({self.role})" if self.role else ""
        place = f" on {', '.join(self.devices)}" if self.devices else ""
        return f"Rank {self.rank}{role}{place}"


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

    is_synchronous: ClassVar[bool] = True
    """Whether every step sees all updates before it, so that it must train like one device."""

    heartbeat_timeout: ClassVar[float] = math.inf
    """Seconds without a sign of life after which a rank counts as hanging, and the run ends; where
    its framework would notice late, or never."""

    can_free_devices: ClassVar[bool] = False
    """Whether a pause can move model and optimizer to the host's memory."""

    refusals: ClassVar[Mapping[str, str]] = {}
    """Fields of a spec that must keep their default here, each with the reason in a sentence."""

    @property
    def framework(self) -> str:
        """`torch` or `tf`: which framework its workers import."""
        return self.name.partition("/")[0]

    @property
    def short_name(self) -> str:
        """The name without its framework."""
        return self.name.partition("/")[2]

    def problems(self, devices: Sequence[str]) -> list[str]:
        """Why it cannot run on `devices` (at least one), each in a sentence that names the fix."""
        return []

    def recipe_problem(self, recipe: RecipeInfo) -> str:
        """Why it cannot train `recipe`, in a sentence that names the fix; empty when it can."""
        if recipe.framework in self.recipe_frameworks:
            return ""
        return (
            f"{self.name} trains {' and '.join(sorted(self.recipe_frameworks))} recipes; "
            f"{recipe.name} is a {recipe.framework} recipe. Choose another strategy."
        )

    def refusal(self, field: str, spec: RunSpec) -> str:
        """Why the spec's `field` cannot be changed from its default, in a sentence; or empty.

        It may depend on the rest of `spec`, and on the value: some values may do.
        """
        on_cpu = all_on_cpu(spec.devices)
        match field:
            case _ if field in self.refusals:
                return self.refusals[field]
            case "momentum" if spec.optimizer not in ("sgd", "rmsprop"):
                return "Momentum belongs to the optimizers sgd and rmsprop: choose one of them."
            case "weight_decay" if spec.optimizer == "recipe":
                return "The recipe's own optimizer decides this: choose an optimizer here."
            case "warmup_steps" if spec.schedule == "one_cycle":
                return "The schedule one_cycle warms up by itself: leave this at 0."
            case "precision" if spec.precision == "tf32" and on_cpu:
                return "tf32 is a format of NVIDIA GPUs: on a CPU choose fp32 or bf16."
            case _:
                return ""

    @abstractmethod
    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        """The processes to start for `devices`, by rank."""

    def replicas(self, devices: Sequence[str]) -> int:
        """How many copies of the model share a global batch."""
        return len(devices)


class PartitionedStrategy(Strategy):
    """A strategy that cuts one model into stages, one per device."""

    def recipe_problem(self, recipe: RecipeInfo) -> str:
        problem = super().recipe_problem(recipe)
        if problem or recipe.can_be_partitioned:
            return problem
        return (
            f"{self.name} cuts the model into stages, and {recipe.name} neither mentions a "
            "Sequential nor defines stages(model, count): add that function to the recipe, which "
            "returns the model as a list of count layers, or choose another strategy."
        )

    def replicas(self, devices: Sequence[str]) -> int:
        return 1


def one_process_per_device(devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
    """The pool of the multi-process strategies: rank k has device k."""
    return tuple(WorkerPlan(rank, (device,)) for rank, device in enumerate(devices))


def one_process(devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
    """The pool of the single-process strategies: rank 0 has every device."""
    return (WorkerPlan(0, tuple(devices)),)
