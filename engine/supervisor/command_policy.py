"""Decides whether a run in its present state accepts a command."""

from __future__ import annotations

from engine.messages.commands import Command, Pause, Resume, SaveCheckpoint, Stop
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
    sees_steps: bool = True,
) -> str:
    """Return why `command` is refused, in a sentence for the user; empty if it is accepted.

    `accepts_commands`: rank 0 is connected; `training_ended`: it has left its training loop;
    `sees_steps`: it has done a step, after which a script could do what is asked.
    """
    if isinstance(command, Stop):
        return ""
    if status.state is RunState.STOPPING or training_ended:
        return "The run is ending: it takes no more commands."
    if text := _not_ready(status, accepts_commands=accepts_commands):
        return text
    if not sees_steps and isinstance(command, Pause | SaveCheckpoint):
        return (
            "No step of the script has been seen so far, and this is done after a step: try again "
            "once it trains, with a framework whose steps Traindeck sees."
        )
    if isinstance(command, Pause):
        return _pause_refusal(command, status, spec, strategy)
    if isinstance(command, Resume) and status.state is not RunState.PAUSED:
        return "The run is not paused."
    return ""


def _not_ready(status: RunStatus, *, accepts_commands: bool) -> str:
    """Return why no rank would get a command now; empty: rank 0 would."""
    match status.state:
        case RunState.QUEUED:
            return "The run still waits for its devices: try again once it trains."
        case RunState.STARTING if status.attempt > 1:
            return (
                f"The run is starting again (attempt {status.attempt}): try again once it trains."
            )
        case RunState.STARTING:
            return "The run is still starting: try again once it trains."
    if accepts_commands:
        return ""
    return "The run has lost its rank 0: it will end, or start again by itself."


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
