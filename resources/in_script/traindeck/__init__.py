"""Traindeck's calls for a training loop of one's own.

    import traindeck

    traindeck.keep(model=model, optimizer=optimizer, scheduler=scheduler)
    for epoch in traindeck.epochs(10):
        for inputs, targets in traindeck.batches(loader):
            loss = ...
            traindeck.log(loss=loss)

In a run of Traindeck, the script then has curves, pause, Stop and checkpoints at a batch, and an
exact resume. Without Traindeck it runs as if the calls were not there. They are for one process: in
several ranks, figures are logged and `keep` is refused. Needs the standard library only; PyTorch,
TensorFlow and NumPy are used if the script has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from traindeck._callers import counts_batches
from traindeck._deck import Deck
from traindeck._errors import GONE, Stopped, TraindeckError

if TYPE_CHECKING:
    from traindeck._keras import KerasCallback as KerasCallback

__all__ = [
    "Stopped",
    "TraindeckError",
    "batches",
    "checkpoint",
    "epochs",
    "histogram",
    "image",
    "keep",
    "log",
    "steps",
    "summary",
]
__version__ = "0.1.0"

_deck = Deck()


def keep(**things: Any) -> None:
    """Keep things in the checkpoints by name; if the run resumes, restore them at once.

    A thing has `state_dict` and `load_state_dict`, or is a dict or list of plain values, a random
    generator, or a model, an optimizer or a variable of TensorFlow. Its state must consist of
    numbers, texts, lists, dicts, tensors and arrays. Call it before the loop. It is for a script of
    one process: in one of several ranks, it raises TraindeckError.
    """
    _deck.keep(things)


class _Loop:
    """Can be iterated several times, and has the length and the attributes of what it is of."""

    def __init__(self, begin: Callable[[], Iterator[Any]], of: Any) -> None:
        self._begin = begin
        self._of = of

    def __iter__(self) -> Iterator[Any]:
        return self._begin()

    def __len__(self) -> int:
        return len(self._of)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._of, name)


def epochs(count: int) -> Iterable[int]:
    """Return the numbers of the epochs, from 0 or from that of the checkpoint on."""
    return _Loop(lambda: _deck.epochs(count), range(count))


def steps(count: int) -> Iterable[int]:
    """Return the numbers of the steps, from 0 or from that of the checkpoint on.

    For loops that count steps; each number is one step, whatever happens in its body.
    """
    return _Loop(lambda: _deck.steps(count), range(count))


def batches(
    loader: Iterable[Any],
    *,
    training: bool | None = None,
    numbered: bool = False,
    split: bool | None = None,
) -> Iterable[Any]:
    """Return the batches of `loader`, from the right one on.

    `training`: whether the batches train, so that they are steps; None: unless the models are in
    `eval()` or gradients are off. `numbered`: yield pairs of a number and a batch, as `enumerate`
    does, also after a resume, where `enumerate` would begin at 0: that is refused. `split` is
    refused: the script divides its batches over its ranks itself.
    """
    if split is not None:
        raise TraindeckError(f"batches(split={split}) is no longer there: {GONE['split']}")
    is_counted = not numbered and _deck.client is not None and counts_batches(sys._getframe(1))

    def begin() -> Iterator[Any]:
        found = _deck.batches(loader, training=training, is_counted=is_counted)
        return found if numbered else (batch for _, batch in found)

    return _Loop(begin, loader)


def log(figures: dict[str, Any] | None = None, step: int | None = None, **named: Any) -> None:
    """Log figures: numbers, or tensors with one element, which are fetched later, in bulk.

    `loss` becomes the series `train/loss`, `val_loss` the series `validation/loss`; a name with a
    slash is kept. Rank 0's values are shown.
    """
    _deck.figures.log({**(figures or {}), **named}, step)


def image(name: str, image: Any, step: int | None = None, caption: str = "") -> None:
    """Log a picture: an array, a tensor, a PIL image, a matplotlib figure, or a path of a PNG."""
    _deck.figures.image(name, image, step, caption)


def histogram(name: str, values: Any, step: int | None = None) -> None:
    """Log how values are distributed."""
    _deck.figures.histogram(name, values, step)


def summary(figures: dict[str, Any] | None = None, **named: Any) -> None:
    """Log figures of the whole run, such as a test accuracy; the newest value counts."""
    _deck.figures.summary({**(figures or {}), **named})


def checkpoint() -> None:
    """Save a checkpoint after the present step; in one of several ranks, the weights."""
    _deck.checkpoint()


def __getattr__(name: str) -> Any:
    if name == "KerasCallback":
        from traindeck._keras import KerasCallback

        return KerasCallback
    if name in GONE:
        # No AttributeError: `from traindeck import ...` would hide its text.
        raise TraindeckError(f"traindeck.{name} is no longer there: {GONE[name]}")
    raise AttributeError(f"module 'traindeck' has no attribute {name!r}")
