"""The current state of a run, from its folder and the process of its supervisor."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from engine.files.ownership import folder_problem
from engine.messages import status_question
from engine.messages.events import Failure, RunEnded
from engine.messages.heartbeat import last_beat
from engine.processes import presence
from engine.processes.machine import is_here
from engine.processes.process import is_alive
from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_notes import RunNotes, UnreadableNotes, read_notes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store.store_reader import NoStoreYet, RunReader, StoredEvent, read_store
from engine.spec.device_names import machines_of
from engine.spec.recipe_file import script_name
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import FILE_NAME as SPEC
from engine.spec.spec_file import SpecTooNew, UnreadableSpec, read_spec
from engine.system import paths
from engine.system.program import call

LONGEST_START = 60.0
"""Seconds that a supervisor has to start."""

SILENT_SECONDS = 3.0
"""Without a sign of life for so long, a supervisor is asked what the store may not tell."""

SUPERVISOR = "supervisor"
"""The kind of trouble, in a `RunStatus`, of a supervisor that does not answer or cannot record."""


class NoSuchRun(Exception):
    """The run does not exist or cannot be read; the text is a sentence."""


class DamagedRun(NoSuchRun):
    """The run exists, but its files are damaged; the text is a sentence."""


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """What the list of runs knows of the facts of a run; an old run has none."""

    commit: str = ""
    """Of the repository that the recipe or the script lies in."""

    branch: str = ""
    is_dirty: bool = False
    """Whether files of the repository were changed since."""

    host: str = ""
    parent: str = ""
    """The run from whose checkpoint this one goes on."""

    parent_step: int = 0
    """The step of that checkpoint."""


@lru_cache(1000)
def _name_of(recipe: str) -> str:
    return script_name(Path(recipe))


class RunInfo(NamedTuple):
    """The current state of one run."""

    id: str
    folder: Path
    spec: RunSpec
    status: RunStatus
    state: RunState
    """The stored state; INTERRUPTED if the supervisor is dead."""

    reason: str
    notes: RunNotes = RunNotes()
    best: Mapping[str, BestFigure] = MappingProxyType({})
    """By validation metric; only `engine.runs.run_index` asks for it."""

    has_orphans: bool = False
    """Whether it is INTERRUPTED, and workers that its supervisor has left have not ended yet."""

    is_recorded: bool = True
    """False: the supervisor told the state, which the store could not take."""

    origin: Origin = Origin()
    """From its recorded facts; only `engine.runs.run_index` sets it."""

    @property
    def name(self) -> str:
        """The display name; several runs may have the same name."""
        return self.notes.name or self.spec.name or _name_of(self.spec.recipe)

    @property
    def epochs(self) -> int:
        """Epochs that are planned; 0: not known, or its length is not counted in epochs."""
        if self.spec.is_script or self.spec.is_imported:
            return self.status.epochs
        return 0 if self.spec.steps else self.spec.epochs

    @property
    def can_resume(self) -> bool:
        """Whether Resume goes on with it: what was opened or imported was never trained here."""
        return self.state.can_resume and not self.spec.is_imported

    @property
    def can_continue(self) -> bool:
        """Whether it may go on: from a checkpoint, or from the beginning if it has none."""
        return self.can_resume or (self.state.is_over and bool(self.status.checkpoint))

    @property
    def title(self) -> str:
        """`digits · ddp × 2 · #7`."""
        strategy = self.spec.strategy.rpartition("/")[2]
        count = f" × {len(self.spec.devices)}" if len(self.spec.devices) > 1 else ""
        return f"{self.name} · {strategy}{count} · #{self.id}"


class UnreadableRun(NamedTuple):
    """A run whose files are damaged."""

    id: str
    folder: Path
    reason: str
    """A sentence with the file and the problem."""


class Present(NamedTuple):
    """What is known of a run at present: its store may be behind."""

    status: RunStatus
    state: RunState
    is_recorded: bool = True
    """False: the supervisor told this."""

    unrecorded: Sequence[StoredEvent] = ()
    """Events that the store does not hold; each has the number that it will have there."""


def get_run(run_id: str, *, patience: float = 0.0, with_best: bool = False) -> RunInfo:
    """Return the current state of the run `run_id`. Raises NoSuchRun.

    A silent supervisor is asked; `patience` are the seconds to wait for its answer. Without it, the
    answer to an earlier question counts. `with_best`: with `RunInfo.best`.
    """
    folder = paths.run_folder(run_id)
    if not paths.is_run(run_id):
        raise NoSuchRun(f"There is no run {run_id}: `{call('runs')}` lists the runs there are.")
    try:
        if problem := folder_problem(folder):
            raise DamagedRun(f"Run {run_id} cannot be used: {problem}.")
        spec = read_spec(folder)
        stored, best = _read_store(folder, with_best=with_best)
        status, state, is_recorded, _ = present(folder, stored, patience)
        if state is RunState.INTERRUPTED:
            # The supervisor may have ended between the two lines above, or may not have started.
            status, best = _read_store(folder, with_best=with_best)
            is_starting = status.attempt == 0 and _is_new(folder)
            state = RunState.STARTING if is_starting else state_of(status)
    except SpecTooNew as error:
        raise DamagedRun(f"Run {run_id} cannot be read: {error}") from error
    except UnreadableSpec as error:
        raise DamagedRun(
            f"Run {run_id} cannot be read: {error} `{call(f'fsck {run_id} --repair')}` restores "
            "them if its store has a copy."
        ) from error
    except (sqlite3.Error, OSError) as error:
        raise DamagedRun(f"Run {run_id} cannot be read: {error}") from error
    reason = status.reason
    has_orphans = state is RunState.INTERRUPTED and presence.is_held(paths.workers_lock(folder))
    if state is RunState.INTERRUPTED:
        causes = "the machine was restarted, it was killed, or a disk did not take its end"
        if len(machines_of(spec.devices)) > 1:  # Ray ends a supervisor that has lost it
            causes = f"the head of the cluster has ended, {causes}"
        reason = f"Its supervisor is gone: {causes}."
        if has_orphans:
            reason = (
                "Its supervisor was killed: its workers save a checkpoint and leave, within "
                f"{spec.orphan_seconds:g} s unless a save takes longer."
            )
        status = _with_newest_checkpoint(folder, status)
    elif state.is_over and not is_recorded:
        reason = f"{reason} {status.troubles[SUPERVISOR]}"
    try:
        notes = read_notes(folder)
    except UnreadableNotes as error:
        notes = RunNotes(note=str(error))
    return RunInfo(
        run_id,
        folder,
        spec,
        status,
        state,
        reason,
        notes,
        best,
        has_orphans=has_orphans,
        is_recorded=is_recorded,
    )


def _with_newest_checkpoint(folder: Path, status: RunStatus) -> RunStatus:
    """Add the newest checkpoint to `status`, because the supervisor may have lost its event."""
    found = checkpoint_files.folders(folder)
    step = max(found, default=-1)
    if step <= status.checkpoint_step:
        return status
    return msgspec.structs.replace(status, checkpoint=str(found[step]), checkpoint_step=step)


def failure_of(info: RunInfo) -> Failure | None:
    """Return why the run has failed; None if it has not, or nothing was recorded about it.

    Raises sqlite3.Error.
    """
    if info.state is not RunState.FAILED or not info.status.attempt:
        return None
    with RunReader(info.folder) as reader:
        found = reader.newest_event(lambda event: isinstance(event, RunEnded))
    ended = found.event if found else None
    return ended.failure if isinstance(ended, RunEnded) and ended.state == info.state else None


def runs() -> list[RunInfo]:
    """Return every readable run, newest first; `engine.runs.run_index` is faster."""
    return [found for found in all_runs() if isinstance(found, RunInfo)]


def all_runs() -> list[RunInfo | UnreadableRun]:
    """Return every run, newest first."""
    found = map(try_get_run, paths.run_ids())
    return [run for run in found if run is not None]


def try_get_run(
    run_id: str, patience: float = 0.0, *, with_best: bool = False
) -> RunInfo | UnreadableRun | None:
    """Return the run `run_id`, or why it is unreadable; None if it does not exist."""
    folder = paths.run_folder(run_id)
    try:
        return get_run(run_id, patience=patience, with_best=with_best)
    except DamagedRun as error:
        if _lacks(folder / SPEC) and _is_new(folder):
            return None
        return UnreadableRun(run_id, folder, str(error))
    except NoSuchRun:
        return None


def run_checkpoints(run_id: str) -> list[CheckpointInfo]:
    """Return the complete checkpoints of a run, oldest first."""
    return checkpoint_files.checkpoints(paths.run_folder(run_id))


def present(folder: Path, stored: RunStatus, patience: float = 0.0) -> Present:
    """Return what is known of the run in `folder`, whose store holds the status `stored`.

    See `get_run` for `patience`.
    """
    state = state_of(stored)
    beat = 0.0 if state.is_over else last_beat(folder)
    silence = time.time() - max(beat, stored.updated)
    if not beat or silence < SILENT_SECONDS:
        return Present(stored, state)
    reply = status_question.ask(folder, patience)
    if reply is None:
        return Present(stored, state)
    answer = reply.answer
    if answer is None:
        text = "Its supervisor does not answer: it hangs, or was halted. This state may be old."
        return Present(_with_trouble(stored, text), state)
    if not answer.write_problem and answer.standstill < SILENT_SECONDS:
        return Present(stored, state)
    try:
        told = msgspec.msgpack.decode(answer.status, type=RunStatus)
    except msgspec.DecodeError:  # of another version
        return Present(stored, state)
    if told.state.is_over:
        text = (
            f"This end could not be recorded: {answer.write_problem}. Soon, the run is shown as "
            "interrupted, and a resume goes on from its last checkpoint."
        )
    elif answer.write_problem:
        text = (
            f"Its supervisor cannot record what happens: {answer.write_problem}. It keeps all in "
            "memory, and tells this state."
        )
    else:
        text = "Its supervisor tells this state, but waits for a disk that does not answer."
    events = [StoredEvent(*event) for event in answer.events]
    return Present(_with_trouble(told, text), told.state, is_recorded=False, unrecorded=events)


def _with_trouble(status: RunStatus, text: str) -> RunStatus:
    return msgspec.structs.replace(status, troubles=status.troubles | {SUPERVISOR: text})


def state_of(status: RunStatus) -> RunState:
    """Return the state of a run: from `status`, or INTERRUPTED if its supervisor has ended."""
    if status.state.is_over:
        return status.state
    if is_here(status.machine) and is_alive(status.supervisor_pid, status.supervisor_created):
        return status.state
    return RunState.INTERRUPTED


def _lacks(path: Path) -> bool:
    """Whether there is no file `path`; a disk that does not tell is no reason to say so."""
    try:
        return not path.exists()
    except OSError:
        return False


def _is_new(folder: Path) -> bool:
    """Whether the run in `folder` was created so recently that it may be starting."""
    # Reading a store changes the time of its folder, but not that of every file.
    times = []
    with contextlib.suppress(OSError):  # not there yet, or removed
        times.append(folder.stat().st_mtime)
        times += [path.lstat().st_mtime for path in folder.iterdir()]
    return not times or time.time() - min(times) < LONGEST_START


_BESIDE_STORE = ("run.sqlite-wal", "run.sqlite-shm", "run.backup.sqlite")
"""What only a run has that had a store."""


def _read_store(folder: Path, *, with_best: bool) -> tuple[RunStatus, Mapping[str, BestFigure]]:
    if not (folder / "run.sqlite").exists():
        traces = [folder / name for name in _BESIDE_STORE if (folder / name).exists()]
        if traces and not (folder / "run.sqlite").exists():  # it was not made just now
            raise DamagedRun(
                f"Run {folder.name} cannot be read: its store, run.sqlite, was deleted. "
                f"`{call(f'fsck {folder.name} --repair')}` restores it if there is a backup."
            )
        return RunStatus(), {}
    try:
        return read_store(folder, _status_and_best if with_best else _status_alone)
    except NoStoreYet:
        return RunStatus(), {}


def _status_and_best(reader: RunReader) -> tuple[RunStatus, Mapping[str, BestFigure]]:
    status = reader.status()
    try:
        return status, best_figures(reader, status.metric_directions)
    except sqlite3.Error:
        return status, {}  # the status alone says how the run stands


def _status_alone(reader: RunReader) -> tuple[RunStatus, Mapping[str, BestFigure]]:
    return reader.status(), {}
