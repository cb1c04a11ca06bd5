"""The two interfaces of the training loop: `Trainer`, one per framework, and `Session`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.messages.channel import Alive
from engine.messages.events import WorkerEvent
from engine.runs.checkpoints.checkpoint_files import Position
from engine.spec.run_spec import RunSpec
from engine.training.command_mailbox import CommandMailbox

UNKNOWN = -1
"""In the place of a number of validation batches."""


@dataclass(frozen=True)
class DoneSteps:
    """Steps that a trainer has done; their values may still be on the device."""

    count: int
    samples: float
    """Those that all replicas together have trained on. A last batch may have fewer than others.
    Only rank 0 needs it."""

    read: Callable[[], dict[str, list[float]]]
    """Returns one value per step for each metric, the same on every rank: always `loss` (the mean
    over the global batch), and perhaps `learning_rate` and `gradient_norm`. All ranks call it once,
    in the order of the steps."""

    waits: bool = False
    """Whether `read` waits for the device, the same on every rank. The loop then reads the values
    when the next steps are on their way, so that the device always has work."""


class Trainer(Protocol):
    """The part of the training that depends on the framework.

    Most methods talk to the other ranks: all ranks must call them, in the same order, except for
    `rank_metrics`.
    """

    steps_per_epoch: int
    """0: it is not known before the data of the epoch have ended."""

    validation_batches: int
    """0: there is no validation. UNKNOWN: it is known when the validation data have ended."""

    epoch_ended: bool
    """Whether the data ended in the last `run_steps`, which may be before `steps_per_epoch`."""

    replicas: int
    parameters: int
    goes_on: Callable[[int], bool]
    """Set by the loop: whether step number `number` (from 0) of `run_steps` is done, the same on
    all ranks. A trainer whose steps are in Python asks before each of them, in order."""

    progress: Callable[[int], None]
    """Set by the worker, and for checkpoints by the loop. `save` and `restore` call it with the
    bytes of each piece that they have copied: a slow one is told from one that hangs."""

    input_problem: str
    """Which inputs are not finite, in a sentence, if a loss was not finite because of them."""

    def run_steps(self, position: Position, count: int) -> DoneSteps:
        """Train on `count` global batches from `position`, all of the same epoch, or on fewer."""

    def rank_metrics(self) -> dict[str, float]:
        """Return metrics of this rank since the last call, such as {"data_share": 0.1}."""

    def begin_validation(self) -> None:
        """Reset the sums of loss and metrics."""

    def validate(self, batch: int, count: int) -> int:
        """Add loss and metrics of `count` validation batches from number `batch` to the sums.

        Return the number of batches; it is less than `count` if the data have ended.
        """

    def end_validation(self) -> dict[str, float]:
        """Return the means over the validation data, the same on every rank: {"loss": ...}."""

    def end_epoch(self, epoch: int, metrics: dict[str, float]) -> str:
        """Note that `epoch` epochs and their validation are done; `metrics` as they are reported.

        It may add further values of the epoch to `metrics`. Return why the training ends now, in a
        sentence, the same on every rank; empty: it goes on.
        """

    def save(self, folder: Path) -> None:
        """Write this rank's part of a checkpoint into `folder`, which exists."""

    def restore(self, folder: Path) -> None:
        """Load the checkpoint that `save` has written to `folder`."""

    def free_devices(self) -> None:
        """Move model and optimizer to the host's memory, and free the devices' memory."""

    def restore_devices(self) -> None:
        """Move model and optimizer back to the devices.

        Raises DevicesFull on every rank if one of them has no room; all stay on the host then. Its
        text is empty on a rank that has room.
        """

    def empty_cache(self) -> dict[str, int]:
        """Free unused memory of this rank's devices. Return the freed bytes by device."""

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        """Return the control word on which all ranks agree: the sum or the maximum over the ranks.

        Both numbers are 0 or more. If all ranks but rank 0 pass zeros, all get rank 0's word. If
        any rank passes a number that is not 0, every rank gets one that is not 0.
        """

    def close(self) -> None:
        """Leave the process group; called last."""


class PartSender(Protocol):
    """Brings the checkpoint files of other machines to rank 0; all ranks call both methods."""

    def begin(self, run_folder: Path, step: int) -> None:
        """On another machine than that of rank 0, make a folder for the files. Raises OSError."""

    def send(self, run_folder: Path, step: int, count: Callable[[int], None]) -> None:
        """Send the files of this machine, once all its ranks have written, and wait until they are
        kept. Calls `count` with the size of each piece. Raises OSError, EOFError."""


class Session(Protocol):
    """The part of the training that the process of a worker provides: spec, commands, events."""

    spec: RunSpec
    rank: int
    folder: Path
    mailbox: CommandMailbox
    alive: Alive
    """The present work of this rank; a change of it shows the supervisor that the rank advances."""

    @property
    def part_sender(self) -> PartSender | None:
        """Of a run over several machines; None: all ranks are on one machine."""

    @property
    def metric_directions(self) -> Mapping[str, str]:
        """`min` or `max` for each metric whose direction the recipe or the user chose."""

    def emit(self, event: WorkerEvent) -> None:
        """Send an event to the supervisor; never blocks."""

    @property
    def is_orphaned(self) -> bool:
        """Whether the supervisor is gone: all ranks save and leave, as after a Stop."""

    def save_unrecorded(self, checkpoint: Path, *, expected: bool = False) -> None:
        """Without a supervisor, write the events that it may not have recorded to `checkpoint`.

        `expected`: another rank knows that the supervisor is gone. Raises OSError.
        """

    def keep_unrecorded(self, checkpoint: Path) -> None:
        """Write the events that may not be durable in the store to `checkpoint`. Raises OSError."""

    def flush(self) -> Callable[[], bool]:
        """Ask the supervisor to make all earlier events durable, so that no power cut loses them.

        The returned function waits for that, for some seconds at most, and returns whether it is
        done.
        """


def emit_once(session: Session, event: WorkerEvent) -> None:
    """Send an event that is the same on all ranks, from rank 0. Any rank may call this."""
    if session.rank == 0:
        session.emit(event)
