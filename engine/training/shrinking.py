"""How a run goes on after a device was out of memory: the same global batch in smaller parts."""

from __future__ import annotations

from typing import NamedTuple

from engine.messages.events import Shrunk
from engine.training.errors import OutOfMemory

SHRINK = "shrink"
"""The value of `RunSpec.on_oom` with which a run goes on."""


class Sharing(NamedTuple):
    """How a global batch is shared by replicas and accumulation steps."""

    batch_size: int
    replicas: int
    asked: int
    """The accumulation steps of the spec."""

    accumulation: int
    """Those in force."""

    @property
    def samples(self) -> int:
        """The most samples that a replica computes at once."""
        return -(-self.batch_size // (self.replicas * self.accumulation))

    @property
    def is_uneven(self) -> bool:
        """Whether some parts have fewer samples."""
        return self.batch_size % (self.replicas * self.accumulation) != 0

    def halved(self) -> Sharing | None:
        """Return the same with parts of half the size; None: they have one sample already."""
        if self.samples == 1:
            return None
        most = -(-self.batch_size // self.replicas)
        return self._replace(accumulation=min(2 * self.accumulation, most))


class Shortage(NamedTuple):
    """Where a rank was out of memory. It keeps texts alone: an error holds tensors."""

    rank: int
    step: int
    """The optimizer step, from 1."""

    during: str
    """Such as `forward`; empty: not known."""

    what: str
    """From `OutOfMemory.what`."""

    @property
    def place(self) -> str:
        """Where it was."""
        during = f" in {self.during}" if self.during else ""
        return f"at step {self.step}{during} ({self.what})"

    @property
    def clause(self) -> str:
        """Say it without a full stop."""
        return f"Rank {self.rank} ran out of memory {self.place}"


def shrunk(
    shortage: Shortage, before: Sharing, after: Sharing, *, restarts: bool, has_batch_norm: bool
) -> Shrunk:
    """Return the event for a run that goes on with `after`."""
    origin = ""
    if restarts:
        origin = " from the newest checkpoint, or from the beginning if there is none,"
    sentences = [
        f"{shortage.clause}.",
        f"All ranks go on{origin} with {_parts(after)} samples instead of {_parts(before)} per "
        f"step and device; the global batch stays {after.batch_size}.",
    ]
    if has_batch_norm:
        sentences.append(
            "BatchNorm of the model normalizes over the smaller parts, so the curve may change."
        )
    return Shrunk(
        shortage.rank,
        shortage.step,
        " ".join(sentences),
        after.accumulation,
        after.asked,
        after.batch_size,
        after.replicas,
        restarts,
    )


def exhausted(shortage: Shortage, sharing: Sharing) -> OutOfMemory:
    """Return the error of a run whose parts cannot be smaller."""
    tried = ""
    if sharing.accumulation > sharing.asked:
        first = sharing._replace(accumulation=sharing.asked)
        tried = (
            f", after the parts were halved from {first.samples} samples (accumulation "
            f"{sharing.asked} to {sharing.accumulation})"
        )
    return OutOfMemory(
        f"Out of memory {shortage.place}, and each part has one sample only{tried}. Choose a "
        "smaller model or input, precision bf16, or a strategy that spreads the model over several "
        "devices."
    )


def _parts(sharing: Sharing) -> str:
    parts = f"{sharing.accumulation} x " if sharing.accumulation > 1 else ""
    return f"{parts}{'up to ' if sharing.is_uneven else ''}{sharing.samples}"
