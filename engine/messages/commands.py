"""The commands that a user can send to a run over the control channel, as one closed union."""

from __future__ import annotations

import msgspec


class _Numbered(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    number: int = 0
    """Sequence number of the command's `CommandReceived` event, for the logs; the supervisor sets
    it."""


class SaveCheckpoint(_Numbered, frozen=True, tag="save_checkpoint"):
    """Write a checkpoint at the next step boundary. Answered by `CheckpointSaved`."""


class EmptyCache(_Numbered, frozen=True, tag="empty_cache"):
    """Release unused memory in every worker. Answered by one `CacheEmptied` per device."""


class Pause(_Numbered, frozen=True, tag="pause"):
    """Pause at the next step boundary; the processes stay. Answered by `Paused`."""

    free_devices: bool = False
    """Move model and optimizer to the host's memory until the run resumes, to free the GPUs."""


class Resume(_Numbered, frozen=True, tag="resume"):
    """Continue after a pause. Answered by `Resumed`."""


class Stop(_Numbered, frozen=True, tag="stop"):
    """End the run: save at the next step boundary and exit; `now` ends the workers at once.

    Answered by `StopStage` events and, last, by `RunEnded`.
    """

    now: bool = False


Command = SaveCheckpoint | EmptyCache | Pause | Resume | Stop
"""All commands; a `match` on it ends in `assert_never`."""
