"""The base class of strategies, which are read without importing a framework."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from engine.spec.device_names import all_on_cpu, machine_of, machines_of
from engine.spec.recipe_file import no_recipe

if TYPE_CHECKING:
    from engine.spec.recipe_file import RecipeInfo
    from engine.spec.run_spec import RunSpec


class WorkerPlan(msgspec.Struct, frozen=True):
    """One process of the worker pool."""

    rank: int
    devices: tuple[str, ...]
    """The devices that this process uses, as the spec names them; empty: it computes nothing."""

    role: str = ""
    """Its task, such as `parameter server`; empty if all processes have the same task."""

    @property
    def machine(self) -> str:
        """The machine of the cluster on which it runs; empty: that of the supervisor."""
        return machine_of(self.devices[0]) if self.devices else ""

    @property
    def label(self) -> str:
        """The name in messages, such as `Rank 1 (worker) on cpu:0`."""
        role = f" ({self.role})" if self.role else ""
        place = f" on {', '.join(self.devices)}" if self.devices else ""
        return f"Rank {self.rank}{role}{place}"


class Strategy(ABC):
    """One way to spread training over devices.

    A strategy is one file in the folder `strategies` of `engine/pytorch`, `engine/tf` or
    `engine/script_rank` that binds an instance to the name `strategy`. The window reads that
    instance, so the file imports its framework inside functions only; the functions that need it
    run in workers.
    """

    name: ClassVar[str]
    """Full name, such as `torch/ddp`: the framework, a slash, the short name."""

    title: ClassVar[str]
    """The name in the form, such as `DDP`."""

    summary: ClassVar[str]
    """One sentence for the tooltip: what it does and when to choose it."""

    recipe_frameworks: ClassVar[frozenset[str]]
    """The frameworks of the recipes that it trains: `torch`, `keras`, or `script` for scripts."""

    needs: ClassVar[str]
    """What it needs, such as `1 device`."""

    is_synchronous: ClassVar[bool] = True
    """Whether every step uses the weights of all earlier updates, as on one device."""

    heartbeat_timeout: ClassVar[float] = math.inf
    """Seconds without a heartbeat after which a rank counts as hanging and the run ends, for a
    framework that would notice it late or never."""

    can_free_devices: ClassVar[bool] = False
    """Whether a pause can move model and optimizer to the host's memory."""

    spans_machines: ClassVar[bool] = False
    """Whether its processes may run on several machines of a cluster."""

    refusals: ClassVar[Mapping[str, str]] = {}
    """Fields of a spec that must keep their default, each with the reason in a sentence."""

    @property
    def framework(self) -> str:
        """`torch` or `tf`: which framework its workers import; `script`: the command decides."""
        return self.name.partition("/")[0]

    @property
    def short_name(self) -> str:
        """The name without its framework."""
        return self.name.partition("/")[2]

    def problems(self, devices: Sequence[str]) -> list[str]:
        """Return why it cannot run on `devices` (at least one), in sentences with the solution."""
        return []

    def recipe_problem(self, recipe: RecipeInfo) -> str:
        """Return why it cannot train `recipe`, in a sentence with the solution; empty if it can."""
        if recipe.framework in self.recipe_frameworks:
            return ""
        if recipe.is_script:
            return no_recipe(recipe)
        return (
            f"{self.name} trains {' and '.join(sorted(self.recipe_frameworks))} recipes; "
            f"{recipe.name} is a {recipe.framework} recipe. Choose another strategy."
        )

    def refusal(self, field: str, spec: RunSpec) -> str:
        """Return why `field` must keep its default, in a sentence; empty when it may change.

        The answer may depend on the value of the field and on the rest of `spec`.
        """
        on_cpu = all_on_cpu(spec.devices)
        match field:
            case _ if field in self.refusals:
                return self.refusals[field]
            case "on_oom" if reason := self.refusals.get("accumulation", ""):
                return f"Smaller parts need gradient accumulation. {reason}"
            case "momentum" if spec.optimizer not in ("sgd", "rmsprop"):
                return "Momentum belongs to the optimizers SGD and RMSprop: choose one of them."
            case "weight_decay" if spec.optimizer == "recipe":
                return "The recipe's own optimizer decides this: choose an optimizer here."
            case "warmup_steps" if spec.schedule == "one_cycle":
                return "The one-cycle schedule warms up by itself: leave this at 0."
            case "min_machines" if len(machines_of(spec.devices)) == 1:
                return "Min machines is for runs over several machines of a cluster: leave it at 0."
            case "shared_folder" if len(machines_of(spec.devices)) == 1:
                return "A shared folder is for a run over several machines: leave it empty."
            case "precision" if spec.precision == "tf32" and on_cpu:
                return "TF32 is a format of NVIDIA GPUs: on a CPU choose default or bf16."
            case _:
                return ""

    def script_refusal(self, field: str, recipe: RecipeInfo) -> str:
        """Return why `field` must keep its default for the script `recipe`; empty if it may change.

        It is asked for what `refusal` allows, and does not depend on the value.
        """
        return ""

    @abstractmethod
    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        """Return the processes to start for `devices`, by rank."""

    def replicas(self, devices: Sequence[str]) -> int:
        """Return how many copies of the model share a global batch."""
        return len(devices)


class PartitionedStrategy(Strategy):
    """A strategy that partitions one model into stages, one per device."""

    def recipe_problem(self, recipe: RecipeInfo) -> str:
        problem = super().recipe_problem(recipe)
        if problem or recipe.can_be_partitioned:
            return problem
        return (
            f"{self.name} partitions the model into stages, and {recipe.name} neither mentions a "
            "Sequential nor defines stages(model, count): add that function to the recipe, which "
            "returns the model as a list of count layers, or choose another strategy."
        )

    def replicas(self, devices: Sequence[str]) -> int:
        return 1


def one_process_per_device(devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
    """Return the pool of a multi-process strategy: rank k has device k."""
    return tuple(WorkerPlan(rank, (device,)) for rank, device in enumerate(devices))


def one_process(devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
    """Return the pool of a single-process strategy: rank 0 has every device."""
    return (WorkerPlan(0, tuple(devices)),)
