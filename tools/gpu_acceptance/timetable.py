"""The steps of the kit in their order, the most valuable first, with their time limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tools.gpu_acceptance.kit import Kit
from tools.gpu_acceptance.steps import commands, correctness, machine, memory, speed, trouble


class Step(NamedTuple):
    """Something that is asked."""

    name: str
    seconds: float
    """Its time limit."""

    run: Callable[[Kit], None]


ROWS: tuple[tuple[Step, ...], ...] = (
    (
        Step("facts", 60, machine.facts),
        Step("reference", 60, correctness.reference),
        Step("warm", 60, machine.warm),
    ),
    (Step("matrix", 75, correctness.matrix), Step("doctor", 45, machine.doctor)),
    (Step("overhead", 75, speed.overhead),),
    (
        Step("waits", 45, correctness.waits),
        Step("kill", 50, trouble.kill),
        Step("resume", 90, correctness.resume),
        Step("faults", 45, trouble.faults),
        Step("compile", 75, correctness.compiled),
    ),
    (Step("pause", 100, trouble.pause),),  # alone: it fills the card
    (Step("script", 90, speed.script),),
    (Step("throughput", 140, speed.throughput),),
    (Step("oom", 90, trouble.oom),),
    (Step("memory", 160, memory.memory),),
    (Step("start_step", 40, speed.start_step),),
    (Step("race", 45, commands.race),),
    (Step("preflight", 50, commands.preflight),),
    (Step("batch", 90, commands.batch),),
    (Step("pytest", 150, commands.pytest),),
    (Step("doctor_full", 90, machine.doctor_full),),
)
"""The steps of one row run side by side, the rows one after the other."""

STEPS = {step.name: step for row in ROWS for step in row}
