"""Decides whether a run in its present state accepts a command."""

from __future__ import annotations

from engine.messages.commands import Command, Pause, Resume, Stop
from engine.runs.run_state import RunState, RunStatus
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy


def refusal(
    command: Command,
    status: RunStatus,
    spec: RunSpec,
    strategy: Strategy,
    *,
    accepts_commands: bool,
    training_ended: bool,
) -> str:
    """Return why `command` is refused, in a sentence for the user; empty if it is accepted.

    `accepts_commands`: rank 0 is connected; `training_ended`: it has left its training loop.
    """
    if isinstance(command, Stop):
        return ""
    if status.state is RunState.STOPPING or training_ended:
        return "The run is ending: it takes no more commands."
    if status.state is RunState.STARTING or not accepts_commands:
        return "The run is still starting: try again once it trains."
    if isinstance(command, Pause):
        return _pause_refusal(command, status, spec, strategy)
    if isinstance(command, Resume) and status.state is not RunState.PAUSED:
        return "The run is not paused."
    return ""


def _pause_refusal(command: Pause, status: RunStatus, spec: RunSpec, strategy: Strategy) -> str:
    if command.free_devices:
        if all_on_cpu(spec.devices):
            return "CPU devices have no memory of their own to free: pause the run without that."
        if not strategy.can_free_devices:
            return (
                f"{strategy.name} cannot take its model off the devices: pause the run without "
                "that, or stop it and resume it later."
            )
    if status.state is not RunState.PAUSED:
        return ""
    if command.free_devices and not status.freed_devices:
        return ""  # a paused run can still free its devices
    return "The run is paused already."
