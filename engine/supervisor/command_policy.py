"""Why a command makes no sense now, in a sentence that a person can act on."""

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
    listens: bool,
    ended: bool,
) -> str:
    """Why `command` is refused; empty when it is not.

    `listens`: rank 0 is there to take commands; `ended`: its training is over.
    """
    if isinstance(command, Stop):
        return ""
    if status.state is RunState.STOPPING or ended:
        return "The run is ending: it takes no more commands."
    if status.state is RunState.STARTING or not listens:
        return "The run is still starting: try again once it trains."
    if isinstance(command, Pause):
        return _why_no_pause(command, status, spec, strategy)
    if isinstance(command, Resume) and status.state is not RunState.PAUSED:
        return "The run is not paused."
    return ""


def _why_no_pause(command: Pause, status: RunStatus, spec: RunSpec, strategy: Strategy) -> str:
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
        return ""  # it holds already, and now its devices are wanted
    return "The run is paused already."
