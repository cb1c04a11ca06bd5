"""`script/single`: the command as it is, in one process that sees all devices."""

from __future__ import annotations

from engine.script_rank.script_strategy import OneProcess


class Single(OneProcess):
    """Sets no variable of a launcher, as if the command was typed into a terminal."""

    name = "script/single"
    title = "Single process"
    summary = (
        "The command as it is, in one process that sees all chosen devices: for scripts that use "
        "one device, or that spread the training themselves."
    )
    mode = "single"


strategy = Single()
