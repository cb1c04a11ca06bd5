"""What the window and the command line call: start runs, look at them, ask things of them."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine import catalog, paths
from engine import checkpoint as checkpoint_files
from engine.channel import CLOSED, CommandAccepted, Hello, connect, supervisor_pid
from engine.checkpoint import CheckpointDamaged, CheckpointInfo
from engine.commands import Command
from engine.continuation import format_problems, spec_elsewhere
from engine.device_names import is_logical_cpu
from engine.events import CommandRefused
from engine.problems import Problem, problems
from engine.process import is_alive, start_module
from engine.run_state import RunState, RunStatus
from engine.spec import RunSpec
from engine.spec_file import FILE_NAME as SPEC
from engine.spec_file import UnreadableSpec, read_spec, replaced_spec, write_spec
from engine.store_reader import RunReader
from engine.telemetry.probe import gpu_uuids

LONGEST_START = 20.0
"""Seconds within which a supervisor must have taken its run."""

LONGEST_ANSWER = 10.0
"""Seconds within which a supervisor must have taken a command."""


class CannotStart(Exception):
    """A run that could not be started. Its text is sentences; `problems` has them by field."""

    def __init__(self, found: list[Problem]) -> None:
        super().__init__("\n".join(problem.text for problem in found))
        self.problems = found


class CheckpointUnusable(CannotStart):
    """The checkpoint to resume from is damaged; the text names the file, and what to do."""

    def __init__(self, run_id: str, folder: Path, text: str) -> None:
        self.damaged = folder.name
        self.previous = checkpoint_files.newest_intact_before(folder)
        """The newest older checkpoint whose files are all as they were saved; or None."""

        if self.previous:
            text += (
                f" The one before it, {self.previous.name}, is intact: `python main.py resume "
                f"{run_id} --checkpoint {self.previous.name}` goes on from there."
            )
        else:
            text += " No older checkpoint is intact: start the run anew."
        super().__init__([Problem("", text)])


class NoSuchRun(Exception):
    """There is no such run, or nothing of it can be read; the text is a sentence."""


class RunUnreadable(NoSuchRun):
    """The run is there, but its files are damaged; the text is a sentence."""


class CommandFailed(Exception):
    """A command that did not reach the run, or that it refused; the text is a sentence."""


class RunInfo(NamedTuple):
    """One run as it is now."""

    id: str
    folder: Path
    spec: RunSpec
    status: RunStatus
    state: RunState
    """The truth, with the operating system asked whether the supervisor lives."""

    reason: str

    @property
    def title(self) -> str:
        """`digits · ddp × 2 · #7`."""
        name = self.spec.name or Path(self.spec.recipe).stem
        strategy = self.spec.strategy.rpartition("/")[2]
        count = f" × {len(self.spec.devices)}" if len(self.spec.devices) > 1 else ""
        return f"{name} · {strategy}{count} · #{self.id}"


class UnreadableRun(NamedTuple):
    """A run of which nothing can be shown: its files are damaged."""

    id: str
    folder: Path
    reason: str
    """A sentence: which file, and what is wrong with it."""


def check(spec: RunSpec) -> list[Problem]:
    """Every reason why `spec` cannot run on this machine now; asks NVML only about GPU runs."""
    try:
        recipe = catalog.recipe(spec.recipe)
    except catalog.UnknownName as error:
        return [Problem("recipe", str(error))]
    try:
        strategy = catalog.strategy(spec.strategy, recipe)
    except catalog.UnknownName as error:
        return [Problem("strategy", str(error))]
    known = () if all(is_logical_cpu(device) for device in spec.devices) else gpu_uuids()
    return problems(spec, recipe, strategy, known)


def start(spec: RunSpec) -> str:
    """Start a run and return its id as soon as its supervisor has taken it.

    The run goes on when this process ends. Raises CannotStart.
    """
    found = check(spec)
    if found:
        raise CannotStart(found)
    recipe = catalog.recipe(spec.recipe)
    try:
        folder = paths.create_run_folder()
        write_spec(folder, spec, recipe)
    except (OSError, ValueError) as error:  # ValueError: text that no file can hold
        raise CannotStart([Problem("", f"The run folder cannot be written: {error}.")]) from error
    try:
        _start_supervisor(folder)
    except CannotStart:
        if not (folder / "run.sqlite").exists():
            shutil.rmtree(folder, ignore_errors=True)  # nothing happened that is worth keeping
        raise
    return folder.name


def resume(
    run_id: str,
    checkpoint: Path | None = None,
    *,
    strategy: str | None = None,
    devices: tuple[str, ...] | None = None,
) -> None:
    """Let a run that is over go on from `checkpoint` (default: its newest), whose files are read
    and compared with their checksums; that takes a while for a large one.

    With another strategy or other devices it continues on those: its `spec.toml` is rewritten.
    Raises NoSuchRun, CheckpointUnusable or CannotStart.
    """
    info = look(run_id)
    if not info.state.can_resume:
        what = "has finished all its epochs" if info.state.is_over else f"is {info.state}"
        raise CannotStart([Problem("", f"Run {run_id} {what}: there is nothing to resume.")])
    available = list(checkpoint_files.folders(info.folder).values())
    if checkpoint is None and not available:
        raise CannotStart([Problem("", f"Run {run_id} has no checkpoint to resume from.")])
    chosen = checkpoint or available[-1]
    if chosen not in available:
        raise CannotStart([Problem("", f"Run {run_id} has no checkpoint {chosen.name}.")])
    try:
        spec = spec_elsewhere(info.spec, strategy, devices)
    except catalog.UnknownName as error:
        raise CannotStart([Problem("strategy", str(error))]) from None
    found = check(spec) or format_problems(chosen, spec)
    if found:
        raise CannotStart(found)
    try:
        checkpoint_files.verify(chosen)
    except CheckpointDamaged as error:
        raise CheckpointUnusable(run_id, chosen, str(error)) from error
    if spec == info.spec:
        _start_supervisor(info.folder, "--resume", chosen.name)
        return
    with replaced_spec(info.folder, spec, info.status.attempt + 1):
        _start_supervisor(info.folder, "--resume", chosen.name)


def look(run_id: str) -> RunInfo:
    """The run `run_id` as it is now. Raises NoSuchRun."""
    folder = paths.run_folder(run_id)
    if run_id not in paths.run_ids():
        raise NoSuchRun(
            f"There is no run {run_id}: `python main.py runs` lists the runs there are."
        )
    try:
        spec = read_spec(folder)
        status = _read_status(folder)
        state = state_of(status)
        if state is RunState.INTERRUPTED:
            # Its last word may have come between reading the store and asking for the process.
            status = _read_status(folder)
            state = _state_in(folder, status)
    except (UnreadableSpec, sqlite3.Error, msgspec.DecodeError) as error:
        raise RunUnreadable(f"Run {run_id} cannot be read: {error}") from error
    reason = status.reason
    if state is RunState.INTERRUPTED:
        reason = (
            "Its supervisor is gone without a word: the machine was restarted or it was killed."
        )
        status = _with_newest_checkpoint(folder, status)
    return RunInfo(run_id, folder, spec, status, state, reason)


def _with_newest_checkpoint(folder: Path, status: RunStatus) -> RunStatus:
    """A checkpoint may be complete while the word of it, as the last word of all, was lost."""
    found = checkpoint_files.folders(folder)
    step = max(found, default=-1)
    if step <= status.checkpoint_step:
        return status
    return msgspec.structs.replace(status, checkpoint=str(found[step]), checkpoint_step=step)


def runs() -> list[RunInfo]:
    """Every run that can be read, newest first."""
    return [found for found in all_runs() if isinstance(found, RunInfo)]


def all_runs() -> list[RunInfo | UnreadableRun]:
    """Every run, newest first."""
    found = map(look_anyway, paths.run_ids())
    return [run for run in found if run is not None]


def look_anyway(run_id: str) -> RunInfo | UnreadableRun | None:
    """The run `run_id` as it is now, or what is wrong with it; None when there is none yet, or
    not any more."""
    folder = paths.run_folder(run_id)
    try:
        return look(run_id)
    except RunUnreadable as error:
        if not (folder / SPEC).exists() and _is_new(folder):
            return None
        return UnreadableRun(run_id, folder, str(error))
    except NoSuchRun:
        return None


def run_checkpoints(run_id: str) -> list[CheckpointInfo]:
    """The complete checkpoints of a run, oldest first."""
    return checkpoint_files.checkpoints(paths.run_folder(run_id))


def state_of(status: RunStatus) -> RunState:
    """The state of a run, by its last event and by whether its supervisor's process lives."""
    if status.state.is_over or is_alive(status.supervisor_pid, status.supervisor_created):
        return status.state
    return RunState.INTERRUPTED


def _state_in(folder: Path, status: RunStatus) -> RunState:
    """Like `state_of`, for a run whose supervisor may not have written its first word yet."""
    return RunState.STARTING if status.attempt == 0 and _is_new(folder) else state_of(status)


def _is_new(folder: Path) -> bool:
    """Whether the run in `folder` may be just beginning."""
    try:
        return time.time() - folder.stat().st_mtime < LONGEST_START
    except OSError:
        return True  # it was given up at once


def send(run_id: str, command: Command) -> int:
    """Ask something of a run. Returns a number: the answer is an event after it in the store.

    Raises CommandFailed when the run is over or refuses.
    """
    folder = paths.run_folder(run_id)
    try:
        channel = connect(folder, Hello(rank=-1))
    except OSError:
        raise CommandFailed(f"Run {run_id} is not active: it takes no commands.") from None
    try:
        channel.send(command)
        answer = channel.receive(LONGEST_ANSWER)
    except (*CLOSED, TimeoutError, msgspec.DecodeError):
        raise CommandFailed(f"Run {run_id} did not answer: it may have just ended.") from None
    finally:
        channel.close()
    match answer:
        case CommandAccepted(seq):
            return seq
        case CommandRefused(_, reason):
            raise CommandFailed(reason)
        case _:
            raise CommandFailed(f"Run {run_id} gave an answer that makes no sense: {answer!r}.")


def _read_status(folder: Path) -> RunStatus:
    if not (folder / "run.sqlite").exists():
        return RunStatus()
    try:
        with RunReader(folder) as reader:
            return reader.status()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return RunStatus()  # the supervisor is just making it
        raise


def _start_supervisor(folder: Path, *arguments: str) -> None:
    """Start a supervisor for the run in `folder` and wait until it has taken it."""
    log = folder / "logs" / "supervisor.log"
    process = start_module("engine.supervisor", str(folder), *arguments, log=log, own_session=True)
    # It outlives us or not; if not, somebody has to take note of its end.
    threading.Thread(target=process.wait, daemon=True, name="reap").start()
    deadline = time.monotonic() + LONGEST_START
    while supervisor_pid(folder) != process.pid:
        if process.poll() is not None:
            if process.returncode == 0:
                return  # it was that quick
            lines = log.read_text(errors="replace").strip().splitlines()
            text = lines[-1] if lines else f"exit code {process.returncode}"
            raise CannotStart([Problem("", f"The run could not be started: {text}")])
        if time.monotonic() > deadline:
            process.kill()
            text = f"The supervisor did not start within {LONGEST_START:.0f} s: see {log}."
            raise CannotStart([Problem("", text)])
        time.sleep(0.01)
