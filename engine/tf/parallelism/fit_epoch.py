"""One epoch of Keras' `fit` in a thread that trains the requested number of batches at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Thread

import keras

from engine.training.errors import TrainingFailed

BATCH = "batch "
"""Begins the log keys of one batch; Keras' own `loss` is a mean since the begin of the epoch."""

Values = dict[str, list[float]]
"""The values of some batches by name."""

_LEAVE = 0


class _Left(Exception):
    """Ends `fit` before the end of its epoch."""


class FitEpoch(keras.callbacks.Callback):  # type: ignore[misc]
    """The callback that pauses `fit` between two batches, and the thread in which `fit` runs.

    Both `fit` and the worker have a loop; only one of the two runs at a time.
    """

    def __init__(self, fit: Callable[[keras.callbacks.Callback], object]) -> None:
        """Start `fit(callback)` with this callback."""
        super().__init__()
        self._fit = fit
        self._requests: SimpleQueue[int] = SimpleQueue()
        self._results: SimpleQueue[Values | BaseException | None] = SimpleQueue()
        self._remaining = 0
        self._values: Values = {}
        self._thread = Thread(target=self._run, daemon=True, name="fit")
        self._thread.start()

    def train(self, count: int) -> Values:
        """Train on the next `count` batches; return their values. Raises what `fit` raised."""
        self._requests.put(count)
        match self._results.get():
            case BaseException() as error:
                raise error
            case None:
                raise TrainingFailed(
                    "fit ended before its epoch did: something in the recipe's model stops it. "
                    "Choose tf/mirrored, whose loop is our own."
                )
            case values:
                return values

    def finish(self) -> None:
        """Wait for `fit` to return after its last batch. Raises what `fit` raised."""
        error = self._results.get()
        self._thread.join()
        if isinstance(error, BaseException):
            raise error

    def leave(self) -> None:
        """End `fit` between two batches."""
        self._requests.put(_LEAVE)
        self._thread.join()

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """Wait for the next request after the last batch of a request."""
        if not self._remaining:
            self._remaining = self._requests.get()
            if self._remaining == _LEAVE:
                raise _Left

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Keep the values; after the last batch of a request, return all of them."""
        assert logs is not None
        for name, value in logs.items():
            if name.startswith(BATCH):
                self._values.setdefault(name.removeprefix(BATCH), []).append(float(value))
        self._remaining -= 1
        if not self._remaining:
            values, self._values = self._values, {}
            self._results.put(values)

    def _run(self) -> None:
        try:
            self._fit(self)
        except _Left:
            pass
        except BaseException as error:  # the main thread raises it
            self._results.put(error)
        else:
            self._results.put(None)
