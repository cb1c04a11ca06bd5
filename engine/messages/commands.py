"""What a person can ask of a run: one closed union of commands, sent over the control channel."""

from __future__ import annotations

import msgspec


class _Numbered(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    number: int = 0
    """Number of the `CommandReceived` event that a person's command has in the store, for the logs;
    set by the supervisor."""


class SaveCheckpoint(_Numbered, frozen=True, tag="save_checkpoint"):
    """Write a checkpoint at the next step boundary. Answered by `CheckpointSaved`."""


class EmptyCache(_Numbered, frozen=True, tag="empty_cache"):
    """Give unused memory back, in every worker. Answered by one `CacheEmptied` per device."""


class Pause(_Numbered, frozen=True, tag="pause"):
    """Hold at the next step boundary; the processes stay. Answered by `Paused`."""

    free_devices: bool = False
    """Move model and optimizer to the host's memory meanwhile, so that the GPUs are free."""


class Resume(_Numbered, frozen=True, tag="resume"):
    """Go on after a pause. Answered by `Resumed`."""


class Stop(_Numbered, frozen=True, tag="stop"):
    """End the run: save at the next step boundary and leave; `now` ends the workers at once.

    Answered by `StopStage` events and, last, by `RunEnded`.
    """

    now: bool = False


Command = SaveCheckpoint | EmptyCache | Pause | Resume | Stop
"""Every command there is; `match` on it ends in `assert_never`."""
