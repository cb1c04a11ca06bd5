"""Runs of this machine: checked, started, resumed, commanded, and freed of orphaned processes."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from filelock import FileLock, Timeout

from engine.cluster import membership
from engine.environments.gpu_builds import gpu_problem
from engine.facts.run_facts import Parent, Planning, write_parent, write_planning
from engine.files.atomic_file import sync_to_disk, sync_tree
from engine.files.regular_file import LARGEST_JSON, UnfitFile, read_regular
from engine.files.save_progress import TimeToSave
from engine.messages.channel import (
    CLOSED,
    CONTROL_FILE,
    CommandAccepted,
    Hello,
    connect,
    supervisor_pid,
)
from engine.messages.commands import Command, Stop
from engine.messages.events import CommandRefused, RecipeVersion
from engine.messages.heartbeat import last_beat
from engine.messages.status_question import ANSWER_SECONDS
from engine.processes import process_tree
from engine.processes.machine import this_machine
from engine.processes.process import ask_to_end, find_module, is_halted, start_module
from engine.runs import run_info
from engine.runs.checkpoints import checkpoint_files, checkpoint_place
from engine.runs.checkpoints.checkpoint_files import (
    BEGINNING,
    OWN,
    CheckpointDamaged,
    CheckpointTooNew,
    Watch,
)
from engine.runs.checkpoints.checkpoint_place import PlaceAway
from engine.runs.checkpoints.script_files import resume_sentence
from engine.runs.resume_rules import change_problems, recipe_changes
from engine.runs.run_copy import copy_run
from engine.runs.run_info import (
    LONGEST_START,
    DamagedRun,
    NoSuchRun,
    RunInfo,
    UnreadableRun,
    run_checkpoints,
    runs,
)
from engine.runs.run_notes import RunNotes, ordered_tags, write_notes
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.scripts.secrets import missing_secrets
from engine.spec import catalog, recipe_copy
from engine.spec.device_names import all_on_cpu, machines_of
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import command_problems, resumes_by_calls
from engine.spec.spec_file import (
    newer_settings,
    replaced_spec,
    with_fingerprints,
    without_secrets,
    write_spec,
)
from engine.spec.validation import Problem, problems, secret_problems
from engine.spec.worker_python import interpreter_problems
from engine.system import paths
from engine.system.program import call
from engine.telemetry.given_gpus import GivenGpus, given_gpus
from engine.telemetry.gpu_makers import gpu_maker
from engine.telemetry.helper_client import snapshot_once

_log = logging.getLogger(__name__)

__all__ = [
    "CannotStart",
    "CheckpointUnusable",
    "CommandFailed",
    "DamagedRun",
    "NoSuchRun",
    "RecipeChanged",
    "RunInfo",
    "StoppedBySignal",
    "UnreadableRun",
    "add_checkpoint",
    "check",
    "end_orphans",
    "get_run",
    "halted_sentence",
    "recipe_changes",
    "resume",
    "resume_as_new",
    "resume_meaning",
    "run_checkpoints",
    "runs",
    "send",
    "start",
    "stop_unreadable",
    "unreadable_reason",
]

_SUPERVISOR = "engine.supervisor"

ORPHAN_MARGIN = 5.0
"""Seconds after the time for orphaned workers in which they are ended without being asked here."""

LONGEST_KILL = 10.0
"""Seconds that killed workers have to end."""

ELSEWHERE_SECONDS = 120.0
"""Time without a sign of life after which a run of another machine may be resumed here."""

LONGEST_ANSWER = 10.0
"""Seconds that a supervisor has to accept or refuse a command."""


class CannotStart(Exception):
    """The run could not be started. The text has one sentence per problem in `problems`."""

    def __init__(self, found: list[Problem]) -> None:
        super().__init__("\n".join(problem.text for problem in found))
        self.problems = found


class CheckpointUnusable(CannotStart):
    """The checkpoint to resume from is damaged; the text names the file and a solution."""

    def __init__(self, run_id: str, folder: Path, text: str, watch: Watch | None = None) -> None:
        self.damaged = folder.name
        self.previous = checkpoint_files.newest_intact_before(folder, watch)
        """The newest older checkpoint whose checksums are correct, or None."""

        if self.previous:
            text += (
                f" The one before it, {self.previous.name}, is intact: `"
                f"{call(f'resume {run_id} --checkpoint {self.previous.name}')}` goes on from there."
            )
        else:
            text += (
                " No older checkpoint is intact: start a new run, or let this one start again with "
                f"`{call(f'resume {run_id} --checkpoint {BEGINNING}')}`."
            )
        super().__init__([Problem("", text)])


class RecipeChanged(CannotStart):
    """The recipe has changed since the run's copy; the caller must say which one goes on."""

    def __init__(self, run_id: str, changes: str) -> None:
        self.changes = changes
        """In what both differ, such as `mine.py: 3 lines changed`."""

        command = call(f"resume {run_id} --recipe")
        text = (
            f"The recipe of run {run_id} has changed since its start ({changes}): say which one "
            f"goes on, `{command} {RecipeVersion.AS_IT_WAS}` or `{RecipeVersion.AS_IT_IS_NOW}`."
        )
        super().__init__([Problem("", text)])


class CommandFailed(Exception):
    """The command did not reach the run, or the run refused it; the text is a sentence."""


class StoppedBySignal(CommandFailed):
    """A Stop did not reach the run, whose supervisor got a signal instead."""

    def __init__(self, text: str, seq: int) -> None:
        super().__init__(text)
        self.seq = seq
        """The newest event before the signal."""


def check(spec: RunSpec, recipe: RecipeInfo | None = None) -> list[Problem]:
    """Return every reason why `spec` cannot run on this machine now; queries NVML only for GPUs.

    `recipe`: the one of an existing run; None: that of the spec, as it is now.
    """
    if spec.is_imported:
        return [Problem("", f"What was imported from {spec.imported_from} cannot be trained.")]
    try:
        recipe = recipe or catalog.recipe_of(spec)
    except catalog.UnknownName as error:
        return [Problem("recipe", str(error))]
    try:
        strategy = catalog.strategy(spec.strategy, recipe)
    except catalog.UnknownName as error:
        return [Problem("strategy", str(error))]
    on_cpu = all_on_cpu(spec.devices)
    given = GivenGpus(()) if on_cpu else given_gpus(snapshot_once())
    found = problems(
        spec, recipe, strategy, given.uuids, given.refusal, is_in_cluster=_is_in_cluster(spec)
    )
    if not (on_cpu or any(problem.field == "devices" for problem in found)):
        text = gpu_problem(strategy.framework, spec.interpreter, gpu_maker(spec.devices[0]))
        found += [Problem("devices", text)] if text else []
    if not spec.is_script:
        return found + interpreter_problems(spec, recipe, strategy)
    of_command = command_problems(spec, strategy)
    if any(problem.field == "command" for problem in of_command):  # it says more
        found = [problem for problem in found if problem.field != "recipe"]
    return found + of_command


def _is_in_cluster(spec: RunSpec) -> bool:
    """Whether this machine is in a cluster, if `spec` has devices of other machines."""
    try:
        return any(machines_of(spec.devices)) and membership.cluster() is not None
    except membership.ClusterError:
        return False


def get_run(run_id: str) -> RunInfo:
    """Return the current state of the run `run_id`. Raises NoSuchRun.

    If its supervisor is silent, wait for its answer: a window calls `run_info.get_run` instead.
    """
    try:
        return run_info.get_run(run_id, patience=ANSWER_SECONDS)
    except DamagedRun as error:
        raise DamagedRun(unreadable_reason(run_id, str(error))) from error


def unreadable_reason(run_id: str, reason: str) -> str:
    """Add to the `reason` why a run cannot be read which supervisor of it still lives."""
    if not (found := _supervisor_process(run_id)):
        return reason
    return (
        f"{reason.rstrip('.')}. Its supervisor, process {found[0]}, still lives: "
        f"`{call(f'stop {run_id}')}` ends it."
    )


def stop_unreadable(run_id: str) -> process_tree.Identity | None:
    """Ask the supervisor of a run that cannot be read by a signal to end the run.

    Return its process; None if there is none.
    """
    found = _supervisor_process(run_id)
    if found and ask_to_end(*found):
        _log.info("run %s: SIGTERM for its supervisor, process %d", run_id, found[0])
        return found
    return None


def _supervisor_process(run_id: str) -> process_tree.Identity | None:
    """Return the run's supervisor, which is found without its folder; None if it has none."""
    return find_module(_SUPERVISOR, str(paths.run_folder(run_id)))


def start(
    spec: RunSpec,
    tags: Iterable[str] = (),
    planning: Planning | None = None,
    copied_in: Path | None = None,
) -> str:
    """Start a run and return its id as soon as its supervisor runs; `tags` go to its notes.

    `planning`: what was measured before it, of which the run keeps a copy. `copied_in`: a folder
    with the copy of the recipe to train; None: the recipe as it is now. The run continues when
    this process ends. Raises CannotStart.
    """
    copy = recipe_copy.recipe_of_run(copied_in, spec) if copied_in else None
    if found := check(spec, copy):
        raise CannotStart(found)
    spec, secrets = without_secrets(spec)
    recipe = copy or catalog.recipe_of(spec)
    if found := secret_problems(spec, recipe):
        raise CannotStart(found)
    folder = None
    try:
        folder = paths.create_run_folder()
        spec = with_fingerprints(spec, {**os.environ, **secrets})
        write_spec(folder, spec, recipe)
        if ordered := ordered_tags(tags):
            write_notes(folder, RunNotes(tags=ordered))
        if planning is not None:
            write_planning(folder, planning)
        sync_tree(folder)  # before anything can be trained with it
    except (OSError, ValueError) as error:  # ValueError: text that no file can hold
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise _unwritable(error) from error
    try:
        _start_supervisor(folder, secrets=secrets)
    except CannotStart:
        if not (folder / "run.sqlite").exists():
            shutil.rmtree(folder, ignore_errors=True)  # it holds no events
        raise
    return folder.name


def resume(
    run_id: str,
    checkpoint: Path | None = None,
    spec: RunSpec | None = None,
    watch: Watch | None = None,
    recipe: RecipeVersion | None = None,
) -> str:
    """Resume an ended run from `checkpoint`, or from its newest checkpoint; return its name.

    A run that has none starts again from the beginning, and so does one whose `checkpoint` has the
    name BEGINNING, which is returned then. A script without the calls of `traindeck` starts its
    command again, with the resume arguments of its spec: OWN is returned.

    Verifies the checksums of the checkpoint, which takes minutes for a large one; `watch` follows
    this and may end it by an exception: nothing has changed then. `spec` replaces the settings of
    the run; a finished run needs more epochs. `recipe` says which one the run goes on with if it
    has changed. Raises NoSuchRun, CheckpointUnusable, RecipeChanged (if it has changed, and
    `recipe` is None) or CannotStart.
    """
    info, resumption = _check_resume(run_id, checkpoint, spec, watch, recipe)
    with _resume_lock(info):
        _start_attempt(info, resumption)
    return resumption.name


def resume_as_new(
    run_id: str,
    checkpoint: Path | None = None,
    spec: RunSpec | None = None,
    watch: Watch | None = None,
    recipe: RecipeVersion | None = None,
) -> str:
    """Start a new run from a checkpoint of the run `run_id`, which does not change; return its id.

    The new run has the curves up to the checkpoint. Its name contains the name of the old run,
    unless `spec` has a new name. Arguments and exceptions are those of `resume`.
    """
    info, resumption = _check_resume(run_id, checkpoint, spec, watch, recipe)
    if (saved := resumption.checkpoint) is None:
        text = f"Run {run_id} has no checkpoint that a new run could continue from: resume this "
        raise CannotStart([Problem("", f"{text}one, or start a new run with its settings.")])
    if resumption.spec.name == info.spec.name:
        named = msgspec.structs.replace(resumption.spec, name=f"{info.name} from #{run_id}")
        resumption = resumption._replace(spec=named)
    try:
        folder = copy_run(info.folder, saved)
    except (OSError, sqlite3.Error) as error:
        text = f"Run {run_id} cannot be copied to a new run: {error}."
        raise CannotStart([Problem("", text)]) from error
    try:
        write_parent(folder, Parent(run=run_id, checkpoint=saved.name))
        _start_attempt(get_run(folder.name), resumption)
    except (CannotStart, NoSuchRun):
        shutil.rmtree(folder, ignore_errors=True)  # it held only copies
        raise
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _unwritable(error) from error
    return folder.name


def start_replay(folder: Path, saved: Path | None, attempt: int, spec: RunSpec) -> str:
    """Train again in this data folder what a run did after its checkpoint `saved`; return the id.

    `folder`: of the run, which may be in another data folder; it does not change, and may train.
    `saved` is intact; None: from the beginning. `attempt`: the one whose copy of the recipe is
    trained, with the settings `spec`. Raises CannotStart, OSError, sqlite3.Error.
    """
    if saved is None:
        with tempfile.TemporaryDirectory() as copied:
            recipe_copy.copy_of_attempt_to(folder, Path(copied), attempt)
            has_copy = recipe_copy.has_copy(Path(copied))
            return start(spec, copied_in=Path(copied) if has_copy else None)
    new = copy_run(folder, saved, attempt)
    recipe = recipe_copy.recipe_of_run(new, spec)
    if found := check(spec, recipe):
        raise CannotStart(found)
    how = _Resumption(
        new / checkpoint_files.FOLDER / saved.name, spec, recipe, RecipeVersion.AS_IT_WAS, "",
        saved.name, {},
    )  # fmt: skip
    _start_attempt(get_run(new.name), how)
    return new.name


def add_checkpoint(info: RunInfo, step: int) -> Path:
    """Complete the checkpoint of a step whose files were copied to a run that is over.

    One of that step that is there already stays as it is, unless it is damaged. Returns its folder.
    Raises CannotStart if the files are damaged or the run goes on meanwhile; the copy is deleted
    then.
    """
    copied = checkpoint_files.temporary_folder(info.folder, step)
    final = checkpoint_files.final_folder(info.folder, step)
    try:
        checkpoint_files.verify(copied)
        with _resume_lock(info):
            there = checkpoint_files.folders(info.folder).get(step)
            if there is not None and _is_damaged(there):
                checkpoint_files.remove(there)
            if not final.exists():
                sync_tree(copied)
                copied.rename(final)
                sync_to_disk(final.parent)
    except CheckpointDamaged as error:
        raise CannotStart([Problem("", str(error))]) from error
    except OSError as error:
        raise _unwritable(error) from error
    finally:
        shutil.rmtree(copied, ignore_errors=True)
    return final


def _is_damaged(saved: Path) -> bool:
    """Whether a checkpoint is of no use; one of a newer version is, elsewhere."""
    try:
        checkpoint_files.verify(saved)
    except CheckpointTooNew:
        return False
    except CheckpointDamaged:
        return True
    return False


def resume_meaning(info: RunInfo, spec: RunSpec | None = None) -> str:
    """Return what resuming a run of a script means, with its settings or those of `spec`."""
    recipe = recipe_copy.recipe_of_run(info.folder, info.spec)
    by_calls = resumes_by_calls(spec or info.spec, recipe)
    return resume_sentence(info.folder, spec or info.spec, by_calls=by_calls)


_LOST = "the run's own copy was lost"


class _Resumption(NamedTuple):
    checkpoint: Path | None
    """None: from the beginning."""

    spec: RunSpec
    recipe: RecipeInfo
    """The one to go on with."""

    version: RecipeVersion
    changes: str
    """In what the recipe has changed; empty: there was nothing to choose."""

    name: str
    """The name of the checkpoint, BEGINNING, or OWN."""

    secrets: Mapping[str, str]
    """Environment variables that the spec names without their values."""


def _check_resume(
    run_id: str,
    checkpoint: Path | None,
    spec: RunSpec | None,
    watch: Watch | None,
    version: RecipeVersion | None,
) -> tuple[RunInfo, _Resumption]:
    """Return the run, and how it goes on. Raises as `resume` does."""
    info = _without_orphans(run_id, watch)
    if info.spec.is_imported:
        text = f"Run {run_id} was imported from {info.spec.imported_from} and never trained here: "
        raise CannotStart([Problem("", f"{text}it cannot be resumed. Start a new run instead.")])
    if not info.state.is_over:
        text = f"Run {run_id} is {info.state}: stop it first, to let it go on from a checkpoint."
        raise CannotStart([Problem("", text)])
    if problem := _may_live_elsewhere(info):
        raise CannotStart([Problem("", problem)])
    spec, secrets = without_secrets(spec or info.spec)
    unit = "steps" if spec.steps else "epochs"
    done = info.status.step if spec.steps else info.spec.epochs
    is_done = info.state is RunState.FINISHED and not info.status.ended_early
    if checkpoint is None and is_done and spec.is_script:
        again = call(f"resume {run_id} --checkpoint {BEGINNING}")
        text = f"The command of run {run_id} has ended by itself: start it as a new run, or `"
        raise CannotStart([Problem("", f"{text}{again}` starts it again and removes its curves.")])
    if checkpoint is None and is_done and getattr(spec, unit) <= done:
        text = f"Run {run_id} has finished all its {unit}: to go on, choose more than {done}."
        raise CannotStart([Problem(unit, text)])
    current = recipe_copy.recipe_of_run(info.folder, spec)
    is_own = spec.is_script and not resumes_by_calls(spec, current)
    if is_own:
        _refuse_checkpoint_of_ours(info, checkpoint)
    chosen = None if is_own else _chosen_checkpoint(info, checkpoint)
    changes = recipe_changes(info)
    if spec.is_script and changes:
        version = RecipeVersion.AS_IT_IS_NOW  # it is run in its own place
    is_replaced = bool(changes) and version is RecipeVersion.AS_IT_IS_NOW
    is_left = info.status.attempt + 1 in recipe_copy.older_copies(info.folder)  # restored first
    if recipe_copy.has_copy(info.folder) and not is_replaced and not is_left:
        _check_copy(info)
    recipe: RecipeInfo | None = current
    if not recipe_copy.has_copy(info.folder) and recipe_copy.is_copied(current):
        version, changes = RecipeVersion.AS_IT_IS_NOW, _LOST
    if version is RecipeVersion.AS_IT_IS_NOW:
        recipe = None  # refused below if the file is gone
    found = []
    if newer := newer_settings(info.folder):
        text = f"Run {run_id} is of a newer version of Traindeck, with settings that this one does "
        found.append(Problem("", f"{text}not know ({', '.join(newer)}): upgrade Traindeck."))
    if missing := missing_secrets(spec.secret_variables, {**os.environ, **secrets}):
        text = f"Run {run_id} needs the variables {', '.join(missing)}, whose values are not "
        text += "stored: set them in the environment, or give them once more: with --var, or in "
        text += "the window with the changes of a resume."
        found.append(Problem("variables", text))
    try:
        manifest = checkpoint_files.read_manifest(chosen) if chosen else None
        found += change_problems(info, spec, manifest)
        if changes and version is None and not found:  # neither recipe would go on otherwise
            raise RecipeChanged(run_id, changes)
        found = check(spec, recipe) + secret_problems(spec, current, info.spec.settings) + found
        if found:
            raise CannotStart(found)
        if chosen:
            checkpoint_files.verify(chosen, watch)
    except CheckpointDamaged as error:
        assert chosen is not None
        raise CheckpointUnusable(run_id, chosen, str(error), watch) from error
    recipe = recipe or catalog.recipe_of(spec)
    spec = with_fingerprints(spec, {**os.environ, **secrets})
    name = chosen.name if chosen else BEGINNING
    if is_own and checkpoint is None:
        name = OWN
    version = version or RecipeVersion.AS_IT_WAS
    return info, _Resumption(chosen, spec, recipe, version, changes, name, secrets)


def _check_copy(info: RunInfo) -> None:
    """Raise CannotStart if the run's copy of its recipe is not the one that it trained."""
    has_begun = info.status.attempt > 0 or checkpoint_files.folders(info.folder)
    if not has_begun:  # its supervisor was killed before it had a store
        return
    try:
        with RunReader(info.folder) as reader:
            problem = recipe_copy.copy_problem(info.folder, reader.kept_files())
    except (sqlite3.Error, OSError) as error:
        text = f"Whether run {info.id} still has the recipe that it trained cannot be read: {error}"
        raise CannotStart([Problem("", f"{text}.")]) from error
    if problem:
        raise CannotStart([Problem("", problem)])


def _refuse_checkpoint_of_ours(info: RunInfo, wanted: Path | None) -> None:
    """Raise CannotStart if a script without our calls was to go on from a checkpoint of ours."""
    if wanted is None or wanted.name == BEGINNING:
        return
    if wanted not in checkpoint_files.folders(info.folder).values():
        raise CannotStart([Problem("", f"Run {info.id} has no checkpoint {wanted.name}.")])
    text = (
        f"{Path(info.spec.recipe).name} cannot go on from {wanted.name}: it holds the weights, and "
        "only the script knows how to load them. Resume without a checkpoint starts the command "
        "again, with the resume arguments of the run if it has some."
    )
    raise CannotStart([Problem("", text)])


def _chosen_checkpoint(info: RunInfo, wanted: Path | None) -> Path | None:
    """Return the checkpoint to resume from, `wanted` or the newest; None: from the beginning.

    Raises CannotStart if there is no such checkpoint, and OSError if the disk does not tell.
    """
    try:
        checkpoint_place.check(info.folder)
    except PlaceAway as error:
        raise CannotStart([Problem("", f"{error}.")]) from error
    if wanted is not None and wanted.name == BEGINNING:
        return None
    available = list(checkpoint_files.folders(info.folder).values())
    if wanted is not None and wanted not in available:
        raise CannotStart([Problem("", f"Run {info.id} has no checkpoint {wanted.name}.")])
    if wanted is not None or available:
        return wanted or available[-1]
    if info.state.can_resume and not info.status.checkpoint:
        return None
    text = f"Run {info.id} has no checkpoint to resume from"
    if info.status.checkpoint:  # its steps are lost only if the user wants that
        text += f": {Path(info.status.checkpoint).name} is not there any more"
    again = call(f"resume {info.id} --checkpoint {BEGINNING}")
    text += f". `{again}` trains it again from the beginning, and removes its curves."
    raise CannotStart([Problem("", text)])


def end_orphans(run_id: str, *, now: bool = False, watch: Watch | None = None) -> RunInfo:
    """Wait until the workers that a killed supervisor has left have saved, and return the run.

    Those that take longer than the run allows without a save that gets on, or all with `now`, are
    killed. Meanwhile `watch` is called with zeros, and may end the wait by an exception. Raises
    NoSuchRun, or CommandFailed if a worker cannot be ended.
    """
    info = get_run(run_id)
    seconds = 0.0 if now else info.spec.orphan_seconds + ORPHAN_MARGIN
    limit = TimeToSave(
        seconds, lambda: None if now else checkpoint_files.save_progress(info.folder)
    )
    while info.has_orphans:
        left = limit.left()
        if left <= 0:
            _log.info("run %s: kills its workers %s", run_id, info.status.worker_pids)
            process_tree.kill(
                zip(info.status.worker_pids, info.status.workers_created, strict=False)
            )
        if left <= -LONGEST_KILL:
            text = f"The workers of run {run_id} cannot be ended: see {info.folder / 'logs'}."
            raise CommandFailed(text)
        if watch is not None:
            watch(0, 0)
        time.sleep(0.05)
        info = get_run(run_id)
    return info


def _without_orphans(run_id: str, watch: Watch | None) -> RunInfo:
    """Return the run once no worker of an earlier attempt is left: two pools would both write it.

    Raises NoSuchRun and CannotStart.
    """
    try:
        return end_orphans(run_id, watch=watch)
    except CommandFailed as error:
        raise CannotStart([Problem("", str(error))]) from error


@contextmanager
def _resume_lock(info: RunInfo) -> Iterator[None]:
    """Hold the lock that lets only one process at a time resume the run.

    Raises CannotStart if another process holds it, or has resumed the run since `info` was read:
    the verification of a checkpoint can take minutes.
    """
    text = f"Run {info.id} was resumed by another window or command meanwhile: see how it is now."
    try:
        with FileLock(info.folder / "resume.lock", timeout=LONGEST_START, mode=0o600):
            now = get_run(info.id)
            if not now.state.is_over or now.status.attempt != info.status.attempt:
                raise CannotStart([Problem("", text)])
            yield
    except Timeout:
        raise CannotStart([Problem("", text)]) from None
    except OSError as error:
        raise _unwritable(error) from error


def _start_attempt(info: RunInfo, how: _Resumption) -> None:
    """Start the next attempt of the run of `info`."""
    folder, attempt = info.folder, info.status.attempt + 1
    arguments = ["--resume", how.name]
    if how.changes:
        arguments += ["--recipe", how.version, "--changes", how.changes]
    is_replaced = bool(how.changes) and how.version is RecipeVersion.AS_IT_IS_NOW
    try:
        with ExitStack() as undo:
            recipe_copy.restore_copy(folder, attempt)  # a killed process left it: it never started
            if how.changes == _LOST:
                recipe_copy.write_copy(folder, how.recipe)
            elif is_replaced:
                undo.enter_context(recipe_copy.replaced_copy(folder, how.recipe, attempt))
            if is_replaced or how.spec != info.spec:
                origin = how.recipe if is_replaced else None
                undo.enter_context(replaced_spec(folder, how.spec, attempt, origin))
            _start_supervisor(folder, *arguments, secrets=how.secrets)
    except (OSError, ValueError) as error:  # ValueError: text that no file can hold
        raise _unwritable(error) from error


def _may_live_elsewhere(info: RunInfo) -> str:
    """Return why an interrupted run of another machine must not train here yet; empty if it may.

    That machine does not use the data folder, unless its file system has no locks.
    """
    host = info.status.machine.host
    silence = time.time() - max(last_beat(info.folder), info.status.updated)
    is_of_another = host not in ("", this_machine().host)
    if info.state is not RunState.INTERRUPTED or not is_of_another or silence > ELSEWHERE_SECONDS:
        return ""
    return (
        f"Run {info.id} trained on {host}, and its last sign of life is {max(0.0, silence):.0f} s "
        f"old. If it still trains there, stop it there; if not, resume it in two minutes."
    )


def _unwritable(error: Exception) -> CannotStart:
    if isinstance(error, UnicodeEncodeError):
        before = error.object[: error.start].rpartition("\n")[2]
        after = error.object[error.start :].partition("\n")[0]
        text = f"The settings hold text that is not valid UTF-8, {before + after!a}: rename it."
        return CannotStart([Problem("", text)])
    reason = str(error).rstrip(".")
    return CannotStart([Problem("", f"The run folder cannot be written: {reason}.")])


def send(run_id: str, command: Command) -> int:
    """Send a command to a run; return its command number. Later events in the store answer it.

    Takes at most two times LONGEST_ANSWER. Raises CommandFailed if the run is over, does not answer
    or refuses the command; StoppedBySignal for a Stop if the way to the supervisor is lost.
    """
    folder = paths.run_folder(run_id)
    if halted := halted_sentence(run_id):
        raise CommandFailed(halted)
    try:
        channel = connect(folder, Hello(rank=-1), LONGEST_ANSWER)
    except TimeoutError:
        raise _no_answer(run_id, "The command was not sent.") from None
    except OSError as error:
        _log.info("run %s: %s cannot be sent: %s", run_id, command, error)
        if isinstance(command, Stop):
            _stop_by_signal(run_id)
        raise CommandFailed(_not_connected(run_id)) from None
    try:
        _log.info("run %s: sends %s", run_id, command)
        channel.send(command)
        answer = channel.receive(LONGEST_ANSWER)
    except (TimeoutError, BlockingIOError):
        raise _no_answer(run_id, "It may still carry the command out.") from None
    except (*CLOSED, msgspec.DecodeError):
        if isinstance(command, Stop):
            _stop_by_signal(run_id)
        raise CommandFailed(f"Run {run_id} did not answer: it may have just ended.") from None
    finally:
        channel.close()
    match answer:
        case CommandAccepted(seq):
            _log.info("run %s: accepted as command %d", run_id, seq)
            return seq
        case CommandRefused(_, reason):
            _log.info("run %s: refused: %s", run_id, reason)
            raise CommandFailed(reason)
        case _:
            raise CommandFailed(f"Run {run_id} sent an answer that is not valid: {answer!r}.")


def _stop_by_signal(run_id: str) -> None:
    """Raise StoppedBySignal if the run has a supervisor, which gets SIGTERM."""
    try:
        with RunReader(paths.run_folder(run_id)) as reader:
            status, seq = reader.status(), reader.last_seq()
    except sqlite3.Error:
        return
    pid = status.supervisor_pid
    if not status.state.is_over and ask_to_end(pid, status.supervisor_created):
        _log.info("run %s: SIGTERM for its supervisor, process %d", run_id, pid)
        raise StoppedBySignal(
            f"Run {run_id} cannot be reached by commands: its supervisor, process {pid}, was asked "
            "by a signal to save a checkpoint and to end the run.",
            seq,
        )


def _not_connected(run_id: str) -> str:
    try:
        state = run_info.get_run(run_id).state
    except NoSuchRun as error:
        return str(error)
    if state.is_over:
        return f"Run {run_id} is not active: it takes no commands."
    return (
        f"Run {run_id} is {state}, but takes no commands: the way to its supervisor is lost, as "
        f"when a program cleans the folder for temporary files. `{call(f'stop {run_id}')}` saves a "
        "checkpoint and ends it; resumed, it takes commands again."
    )


def halted_sentence(run_id: str) -> str:
    """Return a sentence if the supervisor of the run was halted, so that it cannot answer.

    An empty string if it was not.
    """
    pid = supervisor_pid(paths.run_folder(run_id))
    if not pid or not is_halted(pid):
        return ""
    return (
        f"Run {run_id} does not answer: its supervisor, process {pid}, was halted. "
        f"`kill -CONT {pid}` lets it go on."
    )


def _no_answer(run_id: str, consequence: str) -> CommandFailed:
    _log.info("run %s: does not answer", run_id)
    pid = supervisor_pid(paths.run_folder(run_id))
    return CommandFailed(
        halted_sentence(run_id)
        or f"Run {run_id} did not answer within {LONGEST_ANSWER:.0f} s: its supervisor, process "
        f"{pid}, is very busy or waits for a disk. {consequence}"
    )


def _control(folder: Path) -> bytes:
    """Return how the run in `folder` is reached; empty if it is not."""
    try:
        return read_regular(folder / CONTROL_FILE, LARGEST_JSON)
    except (OSError, UnfitFile):
        return b""


def _start_supervisor(folder: Path, *arguments: str, secrets: Mapping[str, str]) -> None:
    """Start a supervisor for the run in `folder` and wait until it accepts commands.

    `secrets` are variables for its environment, which its workers inherit.
    """
    log, before = folder / "logs" / "supervisor.log", _control(folder)
    process = start_module(
        _SUPERVISOR,
        str(folder),
        *arguments,
        log=log,
        environment={**os.environ, **secrets},
        own_session=True,
    )
    _log.info("run %s: started its supervisor, pid %d %s", folder.name, process.pid, arguments)
    # This thread reaps a supervisor that ends before this process.
    threading.Thread(target=process.wait, daemon=True, name="reap").start()
    deadline = time.monotonic() + LONGEST_START
    # In a container, the supervisor before this one had perhaps the same number.
    while supervisor_pid(folder) != process.pid or _control(folder) == before:
        if process.poll() is not None:
            if process.returncode == 0:
                return  # the run is over already
            lines = log.read_text(errors="replace").strip().splitlines()
            text = lines[-1] if lines else f"exit code {process.returncode}"
            raise CannotStart([Problem("", f"The run could not be started: {text}")])
        if time.monotonic() > deadline:
            process.kill()
            text = f"The supervisor did not start within {LONGEST_START:.0f} s: see {log}."
            raise CannotStart([Problem("", text)])
        time.sleep(0.01)
