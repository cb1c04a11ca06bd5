"""The types of the fields of `RunSpec` that say what a run does when something goes wrong."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

_SAFETY = {"group": "Safety"}

MaxRestarts = Annotated[
    int,
    Meta(
        title="Restarts",
        description="How often a run that has failed goes on by itself from its last checkpoint. "
        "A run that fails twice at the same step, or before its first one, does not. 0: never.",
        ge=0,
        le=1000,
        extra=_SAFETY,
    ),
]

HangMinutes = Annotated[
    float,
    Meta(
        title="Hang after minutes",
        description="Minutes (and at least ten steps) without a step after which the run counts "
        "as hanging and says where every rank is; ten times that for a first step, a validation "
        "or a checkpoint. With restarts allowed, it fails after twice the time. 0: never.",
        ge=0,
        extra=_SAFETY,
    ),
]

OnDiskFull = Annotated[
    Literal["pause", "stop"],
    Meta(
        title="On full disk",
        description="When the run folder cannot be written. pause: hold until you have made room "
        "and resume. stop: end the run, with a last checkpoint if there is room for one.",
        extra=_SAFETY,
    ),
]
