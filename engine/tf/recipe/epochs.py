"""What happens at the ends of epochs: `on_epoch()` of the recipe, and its Keras callbacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import keras
import numpy as np
import numpy.typing as npt

from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.run_spec import RunSpec
from engine.tf.optimizer_step import OptimizerStep
from engine.training import run_length
from engine.training.errors import CheckpointMisfit, TrainingFailed

STATE, WEIGHTS = "epochs.json", "callbacks.npz"
"""Files of a checkpoint: the numbers of this module, and arrays that callbacks hold."""

_OF_BATCHES = (
    "on_batch_begin",
    "on_batch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_test_begin",
    "on_test_end",
    "on_test_batch_begin",
    "on_test_batch_end",
)
"""Methods of a callback for moments that our loop does not have: it does many steps at once."""

_VALIDATION = "validation/"
_HAS_DIRECTION = "has direction"
"""Whether a callback that follows a metric has found out if more is better."""


class Epochs:
    """Knows the means of an epoch, and asks the recipe whether the training goes on."""

    def __init__(
        self,
        spec: RunSpec,
        model: keras.Model,
        optimizer_step: OptimizerStep,
        on_epoch: Callable[..., Any] | None,
        callbacks: Sequence[Any],
        *,
        shows_last: bool = False,
    ) -> None:
        """Raises TrainingFailed for a callback that cannot be honoured.

        `shows_last`: the figures of the last step are those of an epoch, and not their means.
        """
        self._shows_last = shows_last
        self.saved_rate: float | None = None
        """The learning rate of the run that wrote the checkpoint; None: none was restored."""

        self._spec = spec
        self._model = model
        self._optimizer_step = optimizer_step
        self._on_epoch = on_epoch
        self._sums: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._weight = 0.0
        for callback in callbacks:
            _check(callback)
        self._given = list(callbacks)
        self._callbacks: Any = None
        if callbacks:
            object.__setattr__(model, "optimizer", optimizer_step.optimizer)
            self._callbacks = keras.callbacks.CallbackList(
                self._given, model=model, epochs=spec.epochs, verbose=0
            )
        self._has_begun = False

    def begin(self, position: Position) -> None:
        """Call this before the steps from `position` on."""
        if self._callbacks is None:
            return
        self._begin_training()
        if position.batch == 0:
            with self._optimizer_step.following_changes():
                self._callbacks.on_epoch_begin(position.epoch)

    def count(
        self, position: Position, found: Mapping[str, Sequence[float]], sizes: Sequence[float]
    ) -> None:
        """Count the figures of steps from `position` on; a metric may have one value for all.

        `sizes` are the numbers of samples of the steps.
        """
        steps = len(sizes)
        if position.batch == 0:
            self._sums, self._last, self._weight = {}, {}, 0.0
        self._weight += sum(sizes)
        for name, values in found.items():
            if len(values) == steps and not self._shows_last:
                terms = zip(values, sizes, strict=True)
                self._sums[name] = self._sums.get(name, 0.0) + sum(v * s for v, s in terms)
            elif values:
                self._last[name] = values[-1]

    def end(self, epoch: int, metrics: Mapping[str, float]) -> str:
        """Return why the training ends after `epoch` epochs, in a sentence; empty: it goes on."""
        if self._callbacks is None and self._on_epoch is None:
            return ""
        with self._optimizer_step.following_changes():
            reason = self._ask(epoch, metrics)
        is_last = epoch >= run_length.epochs(self._spec) > 0
        if self._callbacks is not None and (reason or is_last):
            self._end_training()
        return reason

    def _ask(self, epoch: int, metrics: Mapping[str, float]) -> str:
        weight = self._weight or 1.0
        train = {name: value / weight for name, value in self._sums.items()} | self._last
        reason = ""
        if self._callbacks is not None:
            reason = self._call_back(epoch, train, metrics)
        if self._on_epoch is not None:
            known = {f"train/{name}": value for name, value in train.items()} | dict(metrics)
            answer = self._on_epoch(self._model, epoch, known)
            if answer and not reason:
                why = f": {answer}" if isinstance(answer, str) else ""
                reason = f"on_epoch() of the recipe ended the training after epoch {epoch}{why}."
        return reason

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint; only rank 0 calls it."""
        arrays: dict[str, Any] = {}
        state: dict[str, Any] = {
            "sums": self._sums,
            "last": self._last,
            "weight": self._weight,
            "rate": self._optimizer_step.rate,
            "callbacks": [],
        }
        for number, callback in enumerate(self._given):
            plain, found = _state_of(callback)
            state["callbacks"].append(plain)
            arrays |= {f"{number}.{name}": value for name, value in found.items()}
        (folder / STATE).write_text(json.dumps(state))
        if arrays:
            with (folder / WEIGHTS).open("wb") as file:
                np.savez(file, **arrays)

    def restore(self, folder: Path) -> None:
        """Load what `save` has written, if it has. Raises CheckpointMisfit."""
        path = folder / STATE
        if not path.exists():
            return
        try:
            state = json.loads(path.read_text())
            self._sums, self._last = state["sums"], state["last"]
            self._weight = state["weight"]
            self.saved_rate = float(state["rate"])
            saved = state["callbacks"]
            arrays: dict[str, npt.NDArray[Any]] = {}
            if (folder / WEIGHTS).exists():
                with np.load(folder / WEIGHTS, allow_pickle=False) as file:
                    arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise CheckpointMisfit(
                f"{STATE} in the checkpoint {folder.name} is not what Traindeck saves: {error}. "
                "Resume from another checkpoint."
            ) from error
        if self._callbacks is None or len(saved) != len(self._given):
            return
        self._optimizer_step.rate = state["rate"]
        self._begin_training()  # which resets them
        for number, (callback, plain) in enumerate(zip(self._given, saved, strict=True)):
            _load(callback, plain, number, arrays)

    def close(self) -> None:
        """Call this last."""
        if self._callbacks is not None and self._has_begun:
            self._end_training()

    def _call_back(
        self, epoch: int, train: Mapping[str, float], metrics: Mapping[str, float]
    ) -> str:
        """Tell the callbacks, with Keras' names of the figures; return why the training ends."""
        validation = {
            f"val_{name.removeprefix(_VALIDATION)}": value for name, value in metrics.items()
        }
        shown = {name: value for name, value in train.items() if name != "learning_rate"}
        self._model.stop_training = False
        for callback in self._given:
            callback.on_epoch_end(epoch - 1, shown | validation)
            if self._model.stop_training:
                name = type(callback).__name__
                return f"The callback {name} ended the training after epoch {epoch}."
        return ""

    def _begin_training(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._callbacks.on_train_begin()

    def _end_training(self) -> None:
        self._has_begun = False
        self._callbacks.on_train_end()


def _check(callback: Any) -> None:
    """Raise TrainingFailed for a callback that needs more than the ends of epochs."""
    name = type(callback).__name__
    if not isinstance(callback, keras.callbacks.Callback):
        raise TrainingFailed(f"callbacks() gave a {name}: it must give callbacks of Keras.")
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        if callback.save_freq == "epoch":
            return
        raise TrainingFailed(
            "callbacks() gave a ModelCheckpoint that counts batches: choose save_freq='epoch', or "
            "the run's own checkpoints (every N steps, minutes or epochs, and the best)."
        )
    own = [
        method
        for method in _OF_BATCHES
        if getattr(callback, method, None) is not None
        and getattr(getattr(callback, method), "__func__", getattr(callback, method))
        is not getattr(keras.callbacks.Callback, method, None)
    ]
    if own:
        raise TrainingFailed(
            f"The callback {name} has {own[0]}(), and the loop of the run does many steps at once: "
            "only the begins and ends of epochs and of the training are called. Leave it out; "
            "curves, checkpoints and the end at a NaN are options of the run."
        )


def _state_of(callback: Any) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the plain values of a callback, and its arrays by name and number."""
    plain: dict[str, Any] = {_HAS_DIRECTION: getattr(callback, "monitor_op", None) is not None}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, value in vars(callback).items():
        if isinstance(value, bool | int | float | str | None):
            plain[name] = value
        elif isinstance(value, np.number):
            plain[name] = value.item()
        elif isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            arrays |= {f"{name}.{k}": array for k, array in enumerate(value)}
    return plain, arrays


def _load(
    callback: Any, plain: Mapping[str, Any], number: int, arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    if plain[_HAS_DIRECTION] and getattr(callback, "monitor_op", callback) is None:
        callback._set_monitor_op()  # it changes the sign of min_delta, once
    for name, value in plain.items():
        if name in vars(callback):
            setattr(callback, name, value)
    lists: dict[str, list[npt.NDArray[Any]]] = {}
    for key, array in arrays.items():
        owner, name, _ = key.split(".")
        if int(owner) == number:
            lists.setdefault(name, []).append(array)
    for name, values in lists.items():
        setattr(callback, name, values)
