"""`attach`, `stop`, `checkpoint`, `pause` and `empty-cache`: the commands for an active run."""

from __future__ import annotations

import time

from engine import client
from engine.cli.follow import CtrlC, follow_active_run
from engine.cli.output import Exit, NoAnswer, Refused, err, format_bytes, out
from engine.cli.summary import print_failure
from engine.cli.watch import ANSWER_SECONDS, check_halted, new_events, updates, wait_for_event
from engine.client import DamagedRun, RunInfo, StoppedBySignal
from engine.messages import commands
from engine.messages.commands import Command
from engine.messages.events import CacheEmptied, CheckpointFailed, CheckpointSaved, Paused
from engine.processes.process import is_alive
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.system.program import call


def attach(run_id: str, *, json: bool) -> Exit:
    """Follow an active run; Ctrl-C ends the following, not the run."""
    _active_run(run_id)
    with CtrlC() as ctrl_c:
        return follow_active_run(run_id, ctrl_c, json=json)


def stop(run_id: str, *, now: bool) -> Exit:
    """Stop a run and wait until it is over; end also workers that a killed supervisor has left.

    Raises NoAnswer if that takes too long.
    """
    try:
        info = client.get_run(run_id)
    except DamagedRun:
        if found := client.stop_unreadable(run_id):
            return _wait_for_supervisor(run_id, *found)
        raise
    if info.has_orphans:
        info = client.end_orphans(run_id, now=now)
        out().print(f"The workers of run {run_id} have ended. {info.reason}", soft_wrap=True)
        return Exit.DONE
    if info.is_recorded or not info.state.is_over:  # its supervisor waits to record the end
        _active_run(run_id)
    try:
        seq = client.send(run_id, commands.Stop(now=now))
    except StoppedBySignal as error:
        err().print(str(error), soft_wrap=True)
        seq = error.seq
    deadline = time.monotonic() + ANSWER_SECONDS
    for _ in updates(run_id, after=seq, attempt=0):
        check_halted(run_id)
        if time.monotonic() > deadline:
            raise NoAnswer(
                f"Run {run_id} is still stopping after {ANSWER_SECONDS:.0f} s: "
                f"`{call(f'stop {run_id} --now')}` ends it at once."
            )
    info = client.get_run(run_id)
    out().print(f"Run {run_id} is {info.state}. {info.reason}".rstrip(), soft_wrap=True)
    print_failure(err(), info)
    return Exit.FAILED if info.state in (RunState.FAILED, RunState.INTERRUPTED) else Exit.DONE


def _wait_for_supervisor(run_id: str, pid: int, created: float) -> Exit:
    """Wait until the supervisor of an unreadable run, which was asked to end, has ended."""
    start = f"Run {run_id} cannot be read."
    asked = f"Its supervisor, process {pid}, was asked by a signal to end"
    deadline = time.monotonic() + ANSWER_SECONDS
    while is_alive(pid, created):
        if time.monotonic() > deadline:
            raise NoAnswer(f"{start} {asked}, but still lives after {ANSWER_SECONDS:.0f} s.")
        time.sleep(0.05)
    out().print(f"{start} {asked}, and has ended.", soft_wrap=True)
    return Exit.DONE


def checkpoint(run_id: str) -> Exit:
    """Save a checkpoint, and print its folder."""
    info, seq = _send(run_id, commands.SaveCheckpoint())
    for event in new_events(run_id, after=seq):
        if isinstance(event, CheckpointFailed):
            raise NoAnswer(event.text)
        if isinstance(event, CheckpointSaved):
            out().print(str(info.folder / event.path), soft_wrap=True)
            break
    return Exit.DONE


def pause(run_id: str, *, free_devices: bool) -> Exit:
    """Pause a run at its next step; `free_devices` also moves its model to the host's memory."""
    _, seq = _send(run_id, commands.Pause(free_devices=free_devices))
    paused = wait_for_event(run_id, Paused, after=seq)
    freed = ", its model in the host's memory" if paused.freed_devices else ""
    out().print(f"Run {run_id} is paused after step {paused.step}{freed}.", soft_wrap=True)
    return Exit.DONE


def empty_cache(run_id: str) -> Exit:
    """Free unused memory of every worker's devices, and print the freed bytes."""
    info, seq = _send(run_id, commands.EmptyCache())
    plans = catalog.strategy(info.spec.strategy).pool(info.spec.slots)
    waiting = {(plan.rank, device) for plan in plans for device in plan.devices}
    for event in new_events(run_id, after=seq):
        if isinstance(event, CacheEmptied):
            freed = format_bytes(event.freed_bytes)
            out().print(f"{event.device}  {freed} freed  (rank {event.rank})", soft_wrap=True)
            waiting.discard((event.rank, event.device))
            if not waiting:
                break
    return Exit.DONE


def _active_run(run_id: str) -> RunInfo:
    info = client.get_run(run_id)
    if info.state is RunState.ELSEWHERE:
        raise Refused(f"Run {run_id} is {info.state}. {info.reason}")
    if info.state.is_over:
        raise Refused(
            f"Run {run_id} is {info.state}, no longer active: `{call(f'show {run_id}')}` "
            "says how it went."
        )
    return info


def _send(run_id: str, command: Command) -> tuple[RunInfo, int]:
    info = _active_run(run_id)
    return info, client.send(run_id, command)
