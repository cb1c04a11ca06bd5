"""One epoch of a model's `fit`, in a thread that trains as many batches as it is told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Thread

import keras

from engine.training.errors import TrainingFailed

LOSS = "batch_loss"
"""The log of every batch that holds its own loss. `loss` itself is a mean since the epoch began."""

_LEAVE = 0


class _Left(Exception):
    """`fit` was told to leave before its epoch was over."""


class FitEpoch(keras.callbacks.Callback):  # type: ignore[misc]
    """The callback that holds `fit` between two batches, and the thread in which it runs.

    `fit` owns its loop, and so does the worker: they hand over to each other, one at a time.
    """

    def __init__(self, fit: Callable[[keras.callbacks.Callback], object]) -> None:
        """Start `fit`, which is given this callback."""
        super().__init__()
        self._fit = fit
        self._wanted: SimpleQueue[int] = SimpleQueue()
        self._done: SimpleQueue[list[float] | BaseException | None] = SimpleQueue()
        self._left = 0
        self._losses: list[float] = []
        self._thread = Thread(target=self._run, daemon=True, name="fit")
        self._thread.start()

    def train(self, count: int) -> list[float]:
        """The losses of the next `count` batches; raises what `fit` raised."""
        self._wanted.put(count)
        match self._done.get():
            case BaseException() as error:
                raise error
            case None:
                raise TrainingFailed(
                    "fit ended before its epoch did: something in the recipe's model stops it. "
                    "Choose tf/mirrored, whose loop is our own."
                )
            case losses:
                return losses

    def finish(self) -> None:
        """Wait for `fit` to return after its last batch; raises what it raised."""
        error = self._done.get()
        self._thread.join()
        if isinstance(error, BaseException):
            raise error

    def leave(self) -> None:
        """Have `fit` leave where it waits."""
        self._wanted.put(_LEAVE)
        self._thread.join()

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """Wait for the next chunk, when there is nothing left to do of the last one."""
        if not self._left:
            self._left = self._wanted.get()
            if self._left == _LEAVE:
                raise _Left

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Keep the loss, and hand a finished chunk over."""
        assert logs is not None
        self._losses.append(float(logs[LOSS]))
        self._left -= 1
        if not self._left:
            losses, self._losses = self._losses, []
            self._done.put(losses)

    def _run(self) -> None:
        try:
            self._fit(self)
        except _Left:
            pass
        except BaseException as error:  # for the main thread, which waits for an answer
            self._done.put(error)
        else:
            self._done.put(None)
