"""Who runs this process: Traindeck or a user's own command, and as which rank of how many."""

from __future__ import annotations

import os
from typing import NamedTuple

from traindeck import _link


class Surroundings(NamedTuple):
    """What was true when the module was imported."""

    inside: bool
    """Whether this is the process that trains in a run of Traindeck. Loader workers are not."""

    strategy: str
    """Of the run: single, torchrun, ddp, fsdp, tf_config or mirrored; empty outside."""

    rank: int
    local_rank: int
    world_size: int
    run_folder: str
    checkpoint: str
    """The folder of the checkpoint that the run resumes from; empty: it begins."""

    @property
    def shares_work(self) -> bool:
        """Whether `place` makes several ranks train one model."""
        return self.inside and self.world_size > 1 and self.strategy in ("ddp", "fsdp")


def surroundings() -> Surroundings:
    """Read them from the environment, and from the watch that Traindeck puts into its runs."""
    inside = _link.client() is not None
    return Surroundings(
        inside,
        os.environ.get("TRAINDECK_RANK_STRATEGY", "single") if inside else "",
        _number("RANK", 0),
        _number("LOCAL_RANK", 0),
        max(1, _number("WORLD_SIZE", 1)),
        os.environ.get("TRAINDECK_RUN_FOLDER", "") if inside else "",
        os.environ.get("TRAINDECK_CHECKPOINT", "") if inside else "",
    )


def _number(variable: str, otherwise: int) -> int:
    try:
        return int(os.environ.get(variable, ""))
    except ValueError:
        return otherwise
