"""The types of the fields of `RunSpec` that say how a run shares the machine with others."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from engine.spec.training_fields import GROUPS

_MACHINE = {"group": GROUPS[-1]}

Queue = Annotated[
    Literal["gpus", "always", "never"],
    Meta(
        title="Queue",
        description="Which of its devices the run waits for, in line, until no other run uses "
        "them. gpus: its GPUs. always: logical CPU devices too. never: it starts now and shares "
        "them.",
        extra=_MACHINE,
    ),
]

KeepAwake = Annotated[
    bool,
    Meta(
        title="Keep awake",
        description="The machine does not go to sleep by itself while the run is active; it may "
        "while the run is paused or waits in the queue.",
        extra=_MACHINE,
    ),
]
