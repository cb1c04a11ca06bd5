"""What the training loop needs from others: a trainer per framework, and a session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from engine.messages.channel import Alive
from engine.messages.events import WorkerEvent
from engine.runs.checkpoint_files import Position
from engine.spec.run_spec import RunSpec
from engine.training.command_mailbox import CommandMailbox


class Trainer(Protocol):
    """What a framework does for the loop.

    All ranks call every method but `rank_metrics`, in the same order.
    """

    steps_per_epoch: int
    validation_batches: int
    replicas: int
    parameters: int

    def run_steps(self, position: Position, count: int) -> dict[str, list[float]]:
        """Train on the next `count` global batches from `position` on, all of the same epoch.

        Returns one value per step for each figure, the same on every rank: always `loss` (the mean
        over the global batch), maybe `learning_rate` and `gradient_norm`.
        """

    def rank_metrics(self) -> dict[str, float]:
        """This rank's own figures since the last call, such as {"data_share": 0.1}."""

    def begin_validation(self) -> None:
        """Forget what the last validation added up."""

    def validate(self, batch: int, count: int) -> None:
        """Add up loss and metrics over validation batches `batch` ... `batch + count - 1`."""

    def end_validation(self) -> dict[str, float]:
        """Means over the validation data, the same on every rank, such as {"loss": ...}."""

    def save(self, folder: Path) -> None:
        """Write this rank's share of a checkpoint into `folder`, which exists."""

    def restore(self, folder: Path) -> None:
        """Take everything back that `save` wrote."""

    def free_devices(self) -> None:
        """Move model and optimizer to the host's memory, and give the devices' memory back."""

    def restore_devices(self) -> None:
        """Undo `free_devices`."""

    def empty_cache(self) -> dict[str, int]:
        """Give unused memory back; bytes freed by device."""

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        """Rank 0's `word` (not negative), on every rank, where the others pass zeros.

        A rank that passes something else makes the answer something else than zeros everywhere.
        """

    def close(self) -> None:
        """Leave the other ranks; called last."""


class Session(Protocol):
    """What the worker's process does for the loop."""

    spec: RunSpec
    rank: int
    folder: Path
    mailbox: CommandMailbox
    alive: Alive
    """What the worker is doing now, for the supervisor to see whether it gets on."""

    @property
    def metric_directions(self) -> Mapping[str, str]:
        """`min` or `max` by metric, where the recipe or the user overrides the rule."""

    def emit(self, event: WorkerEvent) -> None:
        """Send an event to the supervisor; never blocks."""

    def flush(self) -> None:
        """Wait until all that was sent so far is on disk."""
