"""PyTorch models and optimizers on this rank: device, DDP, FSDP2, weights of parts, gradients.

Imported only when the script has imported torch.
"""

from __future__ import annotations

import datetime
import functools
import io
import warnings
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from traindeck._errors import TraindeckError
from traindeck._source import Part
from traindeck._state.kept import Kept
from traindeck._state.random_state import Plain, RandomState, seed_all
from traindeck._surroundings import Surroundings

_MIN_UNIT_PARAMETERS = 2**20
"""A block with fewer parameters is gathered together with the module that contains it."""

_WORD_OF_RANK_0_SECONDS = 1800.0


class TorchRanks:
    """What this process does with PyTorch, as one rank of the run."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._models: list[nn.Module] = []
        self._replicated_things: list[Any] = []
        self._stale: weakref.WeakSet[nn.Parameter] = weakref.WeakSet()
        self._shared_words = 0
        self._sums = False
        self.stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        """The optimizers that have made a step."""

        self.steps = 0
        """Optimizer steps so far, of all optimizers."""

        self.has_pending_gradients = False
        """Whether `backward` was called after the last optimizer step: gradients accumulate."""

        self._weight = 1.0
        self.mesh: Any = None
        """The devices over which FSDP divides; None: nothing is divided."""

        if surroundings.inside:
            self._watch_gradients()

    @property
    def device(self) -> torch.device:
        """The device of this rank."""
        if torch.cuda.is_available():
            if self._surroundings.world_size == 1:
                return torch.device("cuda")
            return torch.device("cuda", self._surroundings.local_rank % torch.cuda.device_count())
        return torch.device("cpu")

    @property
    def has_placed(self) -> bool:
        """Whether a model was placed."""
        return bool(self._models)

    def is_evaluating(self, things: Iterable[Any]) -> bool:
        """Whether the script validates now: no gradients, or all models of `things` in `eval()`."""
        if not torch.is_grad_enabled():
            return True
        models = [thing for thing in things if isinstance(thing, nn.Module)]
        return bool(models) and not any(model.training for model in models)

    def accumulates(self, kept: Kept) -> bool:
        """Whether gradients wait for a later batch; not if no optimizer is known to use them."""
        if not self.has_pending_gradients:
            return False
        if self.stepped:
            return True
        return any(isinstance(thing, Optimizer) for thing in kept.things().values())

    def weigh(self, part: Part) -> None:
        """Let the gradients of this rank's part count as many samples as it has.

        DDP and FSDP take the mean over the ranks. A loss that is a sum is summed.
        """
        world = self._surroundings.world_size
        if self._sums:
            self._weight = float(world) if part.own else 0.0
        else:
            self._weight = part.weight(world)

    def is_replicated(self, thing: Any) -> bool:
        """Whether `thing` was placed under DDP, so that it is the same on all ranks."""
        return any(thing is placed for placed in self._replicated_things)

    def draw_apart(self) -> None:
        """Let each rank draw other random numbers, if all would draw the same ones."""
        state = RandomState.now()
        own = state.seed()
        if self.word_of_rank_0({"seed": own})["seed"] == own and self._surroundings.rank:
            seed_all(state.seed(self._surroundings.rank))

    def mean(self, value: Any, weight: float) -> Any:
        """Return the mean of `value` over the ranks. All ranks call it together."""
        if not distributed.is_initialized():
            return value
        pair = torch.tensor([float(value) * weight, weight], dtype=torch.float64)
        pair = pair.to(self.device) if distributed.get_backend() == "nccl" else pair
        distributed.all_reduce(pair)
        found = (pair[0] / pair[1]).item()
        if isinstance(value, torch.Tensor):
            return torch.tensor(found, dtype=value.dtype, device=value.device)
        return found

    def empty_cache(self) -> tuple[str, int]:
        """Give unused memory of the GPU back; return its name and the bytes."""
        if not torch.cuda.is_available():
            return "cpu", 0
        before = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        return str(self.device), before - torch.cuda.memory_reserved()

    def can_place(self, thing: Any) -> bool:
        """Whether `place` takes it."""
        return isinstance(thing, (nn.Module, Optimizer, torch.Tensor))

    def place(
        self, things: Iterable[Any], *, reduction: str = "mean", **ddp_options: bool
    ) -> list[Any]:
        """Return models and optimizers on this rank, in the order given; see `traindeck.place`."""
        things = list(things)
        if reduction not in ("mean", "sum"):
            raise TraindeckError(f"place(reduction={reduction!r}): it is 'mean' or 'sum'.")
        unknown = ddp_options.keys() - {"find_unused_parameters", "broadcast_buffers"}
        if unknown:
            raise TraindeckError(f"place() has no option {', '.join(sorted(unknown))}.")
        self._sums = reduction == "sum"
        for thing in things:
            if not self.can_place(thing):
                raise TraindeckError(
                    f"place() takes models, optimizers and tensors, not a {type(thing).__name__}."
                )
        own = self._surroundings
        if own.inside and own.strategy == "torchrun" and own.world_size > 1:
            raise TraindeckError(
                "place() cannot be used under script/torchrun with several ranks: there the script "
                "distributes itself. Choose script/ddp or script/fsdp, or leave place() out."
            )
        if own.inside and own.strategy in ("tf_config", "mirrored"):
            raise TraindeckError(
                f"place() cannot put a PyTorch model under script/{own.strategy}, which is for "
                "TensorFlow. Choose script/single, script/ddp or script/fsdp."
            )
        if own.shares_work:
            self._join_ranks()
        names = _parameters(things)
        placed = [self._placed(thing, ddp_options) for thing in things]
        for thing in things:
            if isinstance(thing, Optimizer):
                self._follow(thing, names)
        if own.shares_work and own.strategy == "ddp":
            self._replicated_things += placed
        return placed

    def to_device(self, batch: Any) -> Any:
        """Return `batch` with its tensors on the device; its containers keep their types."""
        if isinstance(batch, torch.Tensor):
            return batch.to(self.device, non_blocking=True)
        if isinstance(batch, dict):
            moved = {key: self.to_device(value) for key, value in batch.items()}
            return moved if type(batch) is dict else _same_type(batch, moved)
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*(self.to_device(value) for value in batch))
        if type(batch) in (list, tuple):
            return type(batch)(self.to_device(value) for value in batch)
        if callable(getattr(batch, "to", None)):
            return batch.to(self.device)
        return batch

    def word_of_rank_0(self, word: Plain) -> Plain:
        """Return the `word` that rank 0 gave at this call; only other ranks may wait for it."""
        self._shared_words += 1
        key = f"word/{self._shared_words}"
        store = self._store()
        if self._surroundings.rank == 0:
            buffer = io.BytesIO()
            torch.save(word, buffer)
            store.set(key, buffer.getvalue())
            if self._shared_words > 64:  # no rank is that far behind: gradients are exchanged
                store.delete_key(f"word/{self._shared_words - 64}")
            return word
        try:
            store.wait([key], datetime.timedelta(seconds=_WORD_OF_RANK_0_SECONDS))
        except RuntimeError as error:
            raise TraindeckError(
                f"Rank {self._surroundings.rank} waits in traindeck.batches() for rank 0, which "
                "does not iterate over this loader. Every rank must do so."
            ) from error
        shared: Plain = torch.load(io.BytesIO(store.get(key)), weights_only=True)
        return shared

    def check_equal_models(self) -> None:
        """Raise TraindeckError if the weights differ between the ranks of DDP after a step.

        All ranks call it together.
        """
        if self._surroundings.strategy != "ddp" or not self._surroundings.shares_work:
            return
        own = [
            float(parameter.detach().double().sum().item())
            for model in self._models
            for parameter in model.parameters()
        ]
        first = self.word_of_rank_0({"sums": own})["sums"]
        if repr(own) != repr(first):
            raise TraindeckError(
                "After the first step, the weights of the ranks differ: the gradients were not "
                "exchanged. Under script/ddp, call the model that place() returned, as model(...), "
                "and no other method of it for training."
            )

    def check_is_placed(self) -> None:
        """Raise TraindeckError if several ranks would train apart from each other."""
        if self._surroundings.shares_work and not self._models:
            raise TraindeckError(
                f"place() was not called, so the {self._surroundings.world_size} ranks of "
                f"script/{self._surroundings.strategy} would train a model each, apart from each "
                "other. Call model, optimizer = traindeck.place(model, optimizer) before the loop."
            )

    def gradients(self, models: dict[str, Any]) -> Plain:
        """Return gradients that wait for an optimizer step, by model and parameter."""
        if not self.has_pending_gradients:
            return {}
        return {
            name: {
                parameter_name: parameter.grad
                for parameter_name, parameter in unwrapped(model).named_parameters()
                if parameter.grad is not None
            }
            for name, model in models.items()
            if isinstance(model, nn.Module)
        }

    def restore_gradients(self, models: dict[str, Any], gradients: Plain) -> None:
        """Give the parameters the gradients that waited."""
        for name, found in gradients.items():
            parameters = dict(unwrapped(models[name]).named_parameters())
            for parameter_name, gradient in found.items():
                parameter = parameters[parameter_name]
                parameter.grad = gradient.to(parameter.device)
        self.has_pending_gradients = bool(gradients)

    def parameters(self, models: Iterable[Any]) -> int:
        """Return the number of trainable parameters."""
        found = {p for m in models if isinstance(m, nn.Module) for p in m.parameters()}
        return sum(parameter.numel() for parameter in found if parameter.requires_grad)

    def _join_ranks(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        if not distributed.is_initialized():
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            distributed.init_process_group(backend)

    def _store(self) -> Any:
        from torch.distributed import distributed_c10d

        store = distributed_c10d._get_default_store()
        return distributed_c10d.PrefixStore("traindeck", store)

    def _placed(self, thing: Any, ddp_options: dict[str, bool]) -> Any:
        if isinstance(thing, torch.Tensor):
            return thing.to(self.device)
        if isinstance(thing, Optimizer):
            return thing
        module: nn.Module = thing.to(self.device)
        trains = any(parameter.requires_grad for parameter in module.parameters())
        if trains and self._surroundings.shares_work:
            if self._surroundings.strategy == "fsdp":
                module = self._divided(module)
            else:
                module = self._replicated(module, ddp_options)
        if any(True for _ in module.parameters()):
            self._models.append(module)
        return module

    def _replicated(self, module: nn.Module, options: dict[str, Any]) -> nn.Module:
        # A harmless warning: some kernels return gradients whose strides differ from the bucket's.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        device_ids = [self.device] if self.device.type == "cuda" else None
        return Replica(module, device_ids=device_ids, **options)

    def _divided(self, module: nn.Module) -> nn.Module:
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            raise TraindeckError(
                f"script/fsdp needs PyTorch 2.6 or newer; this is {torch.__version__}. Choose "
                "script/ddp, or install a newer version."
            ) from None
        from torch.distributed.device_mesh import init_device_mesh

        for tensor in (*module.parameters(), *module.buffers()):
            distributed.broadcast(tensor.detach(), 0)  # each rank has drawn its own weights
        self._stale.update(module.parameters())
        if self.mesh is None:
            self.mesh = init_device_mesh(self.device.type, (self._surroundings.world_size,))
        for unit in _units(module):
            fully_shard(unit, mesh=self.mesh)
        return module

    def _follow(self, optimizer: Optimizer, names: dict[int, tuple[nn.Module, str]]) -> None:
        """Give `optimizer` what FSDP has put in the place of its parameters, and move its state."""
        for group in optimizer.param_groups:
            for i, parameter in enumerate(group["params"]):
                if id(parameter) not in names:
                    if parameter in self._stale:
                        raise self._apart(optimizer)
                    continue
                module, name = names[id(parameter)]
                current = module.get_parameter(name)
                if current is parameter:
                    continue
                if parameter in optimizer.state:
                    raise TraindeckError(
                        f"{type(optimizer).__name__} has made steps already, so FSDP cannot divide "
                        "its state. Call place() before the first step."
                    )
                group["params"][i] = current
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and key != "step":
                    state[key] = value.to(parameter.device)

    def _apart(self, optimizer: Optimizer) -> TraindeckError:
        return TraindeckError(
            f"Under FSDP, {type(optimizer).__name__} and its model must be placed together: "
            "model, optimizer = traindeck.place(model, optimizer)."
        )

    def _watch_gradients(self) -> None:
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **options: Any) -> None:
            self.has_pending_gradients = True
            if self._weight != 1.0:
                grad_tensors = _scaled(tensors, grad_tensors, self._weight)
            original(tensors, grad_tensors, *args, **options)

        torch.autograd.backward = backward
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self._note_step)

    def _note_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.steps += 1
        self.has_pending_gradients = False
        if optimizer not in self.stepped:
            self.stepped.add(optimizer)
            if self._stale:
                for group in optimizer.param_groups:
                    if any(parameter in self._stale for parameter in group["params"]):
                        raise self._apart(optimizer)


class Replica(DistributedDataParallel):
    """A model under DDP that has the attributes and the names of the model itself."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def state_dict(self, *args: Any, **options: Any) -> Any:
        """Return the state of the model itself: the names are those of one process."""
        return self.module.state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Load the state of the model itself."""
        return self.module.load_state_dict(*args, **options)


def unwrapped(thing: Any) -> Any:
    """Return the model itself, without DDP or torch.compile around it."""
    while isinstance(thing, nn.Module):
        if isinstance(thing, (DistributedDataParallel, nn.DataParallel)):
            thing = thing.module
        elif "_orig_mod" in thing._modules:
            thing = thing._modules["_orig_mod"]
        else:
            break
    return thing


def _parameters(things: Iterable[Any]) -> dict[int, tuple[nn.Module, str]]:
    """Return model and name of every parameter by its id."""
    return {
        id(parameter): (thing, name)
        for thing in things
        if isinstance(thing, nn.Module)
        for name, parameter in thing.named_parameters()
    }


def _same_type(batch: Any, moved: dict[Any, Any]) -> Any:
    if callable(getattr(batch, "to", None)):  # such as a BatchEncoding, which moves itself
        first = next((v for v in moved.values() if isinstance(v, torch.Tensor)), None)
        return batch if first is None else batch.to(first.device)
    try:
        return type(batch)(moved)
    except TypeError:
        return moved


def _scaled(tensors: Any, gradients: Any, weight: float) -> Any:
    """Return the gradients from which `backward` starts, times `weight`."""
    roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    if gradients is None or isinstance(gradients, torch.Tensor):
        given = [gradients] * len(roots)
    else:
        given = list(gradients)
    return [
        torch.ones_like(root) * weight
        if gradient is None and root.numel() == 1
        else None
        if gradient is None
        else gradient * weight
        for root, gradient in zip(roots, given)
    ]


def _units(module: nn.Module) -> list[nn.Module]:
    """Return the modules whose parameters FSDP gathers together: large blocks, then `module`.

    Inner blocks come first. A block is a child of a Sequential or of a ModuleList, and shares no
    parameter with the rest of the model: FSDP cannot gather a tied weight in two units.
    """
    uses = _uses(module)
    blocks = [
        child
        for container in module.modules()
        if isinstance(container, (nn.Sequential, nn.ModuleList))
        for child in container.children()
        if not isinstance(child, nn.ModuleList)
        and sum(p.numel() for p in child.parameters()) >= _MIN_UNIT_PARAMETERS
        and all(count == uses[parameter] for parameter, count in _uses(child).items())
    ]
    return [*reversed(blocks), module]


def _uses(module: nn.Module) -> Counter[nn.Parameter]:
    """Return how many modules in `module` have each parameter as their own."""
    return Counter(p for child in module.modules() for p in child.parameters(recurse=False))
