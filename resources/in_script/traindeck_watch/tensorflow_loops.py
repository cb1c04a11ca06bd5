"""Loops of one's own on TensorFlow: `optimizer.apply_gradients`, also inside of tf.function."""

from __future__ import annotations

import functools
import sys
import weakref
from types import ModuleType
from typing import Any

from traindeck_watch.names import name_of_object, planned_totals
from traindeck_watch.recorder import Summed
from traindeck_watch.rounds import Rounds
from traindeck_watch.watch import Watch

_WORDS = ("optimizers", "optimizer", "optim", "opt")
_MOST_LOSSES = 64

_optimizers: list[Any] = []
"""Weak references to the optimizers that were used."""


def optimizers_seen() -> list[Any]:
    """The optimizers that were used in loops, and still live."""
    return [found for reference in _optimizers if (found := reference()) is not None]


class TensorFlowLoop:
    """Counts steps: eager `apply`s, or calls of a tf.function in which `apply` was traced."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._rounds = Rounds()
        self._losses: list[Any] = []
        self._running: list[Any] = []
        self._training_functions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Functions in which an optimizer was traced, and the identity of the first of them."""

        self._names: dict[int, str] = {}
        self._planned = False

    def note_loss(self, target: Any) -> None:
        """`GradientTape.gradient` was asked for the gradient of this."""
        if hasattr(target, "numpy") and getattr(target, "shape", None) is not None:
            if target.shape.rank == 0 and len(self._losses) < _MOST_LOSSES:
                self._losses.append(target)
        elif isinstance(target, (list, tuple)):
            for part in target:
                self.note_loss(part)

    def applied(self, optimizer: Any) -> bool:
        """An optimizer has changed weights, or is traced. Returns whether a step ended."""
        if all(reference() is not optimizer for reference in _optimizers):
            _optimizers.append(weakref.ref(optimizer))
        frame = sys._getframe(2)
        if not self._planned:
            self._planned = True
            self._watch.plan(**planned_totals(frame))
        if self._running or _is_building_graph():
            for function in self._running:
                self._training_functions.setdefault(function, id(optimizer))
            return False
        key = id(optimizer)
        if key not in self._names:
            self._names[key] = name_of_object(optimizer, frame, _WORDS) or optimizer.name
        if self._rounds.enter(key):
            self._watch.count_step()
        suffix = f"_{self._names[key]}" if len(self._names) > 1 else ""
        losses, self._losses = self._losses, []
        if losses:
            value = losses[0] if len(losses) == 1 else Summed(losses)
            self._watch.record(f"train/loss{suffix}", value)
        rate = optimizer.learning_rate
        self._watch.record(f"train/learning_rate{suffix}", _Rate(rate))
        return self._rounds.is_complete

    def begin_call(self, function: Any) -> None:
        """A tf.function is called."""
        self._running.append(function)

    def end_call(self, function: Any, result: Any) -> bool:
        """It returned. Returns whether that was a step: the outermost one that trains."""
        if self._running:
            self._running.pop()
        if self._running or function not in self._training_functions:
            return False
        watch = self._watch
        if self._rounds.enter(self._training_functions[function]):
            watch.count_step()
        self._losses.clear()
        for name, value in _scalars(result):
            watch.record(f"train/{name}", value)
        optimizers = optimizers_seen()
        if len(optimizers) == 1:
            watch.record("train/learning_rate", _Rate(optimizers[0].learning_rate))
        return self._rounds.is_complete


class _Rate:
    """A learning rate, read in the thread: to read a variable at once may wait for a device."""

    def __init__(self, rate: Any) -> None:
        self._rate = rate

    def __float__(self) -> float:
        return float(self._rate)


def _scalars(result: Any) -> list[tuple[str, Any]]:
    """The scalars that a training function returned, by name."""
    if isinstance(result, dict):
        return [(str(name), value) for name, value in result.items() if _is_scalar(value)]
    if isinstance(result, (list, tuple)):
        found = [value for value in result if _is_scalar(value)]
        names = getattr(result, "_fields", None)
        if names is not None:
            pairs = zip(names, result)
            return [(name, value) for name, value in pairs if _is_scalar(value)]
        if len(found) == 1:
            return [("loss", found[0])]
        return [(f"loss_{number}", value) for number, value in enumerate(found)]
    return [("loss", result)] if _is_scalar(result) else []


def _is_scalar(value: Any) -> bool:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not hasattr(value, "numpy") or shape is None:
        return False
    return getattr(shape, "rank", len(shape)) == 0 and bool(getattr(dtype, "is_floating", False))


def _is_building_graph() -> bool:
    tensorflow = sys.modules.get("tensorflow")
    inside = getattr(tensorflow, "inside_function", None)
    return bool(inside()) if inside is not None else False


_loops: list[TensorFlowLoop] = []


def _loop(watch: Watch) -> TensorFlowLoop:
    if not _loops:
        _loops.append(TensorFlowLoop(watch))
    return _loops[0]


def patch_optimizer(keras: ModuleType, watch: Watch) -> None:
    """Keras' optimizers, in loops that do not use `fit`."""
    own = keras.optimizers.Optimizer
    name = "apply" if hasattr(own, "apply") else "apply_gradients"
    owner = next((c for c in own.__mro__ if name in vars(c)), None)
    if owner is None:
        watch.notice("The optimizers of this version of Keras could not be watched.")
        return
    original = vars(owner)[name]
    applied = watch.guard(_loop(watch).applied, "Keras' optimizer")

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        if not watch.fit_depth and not watch.is_quiet and applied(self):
            watch.boundary()
        return found

    setattr(owner, name, apply)
    look = functools.partial(_look_for_models, keras.Model, watch)
    watch.polls.append(watch.guard(look, "the layers of the model"))


def _look_for_models(model_type: Any, watch: Watch) -> None:
    """Tell the models of a loop once it has an optimizer; called by the thread."""
    from traindeck_watch.keras_training import trained_models

    number = len(_optimizers)
    if number == watch.optimizers_outlined or not watch.trains or watch.fit_depth:
        return
    watch.optimizers_outlined = number
    watch.outline(trained_models(model_type))


def patch_tensorflow(tensorflow: ModuleType, watch: Watch) -> None:
    """After `import tensorflow`."""
    watch.versions(tensorflow=str(getattr(tensorflow, "__version__", "")))
    tape = tensorflow.GradientTape
    original = tape.gradient
    note = watch.guard(_loop(watch).note_loss, "the loss")

    @functools.wraps(original)
    def gradient(self: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if not watch.fit_depth and not watch.is_quiet:
            note(target)
        return original(self, target, *args, **kwargs)

    tape.gradient = gradient
    manager = tensorflow.train.CheckpointManager
    save_original = manager.save

    @functools.wraps(save_original)
    def save(self: Any, *args: Any, **kwargs: Any) -> Any:
        path = save_original(self, *args, **kwargs)
        if path:
            watch.wrote_file(f"{path}.index")
        return path

    manager.save = save


def patch_function(module: ModuleType, watch: Watch) -> None:
    """After the module of tf.function: each call of a function that trains is a step."""
    function = module.Function
    original = function.__call__
    loop = _loop(watch)
    begin = watch.guard(loop.begin_call, "tf.function")
    end = watch.guard(loop.end_call, "tf.function")

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.fit_depth or watch.is_quiet:
            return original(self, *args, **kwargs)
        begin(self)
        result = None
        try:
            result = original(self, *args, **kwargs)
        finally:
            stepped = end(self, result)
        if stepped:
            watch.boundary()
        return result

    function.__call__ = call
