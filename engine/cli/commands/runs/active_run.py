"""`attach`, `stop`, `checkpoint`, `pause` and `empty-cache`: the commands for an active run."""

from __future__ import annotations

import time

from engine.cli.follow import CtrlC, follow_active_run
from engine.cli.output import Exit, Refused, Unanswered, err, format_bytes, out
from engine.cli.summary import print_failure
from engine.cli.watch import ANSWER_SECONDS, check_halted, new_events, updates, wait_for_event
from engine.interface.engine import Engine
from engine.messages import commands
from engine.messages.commands import Command
from engine.messages.events import CacheEmptied, CheckpointFailed, CheckpointSaved, Paused
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.system.program import call


def attach(engine: Engine, run_id: str, *, json: bool) -> Exit:
    """Follow an active run; Ctrl-C ends the following, not the run."""
    info = _active_run(engine, run_id)
    with CtrlC() as ctrl_c:
        return follow_active_run(engine, info, ctrl_c, json=json)


def stop(engine: Engine, run_id: str, *, now: bool) -> Exit:
    """Stop a run and wait until it is over; end also workers that a killed supervisor has left.

    Raises Unanswered if that takes too long.
    """
    stopping = engine.stop_run(run_id, now=now)
    if stopping.after < 0:
        out().print(stopping.remark, soft_wrap=True)
        return Exit.DONE
    if stopping.remark:
        err().print(stopping.remark, soft_wrap=True)
    deadline = time.monotonic() + ANSWER_SECONDS
    for _ in updates(engine, run_id, after=stopping.after, attempt=0):
        check_halted(engine, run_id)
        if time.monotonic() > deadline:
            raise Unanswered(
                f"Run {run_id} is still stopping after {ANSWER_SECONDS:.0f} s: "
                f"`{call(f'stop {run_id} --now', engine.machine)}` ends it at once."
            )
    info = engine.get_run(run_id)
    out().print(f"Run {run_id} is {info.state}. {info.reason}".rstrip(), soft_wrap=True)
    print_failure(err(), engine.read_details(run_id).failure)
    return Exit.FAILED if info.state in (RunState.FAILED, RunState.INTERRUPTED) else Exit.DONE


def checkpoint(engine: Engine, run_id: str) -> Exit:
    """Save a checkpoint, and print its folder."""
    info, seq = _send(engine, run_id, commands.SaveCheckpoint())
    for event in new_events(engine, run_id, after=seq):
        if isinstance(event, CheckpointFailed):
            raise Unanswered(event.text)
        if isinstance(event, CheckpointSaved):
            out().print(str(info.folder / event.path), soft_wrap=True)
            break
    return Exit.DONE


def pause(engine: Engine, run_id: str, *, free_devices: bool) -> Exit:
    """Pause a run at its next step; `free_devices` also moves its model to the host's memory."""
    _, seq = _send(engine, run_id, commands.Pause(free_devices=free_devices))
    paused = wait_for_event(engine, run_id, Paused, after=seq)
    freed = ", its model in the host's memory" if paused.freed_devices else ""
    out().print(f"Run {run_id} is paused after step {paused.step}{freed}.", soft_wrap=True)
    return Exit.DONE


def empty_cache(engine: Engine, run_id: str) -> Exit:
    """Free unused memory of every worker's devices, and print the freed bytes."""
    info, seq = _send(engine, run_id, commands.EmptyCache())
    plans = catalog.strategy(info.spec.strategy).pool(info.spec.slots)
    waiting = {(plan.rank, device) for plan in plans for device in plan.devices}
    for event in new_events(engine, run_id, after=seq):
        if isinstance(event, CacheEmptied):
            freed = format_bytes(event.freed_bytes)
            out().print(f"{event.device}  {freed} freed  (rank {event.rank})", soft_wrap=True)
            waiting.discard((event.rank, event.device))
            if not waiting:
                break
    return Exit.DONE


def _active_run(engine: Engine, run_id: str) -> RunInfo:
    info = engine.get_run(run_id)
    if info.state.is_over:
        shown = call(f"show {run_id}", engine.machine)
        raise Refused(
            f"Run {run_id} is {info.state}, no longer active: `{shown}` says how it went."
        )
    return info


def _send(engine: Engine, run_id: str, command: Command) -> tuple[RunInfo, int]:
    info = _active_run(engine, run_id)
    return info, engine.send(run_id, command)
