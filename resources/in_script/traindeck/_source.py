"""Where batches come from, and how a pass over them begins at any batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from traindeck._errors import TraindeckError
from traindeck._state.plain import from_plain, to_plain
from traindeck._state.random_state import drawing_from, random_state

Plain = dict[str, Any]


class Source:
    """What is known of a loader of the script from one pass over it to the next."""

    def __init__(self, loader: Iterable[Any], fingerprint: list[Any] | None = None) -> None:
        """`fingerprint`: of what is iterated over, if it is no loader of the script."""
        self.count = length_of(loader)
        """The number of batches in a pass; 0: unknown."""

        self.fingerprint = fingerprint or _fingerprint(loader)
        """Plain values that are the same for the same loader in a resumed script."""

        self._generators = _generators_of(loader)
        self._counts_passes = type(loader).__module__.partition(".")[0] == "tensorflow"
        """Whether its order follows from how often it was read, as that of a tf.data shuffle."""

        self._passes = 0
        self._passes_due = 0

    @property
    def has_state(self) -> bool:
        """Whether a pass depends on those before it in another way than by the random state."""
        return bool(self._generators) or self._counts_passes

    def begin(self, loader: Iterable[Any]) -> tuple[Iterator[Any], Plain]:
        """Begin a pass. Return its batches, and what `go_on` needs to begin it again."""
        self._catch_up(loader)
        start = self.state() | {"random": random_state(), "has_workers": _has_workers(loader)}
        self._passes += 1
        return iter(loader), start

    def go_on(self, loader: Iterable[Any], saved: Plain) -> Iterator[Any]:
        """Begin the pass of a checkpoint again, behind the batches that are done.

        The process draws on as if nothing had been drawn.
        """
        start, done = saved["start"], saved["done"]
        self.set_state(start)
        with drawing_from(start["random"]):
            self._catch_up(loader)
            if start["has_workers"] and not _has_workers(loader):
                iter(loader)  # workers that stay draw their seed once, before the first pass
        self.set_state(start)
        self._passes += 1
        with drawing_from(start["random"]):
            if saved["own_state"] is not None:
                loader.load_state_dict(from_plain(saved["own_state"]))  # type: ignore[attr-defined]
                return iter(loader)
            batches = iter(loader)
            skipped = sum(1 for _ in itertools.islice(batches, done))
        if skipped < done:
            raise TraindeckError(
                f"The loader ends after {skipped} batches, but the checkpoint was saved after "
                f"{done}: the data have changed, or a generator was given that cannot be iterated "
                "again."
            )
        return batches

    def state(self) -> Plain:
        """Return its place between two passes."""
        states = [generator.get_state() for generator in self._generators]
        return {"generators": states, "passes": max(self._passes, self._passes_due)}

    def set_state(self, state: Plain) -> None:
        """Make the next pass follow those that were begun before."""
        self._passes_due = state["passes"]
        for generator, saved in zip(self._generators, state["generators"]):
            generator.set_state(saved)

    def _catch_up(self, loader: Iterable[Any]) -> None:
        """Begin the passes that were begun before the script was resumed."""
        while self._counts_passes and self._passes < self._passes_due:
            next(iter(loader), None)
            self._passes += 1


def own_state(loader: Any) -> Any:
    """Return the place of a loader that knows it itself, in plain values; None: it does not."""
    names = ("state_dict", "load_state_dict")
    if not all(callable(getattr(loader, name, None)) for name in names):
        return None
    with drawing_from(random_state()):  # some begin their next pass to know their state
        return to_plain(loader.state_dict(), "state_dict() of the loader")


def length_of(sized: Any) -> int:
    """Return the length, or 0 if it is not known."""
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return 0


def samples(batch: Any) -> int:
    """Return the samples in `batch`: the first dimension of its first array; 0: unknown."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next(filter(None, map(samples, batch)), 0)
    shape: Any = getattr(batch, "shape", ())
    try:
        return int(shape[0]) if len(shape) else 0
    except (TypeError, ValueError):
        return 0


def _fingerprint(loader: Any) -> list[Any]:
    data = getattr(loader, "dataset", loader)
    size = getattr(loader, "batch_size", None)
    numbers = [length_of(data), size if type(size) is int else 0, length_of(loader)]
    return [type(data).__qualname__, *numbers]


def _generators_of(loader: Any) -> list[Any]:
    """Return the random generators of a loader and of its samplers."""
    batches, own = getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)
    holders = (loader, own, batches, getattr(batches, "sampler", None))
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(each): each for each in found if hasattr(each, "set_state")}.values())


def _has_workers(loader: Any) -> bool:
    """Whether the workers of an earlier pass go on in the next one."""
    persists = getattr(loader, "persistent_workers", False)
    return bool(persists) and getattr(loader, "_iterator", None) is not None
