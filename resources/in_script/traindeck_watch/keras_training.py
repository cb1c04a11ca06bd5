"""Keras, on any backend: `fit` by a callback, `train_on_batch`, and files that models write."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from traindeck_watch.objects import objects_of
from traindeck_watch.recorder import as_number
from traindeck_watch.rounds import Rounds
from traindeck_watch.throughput import fit_sizes
from traindeck_watch.watch import Watch

_RATE_SECONDS = 1.0
_VALIDATION = "val_"


def patch_keras(keras: ModuleType, watch: Watch) -> None:
    """After `import keras` (or tf_keras)."""
    watch.versions(keras=str(getattr(keras, "__version__", "")))
    model = keras.Model
    _patch_fit(keras, model, watch)
    _patch_train_on_batch(model, watch)
    for name in ("save", "save_weights"):
        _patch_save(model, name, watch)
    watch.savers.append(functools.partial(_save_models, model, watch))
    from traindeck_watch.tensorflow_loops import patch_optimizer

    patch_optimizer(keras, watch)


def _patch_fit(keras: ModuleType, model: Any, watch: Watch) -> None:
    original = model.fit
    signature = inspect.signature(original)
    callback_type: list[Any] = []

    def with_ours(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        bound = signature.bind(*args, **kwargs)
        if not callback_type:
            callback_type.append(_callback_type(keras.callbacks.Callback))
        given = bound.arguments.get("callbacks")
        ours = callback_type[0](watch, _batch_size(bound.arguments))
        if isinstance(given, keras.callbacks.CallbackList):
            ours.set_model(args[0])
            ours.set_params(given.params)
            given.append(ours)
        else:
            own = [] if given is None else given if isinstance(given, (list, tuple)) else [given]
            bound.arguments["callbacks"] = [ours, *own]  # it counts before others save
        return bound.args, bound.kwargs

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        if watch.is_quiet or watch.calls_are_used or watch.fit_depth:
            return original(*args, **kwargs)
        try:
            args, kwargs = with_ours(args, kwargs)
        except Exception as error:
            watch.notice(f"Keras' fit could not be watched: {error}")
            return original(*args, **kwargs)
        watch.fit_depth += 1
        watch.epoch_is_told = True
        try:
            return original(*args, **kwargs)
        finally:
            watch.fit_depth -= 1
            watch.graceful_stop = None

    model.fit = fit


def _batch_size(arguments: dict[str, Any]) -> int | None:
    given = arguments.get("batch_size")
    if given:
        return int(given)
    return 32 if getattr(arguments.get("x"), "shape", None) is not None else None


def _callback_type(base: Any) -> Any:
    class TraindeckWatch(base):  # type: ignore[misc]
        """Reports each batch. Keras may call `on_train_batch_end` in a thread, late; commands are
        carried out in the training's own thread, before the next batch."""

        async_safe = True

        def __init__(self, watch: Watch, batch_size: int | None) -> None:
            super().__init__()
            self._watch = watch
            self._batch_size = batch_size
            self._first = watch.step
            self._epoch_first = watch.step
            self._in_test = False
            self._last_batch = -1
            self._ended: dict[int, float] = {}
            """The step that was done last, and when."""

            self._begun = 0
            """Number of the batch that was begun last."""

            self._poll: Callable[[], None] = watch.guard(self._look, "Keras' learning rate")
            self._rate_due = 0.0
            self._has_begun = False
            self._size_of: Callable[[int], float] | None = None

        def on_train_begin(self, logs: Any = None) -> None:
            watch = self._watch
            watch.polls.append(self._poll)
            watch.graceful_stop = self._end_fit
            watch.start_thread()

        def on_train_end(self, logs: Any = None) -> None:
            if self._poll in self._watch.polls:
                self._watch.polls.remove(self._poll)

        def _end_fit(self) -> None:
            self.model.stop_training = True

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._watch.epoch = epoch + 1
            self._epoch_first = self._watch.step
            self._last_batch = -1
            self._watch.guard(self._find_sizes, "the sizes of Keras' batches")()

        def _find_sizes(self) -> None:
            self._size_of = fit_sizes() or self._size_of

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            watch = self._watch
            done = self._epoch_first + batch
            if self._last_batch < 0:  # Keras has made the iterator of the epoch
                watch.throughput.goes_on()
            self._begun = batch
            self._last_batch = max(self._last_batch, batch)
            if done > watch.step:
                self._advance(done)
                watch.boundary()

        def _advance(self, done: int, *, ends_epoch: bool = False) -> None:
            """Count the steps until `done`. A step lasts until the next one begins. After the last
            one of an epoch, Keras does other things: it is measured only if it is the only one."""
            watch = self._watch
            while watch.step < done:
                if self._size_of is not None:
                    watch.throughput.add(self._size_of(watch.step - self._epoch_first))
                if ends_epoch and self._begun:
                    watch.throughput.interrupted()
                watch.count_step(self._ended.get(done) if ends_epoch else None)
            if not self._has_begun:
                self._has_begun = True
                watch.guard(self._tell_plan, "Keras' plan")()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            watch = self._watch
            step = self._epoch_first + batch + 1
            self._last_batch = max(self._last_batch, batch)
            self._ended = {step: time.monotonic()}
            for name, value in (logs or {}).items():
                watch.record(f"train/{name}", value, step)

        def on_test_begin(self, logs: Any = None) -> None:
            self._advance(self._epoch_first + self._last_batch + 1, ends_epoch=True)
            if self._watch.trains:
                self._watch.doing("validation")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            watch = self._watch
            self._advance(self._epoch_first + self._last_batch + 1, ends_epoch=True)
            metrics: dict[str, float] = {}
            for name, value in (logs or {}).items():
                number = as_number(value)
                if number is None:
                    continue
                if name.startswith(_VALIDATION):
                    series = f"validation/{name[len(_VALIDATION) :]}"
                    watch.record(series, number)
                elif name == "learning_rate":
                    series = "train/learning_rate"
                    watch.record(series, number)
                else:
                    series = f"train/{name}"
                metrics[series] = number
            self._rate_due = 0.0
            self._poll()
            if not watch.is_silent:
                watch.recorder.put(
                    {"kind": "epoch", "epoch": epoch + 1, "step": watch.step, "metrics": metrics}
                )
            watch.boundary()

        def _tell_plan(self) -> None:
            watch = self._watch
            watch.batch_size = self._batch_size
            params = self.params or {}
            watch.plan(
                epochs=params.get("epochs"),
                steps_per_epoch=params.get("steps"),
                parameters=self.model.count_params(),
                replicas=watch.world(),
                batch_size=self._batch_size,
            )
            watch.guard(watch.outline, "the layers of the model")([self.model])

        def _look(self) -> None:
            """The learning rate, once a second, from our thread."""
            watch, now = self._watch, time.monotonic()
            optimizer = getattr(self.model, "optimizer", None)
            if now < self._rate_due or optimizer is None or not watch.trains:
                return
            self._rate_due = now + _RATE_SECONDS
            rate = as_number(optimizer.learning_rate)
            if rate is not None:
                watch.record("train/learning_rate", rate)

        def __reduce__(self) -> Any:
            # A copy of the list of callbacks, made by pickle, has a callback without effect.
            return base, ()

    return TraindeckWatch


def _patch_train_on_batch(model: Any, watch: Watch) -> None:
    original = model.train_on_batch
    rounds = Rounds()
    names: dict[int, str] = {}

    def note(self: Any, found: Any) -> None:
        names.setdefault(id(self), self.name)
        if rounds.enter(id(self)):
            watch.count_step()
        suffix = f"_{names[id(self)]}" if len(names) > 1 else ""
        if isinstance(found, dict):
            figures = list(found.items())
        elif isinstance(found, (list, tuple)):
            figures = list(zip(getattr(self, "metrics_names", ["loss"]), found))
        else:
            figures = [("loss", found)]
        for name, value in figures:
            watch.record(f"train/{name}{suffix}", value)

    quietly = watch.guard(note, "Keras' train_on_batch")

    @functools.wraps(original)
    def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.is_quiet or watch.fit_depth:
            return original(self, *args, **kwargs)
        watch.fit_depth += 1
        try:
            found = original(self, *args, **kwargs)
        finally:
            watch.fit_depth -= 1
        quietly(self, found)
        if rounds.is_complete:
            watch.boundary()
        return found

    model.train_on_batch = train_on_batch


def _patch_save(model: Any, name: str, watch: Watch) -> None:
    original = getattr(model, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def save(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, filepath, *args, **kwargs)
        if not getattr(watch.local, "saves", False):
            watch.wrote_file(filepath)
        return found

    setattr(model, name, save)


def trained_models(model_type: Any) -> list[Any]:
    """The outermost models that are compiled or whose weights an optimizer changes."""
    from traindeck_watch.tensorflow_loops import optimizers_seen

    models = objects_of(model_type)
    inner: set[int] = set()
    for model in models:
        inner.update(id(part) for part in model._flatten_layers(include_self=False))
        inner.add(id(getattr(model, "_functional", None)))  # what a Sequential makes of itself
    trained = {id(v) for optimizer in optimizers_seen() for v in optimizer._trainable_variables}
    return [
        model
        for model in models
        if id(model) not in inner
        and model.built
        and (
            getattr(model, "optimizer", None) is not None
            or any(id(v) in trained for v in model.trainable_variables)
        )
    ]


def _save_models(model_type: Any, watch: Watch, path: str) -> list[str]:
    """Write every outermost model that is compiled or whose weights an optimizer changes."""
    from traindeck_watch.tensorflow_loops import optimizers_seen

    chosen = trained_models(model_type)
    files: list[str] = []
    watch.local.saves = True
    try:
        for number, model in enumerate(chosen):
            base = path if len(chosen) == 1 else f"{path}.{number}-{model.name}"
            files.append(_save_model(model, base))
        for number, optimizer in enumerate(optimizers_seen()):
            files.append(_save_optimizer(optimizer, f"{path}.optimizer-{number}.npz"))
    finally:
        watch.local.saves = False
    return files


def _save_optimizer(optimizer: Any, final: str) -> str:
    """The state of an optimizer that no compiled model holds: arrays by the variables' names."""
    numpy = sys.modules["numpy"]
    state = {
        f"{number}:{variable.path}": variable.numpy()
        for number, variable in enumerate(optimizer.variables)
    }
    with open(f"{final}.part", "wb") as file:  # noqa: PTH123
        numpy.savez(file, **state)
    os.replace(f"{final}.part", final)  # noqa: PTH105
    return final


def _save_model(model: Any, base: str) -> str:
    """The whole model with its optimizer; of one that cannot be described, the weights."""
    part = f"{base}.part.keras"
    try:
        model.save(part)
        final = f"{base}.keras"
    except Exception:
        part = f"{base}.part.weights.h5"
        model.save_weights(part)
        final = f"{base}.weights.h5"
    os.replace(part, final)  # noqa: PTH105
    return final
