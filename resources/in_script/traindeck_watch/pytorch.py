"""What is captured of PyTorch: optimizer steps, losses, learning rates, loaders and saved files.

The hooks run in every step of the script, so they only note: a few microseconds, and no wait for a
device.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from types import FrameType, ModuleType
from typing import Any

from traindeck_watch.models.weights import leaves_of, models_of, save_weights
from traindeck_watch.names import name_of_object, planned_totals
from traindeck_watch.objects import objects_of
from traindeck_watch.recorder import Summed, as_number
from traindeck_watch.rounds import Rounds
from traindeck_watch.watch import Watch

_THREAD_READABLE = ("cuda", "xpu")
"""Devices whose tensors another thread can fetch."""

_SCALED_KEPT = 16
_MOST_LOSSES = 4096
_LOSSES_WITHOUT_STEP = 8
_LOSSES_OF_ONE_STEP = 256
"""More are hardly accumulated for one step."""

_STEPS_UNTIL_SURE = 4
_STEPS_UNTIL_NAMED = 2
"""Steps after which it is known how many optimizers there are."""

_WORDS = ("optimizers", "optimizer", "optim", "opt")

Tensor = Any
Optimizer = Any


class OptimizerFigures:
    """What is known of one optimizer, or of those that took its place."""

    def __init__(self, optimizer: Optimizer, name: str) -> None:
        self.reference = weakref.ref(optimizer)
        self.name = name
        self.loss_series = "train/loss"
        self.rate_series = "train/learning_rate"
        self.is_part = False
        """Whether it is one of many that step within one `backward`, one for each parameter."""


class TorchHooks:
    """Counts rounds of optimizer steps, and gives each optimizer the losses before its step.

    The loss of a step is the sum of what the script called `backward` of since the step before:
    that is what the step makes smaller. A script that accumulates gradients divides each part by
    their number, so the sum is the mean. What was thrown away by `zero_grad` before the step, such
    as the gradients of an attack on the inputs, is no part of it. Nor is a `backward` within
    another one, as checkpointed activations have it.
    """

    def __init__(self, torch: ModuleType, watch: Watch) -> None:
        self.torch = self._torch = torch
        self._watch = watch
        self._tensor = torch.Tensor
        self.losses: list[Tensor | float] = []
        """Those that no step has taken yet."""

        self._lost: list[frozenset[int]] = []
        """For each loss, the ids of the parameters whose gradient was thrown away since; empty as
        long as there are none."""

        self._losses_in_step: list[Tensor | float] = []
        self._scaled: list[tuple[Any, Tensor | float]] = []
        self._inside: list[Optimizer] = []
        self._figures: dict[int, OptimizerFigures] = {}
        self._rounds = Rounds()
        self._early: list[tuple[OptimizerFigures, int, Any, Any]] | None = []
        self._begun = 0
        self.steps_seen = 0
        self._streams: dict[int, Any] = {}
        self._losses_until_looked = _LOSSES_WITHOUT_STEP
        self.steps_by_hand = False
        """Whether the script changes its weights without an optimizer."""

        self._running: list[int] = []
        """The threads in which a `backward` of the script runs."""

        self._threads: list[int] = []
        """Those that have called `backward`, the last one at the end."""

        self._next_loss: Any = None
        """Of a script without an optimizer: what it calls `backward` of now."""

        self._copy_streams: dict[Any, Any] = {}
        self.capturing = threading.Lock()
        """Held while a CUDA graph is captured: another thread must not touch the device then."""

        self._is_compiling: Callable[[], bool] = getattr(
            getattr(torch, "compiler", None), "is_compiling", lambda: False
        )

    # losses

    def begin_backward(self, tensors: Any, gradients: Any) -> int | None:
        """The script calls `backward` of these, with these gradients or None.

        Returns the thread, for `end_backward`; None within another `backward`. Raises Stopped only
        if the script has no optimizer.
        """
        thread = threading.get_ident()
        if self._running and self._is_nested(thread):
            return None
        self._watch.throughput.computes_gradients()
        try:
            self._note_loss(tensors, gradients)
            if not self._threads or thread != self._threads[-1]:
                self._note_thread(thread)
        except Exception as error:
            self._watch.tell_error(error, "the loss")
        self._running.append(thread)
        return thread

    def is_training_thread(self) -> bool:
        """Whether the thread that calls this called `backward` last."""
        return self._threads[-1:] == [threading.get_ident()]

    def end_backward(self, thread: int | None) -> None:
        """A `backward` has ended or raised."""
        if thread is not None:
            self._running.remove(thread)

    def _is_nested(self, thread: int) -> bool:
        """Whether a `backward` of this thread is part of another one: it runs in the same thread,
        or in one that is PyTorch's."""
        if thread in self._running:
            return True
        known = threading._active.get(thread)  # type: ignore[attr-defined]
        return known is None or type(known) is threading._DummyThread

    def _note_thread(self, thread: int) -> None:
        if thread in self._threads and not self._watch.is_silent:
            self._watch.notice(
                "Several threads of the script train in turn: their losses are in the same curves, "
                "and those of a step may be of another thread."
            )
            self._threads.remove(thread)
        self._threads.append(thread)

    def _note_loss(self, tensors: Any, gradients: Any = None) -> None:
        watch = self._watch
        if self.steps_by_hand and watch.trains:
            self._next_loss = tensors
            try:
                watch.boundary()
            finally:
                self._next_loss = None
        if watch.is_silent or watch.fit_depth or watch.local.nested:
            return
        if not isinstance(tensors, self._tensor):
            if isinstance(tensors, (tuple, list)):
                given = gradients if isinstance(gradients, (tuple, list)) else [None] * len(tensors)
                for tensor, gradient in zip(tensors, given):
                    self._note_loss(tensor, gradient)
            return
        if isinstance(gradients, self._tensor):
            kept = self._weighted(tensors, gradients)
        else:
            kept = self._kept(tensors) if self._scaled else self.copy_of(tensors)
        if kept is None:
            return
        if self.losses and not self._inside:
            self._look_for_thrown_away()
        if self._inside:
            if not self._losses_in_step:  # the first evaluation of a closure
                self._losses_in_step.append(kept)
        elif len(self.losses) < _MOST_LOSSES:
            self.losses.append(kept)
            if self._lost:
                self._lost.append(frozenset())
            if self.steps_by_hand:
                self._count_by_hand()

    def _weighted(self, loss: Tensor, gradient: Tensor) -> Tensor | float | None:
        """What `loss.backward(gradient)` makes smaller: the sum of both multiplied.

        Only of one value, or one for each sample: others are activations, whose loss came before.
        """
        if loss.numel() > 1 and loss.numel() != loss.shape[0]:
            self._watch.notice(
                "The script calls backward of a tensor that has several values for each sample, "
                "with gradients of its own: this is no loss, and has no curve."
            )
            return None
        for reference, unscaled in self._scaled:
            if reference() is loss:
                return unscaled
        with self._torch.no_grad():
            return self.copy_of((loss.detach() * gradient.detach()).sum())

    def _look_for_thrown_away(self) -> None:
        """Losses wait, and another one comes: has the script set the gradients to None itself?"""
        for figures in self._figures.values():
            optimizer = figures.reference()
            if optimizer is None:
                continue
            groups = optimizer.param_groups
            if all(each.grad is None for group in groups for each in group["params"]):
                self.note_zeroed(functools.partial(_parameters_of, optimizer))

    def _count_by_hand(self) -> None:
        """The script has no optimizer: each `backward` belongs to a step, and the steps before it
        are done."""
        losses = self.losses
        self.losses, self._lost = [], []
        for loss in losses:
            self._watch.count_step()
            self._watch.record("train/loss", loss)

    def look_for_steps(self) -> str:
        """Losses come, and no step: return why, if each loss has to count as one."""
        if self._begun or self.steps_by_hand or len(self.losses) < self._losses_until_looked:
            return ""
        self._losses_until_looked = 2 * len(self.losses)  # the look takes tens of milliseconds
        kind = self._torch.optim.Optimizer
        found = objects_of(kind)
        if not found:
            return "The script has no optimizer of PyTorch: each backward counts as a step."
        if any(optimizer.state for optimizer in found) or len(self.losses) > _LOSSES_OF_ONE_STEP:
            return "The steps of a compiled optimizer are not seen: each backward counts as one."
        return ""

    def count_waiting(self) -> None:
        """At the end: losses of a short run without an optimizer are steps, too."""
        waiting = len(self.losses) > 1 and not self._begun and not self.steps_by_hand
        if waiting and not objects_of(self._torch.optim.Optimizer):
            self._count_by_hand()

    def _kept(self, loss: Tensor) -> Tensor | float | None:
        """A copy on the same device; of what a GradScaler has scaled, of the unscaled loss."""
        for reference, unscaled in self._scaled:
            if reference() is loss:
                return unscaled
        return self.copy_of(loss)

    def copy_of(self, value: Tensor) -> Tensor | float | None:
        """A copy that stays when the script changes the tensor, or a graph writes into it again.

        The number itself where no device has to be waited for: less work than a copy.
        """
        if type(value) is not self._tensor:
            local = getattr(
                value, "_local_tensor", None
            )  # a DTensor: a loss is the same everywhere
            if type(local) is not self._tensor:
                if not isinstance(value, self._torch.nn.Parameter):
                    return None
                local = value.data
            value = local
        if value.numel() != 1:
            return None
        if value.is_cpu:
            number = value.item()
            return number if type(number) is float else as_number(number)
        if value.is_complex() or value.device.type not in _THREAD_READABLE:
            return None
        if value.device.type == "cuda":
            stream = self._torch.cuda.current_stream(value.device)
            if self._torch.cuda.is_current_stream_capturing():
                return None  # what a graph writes belongs to the graph
            self._streams[stream.cuda_stream] = stream
        return value.detach().clone()

    def note_scaled(self, loss: Any, scaled: Any) -> None:
        """A GradScaler made `scaled` of `loss`."""
        if self._watch.is_quiet or not isinstance(loss, self._tensor):
            return
        kept = self.copy_of(loss)
        if kept is not None and scaled is not loss:
            self._scaled.append((weakref.ref(scaled), kept))
            del self._scaled[:-_SCALED_KEPT]

    # steps

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Torch's global hook before each `optimizer.step`."""
        if self._is_compiling():
            return
        if self._inside:
            # Steps that raised have left this behind, unless they go on above.
            del self._inside[_steps_above(sys._getframe(1)) :]
        self._inside.append(optimizer)

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Torch's global hook after each `optimizer.step`. Raises Stopped."""
        if self._is_compiling():
            return
        try:
            inside = self._inside
            if len(inside) == 1 and inside[0] is optimizer:
                inside.pop()
            elif self._is_inner(sys._getframe(1)):
                return
            if self._watch.fit_depth:
                self.forget_losses()
            else:
                self._count(optimizer)
        except Exception as error:
            if error is self._watch.of_script:
                raise
            self._watch.notice(f"A step could not be watched: {type(error).__name__}: {error}")

    def _is_inner(self, frame: FrameType) -> bool:
        """Whether this step is part of another one: an optimizer that wraps or extends another."""
        above = _steps_above(frame)
        del self._inside[above:]
        return above > 0

    def note_zeroed(self, parameters: Callable[[], Iterable[Tensor]]) -> None:
        """The script throws away the gradients of these; a look only where losses wait."""
        if self.losses and not self._inside and not self._watch.is_quiet:
            lost = frozenset([id(parameter) for parameter in parameters()])
            before = self._lost or [frozenset[int]()] * len(self.losses)
            self._lost = [each | lost for each in before]

    def _taken_by(self, optimizer: Optimizer) -> list[Tensor | float]:
        """Return the losses that this optimizer makes smaller now; keep those of others."""
        losses, lost = self.losses, self._lost
        self.losses, self._lost = [], []
        if not lost:
            return losses
        own = _ids_of(optimizer)
        others = [_ids_of(other) for _, other in self.optimizers() if other is not optimizer]
        for loss, gone in zip(losses, lost):
            if own <= gone and any(not ids <= gone for ids in others):
                self.losses.append(loss)
                self._lost.append(gone)
        return [loss for loss, gone in zip(losses, lost) if not own <= gone]

    def forget_losses(self) -> None:
        """The losses since the last step belong to none."""
        self.losses, self._lost, self._losses_in_step = [], [], []

    def _count(self, optimizer: Optimizer) -> None:
        watch = self._watch
        key = id(optimizer)
        self.steps_seen += 1
        self.steps_by_hand = False
        figures = self._figures.get(key)
        if figures is None or figures.reference() is not optimizer:
            figures = self._introduce(optimizer, sys._getframe(2))
        rounds = self._rounds
        begins = rounds.enter(key)
        if begins:
            self._begun += 1
            watch.count_step()
        loss = self._loss_of_step(optimizer)
        if not watch.is_silent:
            rate = optimizer.param_groups[0].get("lr") if optimizer.param_groups else None
            if type(rate) is not float and isinstance(rate, self._tensor):
                rate = self.copy_of(rate)
            if figures.is_part and not begins:
                rate = None
            if self._early is None:
                watch.record_step(
                    figures.loss_series, loss, figures.rate_series, rate, watch.present_step
                )
            else:
                self._early.append((figures, watch.present_step, loss, rate))
                if self._begun > _STEPS_UNTIL_NAMED:
                    self.release_early()
        if rounds.is_complete:
            watch.boundary()

    def _loss_of_step(self, optimizer: Optimizer) -> Any:
        losses = self.losses
        if len(losses) == 1 and not self._lost and not self._losses_in_step:
            return losses.pop()
        losses = self._taken_by(optimizer) + self._losses_in_step
        self._losses_in_step = []
        if not losses:
            return None
        return losses[0] if len(losses) == 1 else Summed(losses)

    def _introduce(self, optimizer: Optimizer, frame: FrameType) -> OptimizerFigures:
        """Know a new optimizer; one that replaces another, or a dead one's id, goes on with it."""
        heir = None
        parameters = _ids_of(optimizer)
        for key, known in list(self._figures.items()):
            other = known.reference()
            if other is None or any(
                id(p) in parameters for group in other.param_groups for p in group["params"]
            ):
                heir = self._figures.pop(key)
                self._rounds.leave(key)
                break
        if heir is None:
            heir = OptimizerFigures(optimizer, "")
            heir.is_part = bool(self._running)
            others = [known for known in self._figures.values() if not known.is_part]
            if others and not heir.is_part:
                self._name(heir, optimizer, frame)
                for other_figures in others:
                    first = other_figures.reference()
                    if self._early is not None and first is not None and not other_figures.name:
                        self._name(other_figures, first, frame)
        if not self._figures and not self._watch.epoch_is_told:
            self._watch.plan(**planned_totals(frame))
        heir.reference = weakref.ref(optimizer)
        self._figures[id(optimizer)] = heir
        return heir

    def _name(self, figures: OptimizerFigures, optimizer: Optimizer, frame: FrameType) -> None:
        taken = {known.name for known in self._figures.values() if known is not figures}
        name = name_of_object(optimizer, frame, _WORDS)
        base = name = name or type(optimizer).__name__
        number = 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        figures.name = name
        figures.loss_series = f"train/loss_{name}"
        figures.rate_series = f"train/learning_rate_{name}"

    def release_early(self) -> None:
        """Record what waited until the optimizers had their names."""
        early, self._early = self._early, None
        for figures, step, loss, rate in early or []:
            if loss is not None:
                self._watch.record(figures.loss_series, loss, step)
            if rate is not None:
                self._watch.record(figures.rate_series, rate, step)

    def optimizers(self) -> list[tuple[str, Optimizer]]:
        """Those that have made steps and still live, with their names."""
        living = [(known.name, known.reference()) for known in self._figures.values()]
        return [(name, optimizer) for name, optimizer in living if optimizer is not None]

    def save(self, path: str) -> list[str]:
        """Write what trains as `<path>.pt`; return the files."""
        by_hand = leaves_of(self._torch, self._next_loss) if self.steps_by_hand else []
        return save_weights(self._torch, self._watch, self.optimizers(), path, by_hand=by_hand)

    # the thread

    def fetch(self, values: list[Any]) -> list[float | None]:
        """Fetch tensors in bulk: one stack and one copy for each kind. Called by the thread."""
        torch = self._torch
        numbers: list[float | None] = [None] * len(values)
        alike: dict[tuple[Any, Any], list[int]] = {}
        for place, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                alike.setdefault((value.device, value.dtype), []).append(place)
            else:
                numbers[place] = as_number(value)
        for (device, dtype), places in alike.items():
            tensors = [values[place].reshape(()) for place in places]
            with torch.no_grad(), self.capturing:
                if device.type == "cuda":
                    found = self._fetch_from_gpu(device, tensors)
                else:
                    found = torch.stack(tensors).to(
                        torch.float64 if device.type == "cpu" else dtype
                    )
                    found = found.tolist()
            for place, number in zip(places, found):
                numbers[place] = float(number)
        return numbers

    def _fetch_from_gpu(self, device: Any, tensors: list[Tensor]) -> list[float]:
        """On a stream of our own, behind the streams on which the values are computed.

        It is kept: PyTorch gives its streams in turn, also the script's, and memory to each.
        """
        cuda = self._torch.cuda
        with cuda.device(device):
            stream = self._copy_streams.get(device) or cuda.Stream(device)
            self._copy_streams[device] = stream
            for other in list(self._streams.values()):
                if other.device == device:
                    stream.wait_stream(other)
            with cuda.stream(stream):
                copied = self._torch.stack(tensors).to("cpu")
            stream.synchronize()
        return copied.tolist()  # type: ignore[no-any-return]


def _steps_above(frame: FrameType) -> int:
    """How many steps of optimizers this one is part of; `frame` is its own, in PyTorch's wrapper,
    which is the same code for all of them."""
    count, above = 0, frame.f_back
    while above is not None:
        count += above.f_code is frame.f_code
        above = above.f_back
    return count


def _parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _ids_of(optimizer: Optimizer) -> set[int]:
    return {id(parameter) for parameter in _parameters_of(optimizer)}


def _skip_in_dynamo(wrapper: Any, noting: list[Any]) -> None:
    """Tell torch.compile not to compile our functions, without importing its compiler."""
    dynamo: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    if hasattr(dynamo, "set_code_exec_strategy") and hasattr(dynamo, "_FrameAction"):
        skip, usual = dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT
        dynamo.set_code_exec_strategy(wrapper.__code__, dynamo._FrameExecStrategy(skip, usual))
        for function in noting:
            dynamo.set_code_exec_strategy(function.__code__, dynamo._FrameExecStrategy(skip, skip))
    elif hasattr(dynamo, "skip_code"):
        for function in (wrapper, *noting):
            dynamo.skip_code(function.__code__)


def patch_torch(torch: ModuleType, watch: Watch) -> None:
    """After `import torch`."""
    watch.versions(torch=str(torch.__version__))
    hooks = TorchHooks(torch, watch)
    vars(torch)["_traindeck_hooks"] = hooks
    watch.recorder.fetch = hooks.fetch
    watch.savers.append(hooks.save)
    watch.finishers.append(hooks.release_early)
    watch.finishers.append(watch.guard(hooks.count_waiting, "the losses"))
    watch.polls.append(watch.guard(_Polls(watch, hooks).look, "the loaders of the script"))
    watch.memory = functools.partial(_memory, torch)
    watch.emptiers.append(functools.partial(_empty_cache, torch))
    watch.ranks = functools.partial(_ranks, torch)

    original = torch.autograd.backward
    begin, end = hooks.begin_backward, hooks.end_backward

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        thread = begin(tensors, args[0] if args else kwargs.get("grad_tensors"))
        try:
            original(tensors, *args, **kwargs)
        finally:
            end(thread)

    torch.autograd.backward = backward
    watch.guard(_skip_in_dynamo, "torch.compile")(
        backward, [begin, end, hooks._note_loss, hooks.copy_of, hooks._kept, hooks._weighted]
    )

    optimizer = sys.modules.get("torch.optim.optimizer")
    before = getattr(optimizer, "register_optimizer_step_pre_hook", None)
    after = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if before is None or after is None:
        watch.notice(
            f"PyTorch {torch.__version__} is too old to be watched step by step: "
            "it needs version 2.0 or newer."
        )
    else:
        before(hooks.before_step)
        after(hooks.after_step)
    _patch_zero_grad(torch, watch, hooks)
    _patch_save(torch, watch, hooks)
    patch_modes(torch.nn.Module, watch)


def _patch_zero_grad(torch: Any, watch: Watch, hooks: TorchHooks) -> None:
    """Losses whose gradients are thrown away belong to no step."""
    note = watch.guard(hooks.note_zeroed, "zero_grad")
    of_optimizer, of_module = torch.optim.Optimizer.zero_grad, torch.nn.Module.zero_grad

    @functools.wraps(of_optimizer)
    def optimizer_zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
        if hooks.losses:
            note(lambda: _parameters_of(self))
        of_optimizer(self, *args, **kwargs)

    @functools.wraps(of_module)
    def module_zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
        if hooks.losses:
            note(self.parameters)
        of_module(self, *args, **kwargs)

    torch.optim.Optimizer.zero_grad = optimizer_zero_grad
    torch.nn.Module.zero_grad = module_zero_grad
    watch.guard(_skip_in_dynamo, "torch.compile")(
        module_zero_grad, [note, hooks.note_zeroed, optimizer_zero_grad]
    )


def patch_modes(module: Any, watch: Watch) -> None:
    """The time from `eval()` to `train()` of a model is that of a validation."""
    of_eval, of_train, throughput = module.eval, module.train, watch.throughput

    @functools.wraps(of_eval)
    def evaluate(self: Any) -> Any:
        found = of_eval(self)
        throughput.evaluates(self)
        return found

    @functools.wraps(of_train)
    def train(self: Any, mode: bool = True) -> Any:
        if mode:  # also of each part of the model
            throughput.trains(self)
        return of_train(self, mode)

    module.eval, module.train = evaluate, train
    watch.guard(_skip_in_dynamo, "torch.compile")(train, [throughput.trains, evaluate])


def _patch_save(torch: Any, watch: Watch, hooks: TorchHooks) -> None:
    original = torch.save

    @functools.wraps(original)
    def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> Any:
        since = time.monotonic()
        found = original(obj, f, *args, **kwargs)
        watch.wrote_file(f)
        if hooks.is_training_thread():
            watch.throughput.saved(since)
        return found

    save._traindeck_original = original  # type: ignore[attr-defined]
    torch.save = save
    torch.serialization.save = save  # it is pickled by this name


def patch_safetensors(module: ModuleType, watch: Watch) -> None:
    """After `import safetensors.torch`."""
    for name in ("save_file", "save_model"):
        original = getattr(module, name, None)
        if original is None:
            continue

        def save(
            first: Any, filename: Any, *args: Any, _original: Any = original, **kwargs: Any
        ) -> Any:
            found = _original(first, filename, *args, **kwargs)
            watch.wrote_file(filename)
            return found

        setattr(module, name, functools.wraps(original)(save))


def patch_grad_scaler(module: ModuleType, watch: Watch) -> None:
    """After the module of GradScaler was imported: the loss is that before it was scaled."""
    scaler = module.GradScaler
    original = vars(scaler).get("scale")
    torch = sys.modules.get("torch")
    if original is None or torch is None or hasattr(original, "_traindeck"):
        return

    @functools.wraps(original)
    def scale(self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        hooks = vars(torch).get("_traindeck_hooks")
        if hooks is not None:
            hooks.note_scaled(outputs, scaled)
        return scaled

    step_original = scaler.step

    @functools.wraps(step_original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        hooks = vars(torch).get("_traindeck_hooks")
        before = hooks.steps_seen if hooks is not None else 0
        found = step_original(self, optimizer, *args, **kwargs)
        if hooks is not None and hooks.steps_seen == before:
            hooks.forget_losses()  # the scaler skipped the step: no step is made of them
        return found

    scale._traindeck = True  # type: ignore[attr-defined]
    scaler.scale, scaler.step = scale, step


def patch_graphs(module: ModuleType, watch: Watch) -> None:
    """While a CUDA graph is captured, our thread must not touch the device."""
    graph = module.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    torch = sys.modules["torch"]

    def capturing() -> Any:
        return vars(torch)["_traindeck_hooks"].capturing

    @functools.wraps(begin)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        lock = capturing()
        lock.acquire()
        try:
            return begin(self, *args, **kwargs)
        except BaseException:
            lock.release()
            raise

    @functools.wraps(end)
    def capture_end(self: Any) -> Any:
        try:
            return end(self)
        finally:
            if capturing().locked():
                capturing().release()

    graph.capture_begin, graph.capture_end = capture_begin, capture_end


# loaders


class Pass:
    """One iteration of a loader. It is an epoch once a step follows a batch of it."""

    def __init__(self, loader: Any, iterator: Any, length: int | None, evaluates: bool) -> None:
        """`length`: the samples of this rank; None: they are not known. `evaluates`: the model does
        not train now, so that only a second step shows that it is trained in this mode."""
        self.loader, self.iterator = weakref.ref(loader), weakref.ref(iterator)
        self.batch_size: int | None = loader.batch_size or getattr(
            loader.batch_sampler, "batch_size", None
        )
        self.steps_until_sure = 2 if evaluates else 1
        self.batches = self.samples = 0
        self._left = length

    def took(self, batch: Any) -> int:
        """The script gets a batch; return its samples. The last one may have fewer."""
        self.batches += 1
        size = self.batch_size or 0
        if self._left is None or not size:
            size = _rows(batch) or size
        else:
            size = min(size, self._left)
            self._left -= size
        self.samples += size
        return size


class Loading:
    """The loader that feeds the training now."""

    def __init__(self) -> None:
        self.loader: Any = lambda: None
        self.present: Pass | None = None
        """The pass whose batches train."""

        self.begun: Pass | None = None
        """A pass that has begun since, which may be a validation."""

        self.newest: Any = None
        """The pass that gave a batch last."""

        self.epochs = 0
        self.batch_size: int | None = None
        self.first_step = 0
        """The step before the first one with this loader."""

        self.batches = 0
        """Batches that this loader has given for training."""

        self.samples = 0
        """Samples of this rank that all loaders have given for training."""

        self.trained = 0
        """Those of them that the steps that are done have had: the next batch may be there."""

        self.shortest: int | None = None
        """Batches of an epoch that the script has ended before the loader did."""

    def took(self, iterator: Any, batch: Any) -> None:
        """The script gets a batch of an iteration."""
        for each in (self.begun, self.present):  # workers that persist have one iterator for all
            if each is not None and each.iterator() is iterator:
                self.newest = each
                size = each.took(batch)
                if each is self.present:
                    self.batches += 1
                    self.samples += size
                return

    def stepped(self, step: int) -> bool:
        """A step is done, `step` before it: return whether it shows that an epoch has begun."""
        begun = self.begun
        if begun is None or self.newest is not begun:
            return False
        begun.steps_until_sure -= 1
        if begun.steps_until_sure > 0:
            return False
        loader, before = begun.loader(), self.present
        if loader is not None and self.loader() is not loader:
            self.loader = begun.loader
            self.first_step, self.batches, self.shortest = step, 0, None
        elif before is not None:
            self.shortest = before.batches
        self.present, self.begun = begun, None
        self.epochs += 1
        self.batch_size = begun.batch_size
        self.batches += begun.batches
        self.samples += begun.samples
        return True


def patch_data_loader(module: ModuleType, watch: Watch) -> None:
    """After the module of DataLoader was imported: epochs, batch size, samples and validation."""
    loader = module.DataLoader
    original = loader.__iter__
    torch = sys.modules["torch"]
    loading = watch.loading = Loading()

    def note(self: Any, iterator: Any) -> None:
        if watch.is_silent or watch.fit_depth or watch.calls_are_used:
            return
        if not torch.is_grad_enabled():
            if watch.trains:
                watch.doing("validation")
            return
        evaluates = watch.throughput.is_evaluating
        loading.begun = Pass(self, iterator, _samples_per_epoch(self, torch), evaluates)
        if not evaluates:
            watch.throughput.goes_on()
        elif watch.trains:
            watch.doing("validation")

    quietly = watch.guard(note, "a DataLoader")

    @functools.wraps(original)
    def iterate(self: Any) -> Any:
        iterator = original(self)
        quietly(self, iterator)
        return iterator

    loader.__iter__ = iterate
    base = module._BaseDataLoaderIter
    next_original = base.__next__
    took = watch.guard(loading.took, "the batches of a DataLoader")

    @functools.wraps(next_original)
    def next_batch(self: Any) -> Any:
        batch = next_original(self)
        took(self, batch)
        return batch

    base.__next__ = next_batch


def _samples_per_epoch(loader: Any, torch: ModuleType) -> int | None:
    """The samples that an epoch of a loader has on this rank; None: a stream does not tell."""
    if isinstance(loader.dataset, torch.utils.data.IterableDataset):
        return None
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    try:
        return len(sampler)
    except TypeError:
        return None


def _rows(batch: Any) -> int | None:
    """The first dimension of the first tensor of a batch."""
    for _ in range(4):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else None
        parts = list(batch.values()) if isinstance(batch, dict) else batch
        if not isinstance(parts, (list, tuple)) or not parts:
            return None
        batch = parts[0]
    return None


class _Polls:
    """What the thread looks at now and then, so that no step has to."""

    def __init__(self, watch: Watch, hooks: TorchHooks) -> None:
        self._watch = watch
        self._hooks = hooks
        self._counted = 0

    def look(self) -> None:
        """Called before each flush."""
        watch = self._watch
        reason = self._hooks.look_for_steps()
        if reason:
            self._hooks.steps_by_hand = True
            watch.notice(reason)
        if not watch.trains or watch.fit_depth or watch.calls_are_used:
            return
        optimizers = self._hooks.optimizers()
        if len(optimizers) > self._counted:
            self._counted = len(optimizers)
            unique = {
                id(p): p.numel()
                for _, optimizer in optimizers
                for group in optimizer.param_groups
                for p in group["params"]
            }
            watch.plan(parameters=sum(unique.values()), replicas=watch.world())
            watch.guard(self._outline, "the layers of the model")(optimizers)
        self._look_at_loader()

    def _outline(self, optimizers: list[tuple[str, Optimizer]]) -> None:
        self._watch.outline(models_of(self._hooks.torch, optimizers))

    def _look_at_loader(self) -> None:
        watch, loading = self._watch, self._watch.loading
        if loading is None:
            return
        loader = loading.loader()
        steps = watch.step - loading.first_step
        if loader is None or steps < _STEPS_UNTIL_SURE or not loading.batches:
            return
        per_step = max(1, round(loading.batches / steps))  # more than 1: gradients are accumulated
        if watch.batch_is_told:
            return
        watch.throughput.counted = lambda: loading.trained * watch.world()
        if loading.batch_size:
            watch.batch_size = loading.batch_size * per_step * watch.world()
        try:
            batches = len(loader)
        except TypeError:
            batches = 0  # a stream
        if loading.shortest:
            batches = min(batches, loading.shortest) or loading.shortest
        is_known = batches and not watch.epoch_is_told
        watch.plan(
            batch_size=watch.batch_size,
            steps_per_epoch=-(-batches // per_step) if is_known else None,
        )


def _memory(torch: ModuleType) -> dict[str, float]:
    """Bytes on the GPUs of this process; nothing without one."""
    if not torch.cuda.is_initialized():
        return {}
    gpus = range(torch.cuda.device_count())
    return {
        "allocated": float(sum(map(torch.cuda.memory_allocated, gpus))),
        "reserved": float(sum(map(torch.cuda.memory_reserved, gpus))),
    }


def _empty_cache(torch: ModuleType) -> tuple[str, int]:
    if not torch.cuda.is_initialized():
        return "cpu", 0
    before = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    return f"cuda:{torch.cuda.current_device()}", max(0, before - torch.cuda.memory_reserved())


def _ranks(torch: ModuleType) -> tuple[int, int] | None:
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()
