"""The callback for `model.fit`: checkpoints between two batches, and a resume at such a place.

Imported only when the script asks for `traindeck.KerasCallback`, so Keras is there already.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import keras

from traindeck._errors import TraindeckError

if TYPE_CHECKING:
    from traindeck._deck import Deck


class KerasCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Give one to `model.fit(..., callbacks=[traindeck.KerasCallback()])`.

    The checkpoints hold the model, the optimizer, the metrics and the random states. A resumed
    script comes to the same `fit`, which continues at the next batch of the same epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._deck: Deck = sys.modules["traindeck"]._deck
        # Before `fit`: what is captured of it comes from here, once.
        self._is_inside = self._deck.needs_one_process("KerasCallback")
        self._done = 0
        self._skip = 0
        self._reenters = False
        self._size_of: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore the place of the checkpoint in the same `fit` of a resumed script."""
        if not self._is_inside:
            return
        model, deck = self.model, self._deck
        if not hasattr(model, "_initial_epoch") or not hasattr(model, "train_function"):
            raise TraindeckError("traindeck.KerasCallback needs Keras 3.")
        _build(model)
        if not model.built:
            raise TraindeckError("Build the model before fit: model.build(...) or an Input layer.")
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        metrics = types.SimpleNamespace(variables=model.metrics_variables)
        place = deck.begin_fit(
            {"model": model, "optimizer": model.optimizer, "metrics": metrics},
            epochs=self.params["epochs"],
            batches=self.params.get("steps"),
        )
        if place is None:
            return
        model._initial_epoch = place.epoch
        self._skip = place.batch
        self._reenters = place.is_here and not place.batch
        if self._skip:
            self._skip_batches()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note the epoch."""
        if self._is_inside:
            self._done = self._skip
            self._deck.epoch = epoch
            self._size_of = self._deck.client.fit_sizes()
            self._deck.client.goes_on()
            if self._reenters:
                self._reenters = False
                self._deck.reenter()
                self.model.reset_metrics()  # those of the last epoch were saved

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count the steps, and do what is due after them."""
        if not self._is_inside or batch < self._skip:
            return
        self._skip = 0
        new, self._done = batch + 1 - self._done, batch + 1
        of_batches = range(self._done - new, self._done)
        samples = sum(map(self._size_of, of_batches)) if self._size_of else 0
        self._deck.figures.log(dict(logs or {}), self._deck.step + new)
        self._deck.fit_boundary(self._done, new, int(samples))

    def on_test_begin(self, logs: Any = None) -> None:
        """Note that no step is done now."""
        if self._is_inside:
            self._deck.client.interrupted()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Tell what the validation has found, and do what is due after the epoch."""
        if self._is_inside:
            found = {name: value for name, value in (logs or {}).items() if name[:4] == "val_"}
            rate = getattr(self.model.optimizer, "learning_rate", None)
            if rate is not None:
                found["learning_rate"] = float(rate)
            self._deck.figures.log(found, self._deck.step)
            self._deck.fit_epoch_ended(is_last=epoch + 1 >= self.params["epochs"])

    def on_train_end(self, logs: Any = None) -> None:
        """Note that this `fit` is over."""
        if self._is_inside:
            self._deck.end_fit()

    def _skip_batches(self) -> None:
        """Take the batches that are done from the data, without training on them."""
        model, left = self.model, self._skip
        train, at_once = model.train_function, max(1, getattr(model, "steps_per_execution", 1))
        if left % at_once:
            raise TraindeckError(
                f"The checkpoint was saved after {left} batches, which {at_once} steps per "
                "execution do not reach. Resume with the same steps_per_execution."
            )

        def pass_by(iterator: Any) -> dict[str, Any]:
            nonlocal left
            for _ in range(at_once):
                next(iterator)
            left -= at_once
            if not left:
                model.train_function = train
                self._deck.reenter()
            return {}

        model.train_function = pass_by


def _build(model: Any) -> None:
    """Build a model and its metrics by the shapes of the data of its `fit`, without a batch.

    Under TensorFlow, Keras does so in the first step, which is too late to restore them.
    """
    build = getattr(model, "_symbolic_build", None)
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and build is not None:
        if frame.f_code.co_name == "fit" and frame.f_locals.get("self") is model:
            data = getattr(frame.f_locals.get("epoch_iterator"), "_distributed_dataset", None)
            if data is not None:
                build(data_batch=data.element_spec)
            return
        frame = frame.f_back
