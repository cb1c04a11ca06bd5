"""The exceptions that the calls raise."""

from __future__ import annotations


class TraindeckError(RuntimeError):
    """What a call cannot do, in a sentence that says what to do instead."""


class Stopped(SystemExit):
    """The run was stopped and its checkpoint is saved: it ends the script, with `finally` blocks.

    `except Exception` does not catch it.
    """

    def __init__(self) -> None:
        super().__init__(0)
