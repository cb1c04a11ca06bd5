"""Ends a command in stages: at a step, by Ctrl-C, by SIGTERM; the supervisor kills in the end."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

AFTER_SECONDS = 3.0
"""Time for a command to end after the process of it that has stopped at a step."""

STEPS = 5
"""A script has at least the time of this many steps to stop at one."""

SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}


class StopStages:
    """Decides on rank 0 when which signal is sent. Times are monotonic seconds.

    A third of the time is for the script to stop at a step that all ranks reach and to save; a
    third for one that catches KeyboardInterrupt; and a third for one that catches SIGTERM.
    """

    def __init__(
        self, seconds: float, enter: Callable[[str], None], clock: Callable[[], float] | None = None
    ) -> None:
        """`seconds`: after that, the supervisor ends the run. `enter` is called with a stage."""
        self._third = seconds / 3
        self._enter = enter
        self._clock = clock or time.monotonic
        self._due: float | None = None
        self._stage = ""

    @property
    def is_stopping(self) -> bool:
        """Whether the command was asked to end."""
        return bool(self._stage)

    def begin(self, *, at_step: bool, step_seconds: float) -> None:
        """Begin; `at_step`: the script was asked to stop at a step, and can."""
        if self.is_stopping:
            return
        if at_step:
            self._stage = "ask"
            self._due = self._clock() + max(self._third, STEPS * step_seconds)
        else:
            self._go_on("interrupt")

    def answered(self) -> None:
        """Note that the script stops at a step: it leaves by itself now, and gets no signal."""
        if self._stage == "ask":
            self._due = None

    def outlived(self) -> None:
        """Note that the process that has stopped at a step is gone, and the command goes on.

        It may wait for that process, or start the next training: it gets Ctrl-C, as it would get
        it in a terminal at once.
        """
        if self._stage == "ask" and self._due is None:
            self._due = self._clock() + AFTER_SECONDS

    def wait_longer(self) -> None:
        """Note that a checkpoint is being written: the present stage has its time once more."""
        if self._due is not None:
            self._due = max(self._due, self._clock() + self._third)

    def tick(self, *, catches_terminate: bool) -> None:
        """Enter the next stage if the time of the present one is over.

        `catches_terminate`: the command has a handler for SIGTERM. One that has none may still be
        busy with what it does at a Ctrl-C: the signal would only kill it.
        """
        if self._due is None or self._clock() < self._due:
            return
        if self._stage == "ask":
            self._go_on("interrupt")
        elif self._stage == "interrupt" and catches_terminate:
            self._go_on("terminate")

    def _go_on(self, stage: str) -> None:
        _log.info("stop: %s", stage)
        self._stage = stage
        self._due = self._clock() + self._third if stage == "interrupt" else None
        self._enter(stage)
