"""Where a script is in its loops, and how a resumed script finds that place again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from traindeck._errors import TraindeckError
from traindeck._source import Source, own_state

Plain = dict[str, Any]


class Pass:
    """One pass over a loader, or over the numbers of `steps`."""

    def __init__(self, source: Source, loader: Iterable[Any], *, counts_steps: bool) -> None:
        self.source = source
        self.counts_steps = counts_steps
        """Whether it is a loop of `steps`, in which everything else has its place."""

        self.done = 0
        """Batches whose body was executed."""

        self.has_handed_out = False
        """Whether a batch is in the script's hands. At a step, its body was executed."""

        self.is_finished = False
        self._loader = loader
        self._start: Plain = {}

    def begin(self, saved: Plain | None) -> Iterator[Any]:
        """Return its batches: all, or those behind the place `saved`."""
        if saved is None:
            batches, self._start = self.source.begin(self._loader)
            return batches
        self.done, self.is_finished, self._start = saved["done"], saved["finished"], saved["start"]
        if self.is_finished:
            return iter(())
        if self.counts_steps:  # there may be fewer steps than are done
            return itertools.islice(self._loader, self.done, None)
        return self.source.go_on(self._loader, saved)

    def plain(self) -> Plain:
        """Return its place for a checkpoint."""
        is_open = not self.is_finished
        return {
            "fingerprint": list(self.source.fingerprint),
            "done": self.done + self.has_handed_out,
            "finished": self.is_finished,
            "start": self._start if is_open else {},
            "own_state": own_state(self._loader) if is_open else None,
        }


class Passes:
    """The passes of an epoch: those that are over, and those that are open.

    The pass that was begun first, or the loop of `steps`, leads: its batches are the steps. Others
    that are open at a step follow it (`zip`, `next(iterator)`); those that begin and end in its
    body are repeated with the body.
    """

    def __init__(self) -> None:
        self._begun: list[Pass] = []
        self._open: list[Pass] = []
        self._awaited: list[Plain] = []
        self._sources: weakref.WeakKeyDictionary[Any, Source] = weakref.WeakKeyDictionary()
        self._awaited_sources: list[Plain] = []
        self.is_between = False
        """Whether no pass leads now, although some are open."""

    @property
    def leading(self) -> Pass | None:
        """The pass whose batches are the steps now."""
        steps = [found for found in self._open if found.counts_steps]
        return next(iter(steps or self._open), None)

    @property
    def batch(self) -> int:
        """Batches that are done of the pass that leads, or led last."""
        last = self.leading or (self._begun[-1] if self._begun else None)
        return 0 if last is None else last.done

    def resume_from(self, saved: Plain) -> None:
        """Await the passes and the loaders of a checkpoint, in their order."""
        self._awaited = list(saved["passes"])
        self._awaited_sources = list(saved["loaders"])

    def new_epoch(self) -> None:
        """Forget the passes of the last epoch."""
        self._begun = []

    def source_of(self, loader: Iterable[Any]) -> Source:
        """Return what is known of a loader; at first, what the checkpoint knows."""
        found = Source(loader)
        if not found.has_state:
            return found
        if (known := self._sources.get(loader)) is not None:
            return known
        self._sources[loader] = found
        for saved in self._awaited_sources:
            if saved["fingerprint"] == found.fingerprint:
                self._awaited_sources.remove(saved)
                found.set_state(saved)
                break
        return found

    def take_awaited(self, source: Source) -> Plain | None:
        """Return where a pass over `source` was in the checkpoint; None: it begins.

        Raises TraindeckError if, before the place of the checkpoint is reached, the script
        iterates over something else than it did when it was saved.
        """
        for saved in self._awaited:
            if saved["fingerprint"] == source.fingerprint:
                self._awaited.remove(saved)
                return saved
            if saved["leads"] or saved["finished"]:
                raise TraindeckError(
                    "The resumed script iterates over other data than the checkpoint: "
                    f"{_description(source.fingerprint)} now, "
                    f"{_description(saved['fingerprint'])} then. Resume with the script and data "
                    "that it was saved with, or begin a new run."
                )
        return None

    def stop_awaiting(self) -> None:
        """The first step is done after a resume: what begins now is new."""
        self._awaited = []

    def open(self, new: Pass) -> None:
        """Note that a pass has begun."""
        if self.leading is None or new.counts_steps:
            self._begun.append(new)
        self._open.append(new)

    def close(self, old: Pass) -> None:
        """Note that a pass is over, also if its loop was left early."""
        old.is_finished, old.has_handed_out = True, False
        if old in self._open:
            self._open.remove(old)

    def plain(self) -> Plain:
        """Return all places for a checkpoint."""
        followers = [found for found in self._open if found not in self._begun]
        leading = None if self.is_between else self.leading
        return {
            "passes": [
                found.plain() | {"leads": found is leading} for found in (*self._begun, *followers)
            ],
            "loaders": [
                {"fingerprint": source.fingerprint} | source.state()
                for source in self._sources.values()
            ],
        }


def _description(fingerprint: list[Any]) -> str:
    name, *numbers = fingerprint
    return f"{name} ({', '.join(map(str, numbers))})" if numbers else str(name)
