"""What an engine does with a run of this machine, in more than one step: resume, stop, read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engine import client
from engine.client import CommandFailed, DamagedRun, NoSuchRun, StoppedBySignal
from engine.interface.values import QueuedRun, ResumedRun, RunDetails, StoppingRun
from engine.messages import commands
from engine.messages.events import AttemptStarted, Event, RecipeChosen, RecipeVersion
from engine.processes.process import is_alive
from engine.runs import device_queue
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_info import RunInfo, failure_of
from engine.runs.store.store_reader import NoStoreYet, RunReader
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.spec.worker_python import python_of_run
from engine.system.program import call
from engine.telemetry.helper_client import snapshot_once

LONGEST_END = 120.0
"""Seconds that the supervisor of an unreadable run has to end."""

E = TypeVar("E", bound=Event)


def resume(
    run: str,
    checkpoint: Path | None,
    spec: RunSpec | None,
    recipe: RecipeVersion | None,
    progress: Callable[[int, int], None],
    *,
    as_new: bool,
) -> ResumedRun:
    """See `Engine.resume`; `checkpoint`: the folder of one."""
    if as_new:
        new = client.resume_as_new(run, checkpoint, spec, progress, recipe)
        with RunReader(client.get_run(new).folder) as reader:
            begun = reader.newest_event(lambda event: isinstance(event, AttemptStarted))
        assert begun is not None
        assert isinstance(begun.event, AttemptStarted)
        return ResumedRun(new, "", begun.event.attempt, begun.seq)
    info = client.get_run(run)
    after = _newest_event_number(info)
    name = client.resume(run, checkpoint, spec, progress, recipe)
    return ResumedRun(run, name, info.status.attempt + 1, after)


def _newest_event_number(info: RunInfo) -> int:
    try:
        with RunReader(info.folder) as reader:
            return reader.last_seq()
    except NoStoreYet:
        return 0


def stop(run: str, *, now: bool) -> StoppingRun:
    """See `Engine.stop_run`."""
    try:
        info = client.get_run(run)
    except DamagedRun:
        if found := client.stop_unreadable(run):
            return _wait_for_supervisor(run, *found)
        raise
    if info.has_orphans:
        info = client.end_orphans(run, now=now)
        return StoppingRun(-1, f"The workers of run {run} have ended. {info.reason}")
    check_active(info)
    try:
        return StoppingRun(client.send(run, commands.Stop(now=now)))
    except StoppedBySignal as error:
        return StoppingRun(error.seq, str(error))


def check_active(info: RunInfo) -> None:
    """Raise CommandFailed if a run takes no commands here."""
    if info.state.is_over:
        raise CommandFailed(
            f"Run {info.id} is {info.state}, no longer active: `{call(f'show {info.id}')}` "
            "says how it went."
        )


def _wait_for_supervisor(run: str, pid: int, created: float) -> StoppingRun:
    """Wait until the supervisor of an unreadable run, which was asked to end, has ended."""
    start = f"Run {run} cannot be read."
    asked = f"Its supervisor, process {pid}, was asked by a signal to end"
    deadline = time.monotonic() + LONGEST_END
    while is_alive(pid, created):
        if time.monotonic() > deadline:
            text = f"{start} {asked}, but still lives after {LONGEST_END:.0f} s."
            raise CommandFailed(text)
        time.sleep(0.05)
    return StoppingRun(-1, f"{start} {asked}, and has ended.")


def queued_runs() -> list[QueuedRun]:
    """See `Engine.list_queue`."""
    tickets = sorted(device_queue.read(), key=lambda ticket: ticket.place == "waiting")
    has_gpus = not all(all_on_cpu(ticket.devices) for ticket in tickets)
    names = snapshot_once().display_names() if has_gpus else {}
    found = []
    for ticket in tickets:
        ahead = device_queue.ahead_of(ticket, tickets)
        devices = ", ".join(names.get(device, device) for device in ticket.devices)
        waits = device_queue.describe(ticket, ahead, names) if ahead else "Its turn has come."
        title = _title(ticket.run)
        found.append(QueuedRun(ticket.run, title, ticket.place, ticket.devices, devices, waits))
    return found


def _title(run: str) -> str:
    if run.startswith(device_queue.MEASUREMENT):
        return run
    try:
        return client.get_run(run).title
    except NoSuchRun:
        return f"#{run}"  # its folder was just removed


def read_details(info: RunInfo) -> RunDetails:
    """See `Engine.read_details`."""
    newest: dict[str, float] = {}
    chosen = None
    if info.status.attempt:
        with RunReader(info.folder) as reader:
            newest = reader.newest_values()
            found = reader.newest_event(lambda event: isinstance(event, RecipeChosen))
        chosen = found.event if found and isinstance(found.event, RecipeChosen) else None
    spec = info.spec
    return RunDetails(
        failure=failure_of(info),
        newest=newest,
        checkpoint=_newest_checkpoint(info) if info.status.checkpoint else "",
        python="" if spec.is_imported else python_of_run(info.folder, spec.interpreter),
        resuming=client.resume_meaning(info) if spec.is_script else "",
        chosen=chosen,
    )


def _newest_checkpoint(info: RunInfo) -> str:
    """Return the folder of the newest checkpoint, or which one is lost."""
    # An old store names a whole path, which is wrong once the data folder was moved.
    path = info.folder / checkpoint_files.FOLDER / Path(info.status.checkpoint).name
    if path.exists():
        return str(path)
    newest = max(checkpoint_files.folders(info.folder).values(), default=None)
    return f"{path.name} is not there any more" + (f"; the newest is {newest}" if newest else "")
