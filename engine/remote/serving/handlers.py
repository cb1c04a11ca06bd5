"""Carries out the requests of another machine, by what the window and the command line use here."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import msgspec

from engine import client
from engine.client import CannotStart, CheckpointUnusable, CommandFailed, NoSuchRun, RecipeChanged
from engine.doctor.report import report_text
from engine.environments import registry
from engine.environments.registry import CannotChange, Environment
from engine.files import log_tail
from engine.files.disk_errors import disk_problem
from engine.files.regular_file import read_regular
from engine.planning import kept
from engine.planning.recipe_check import try_recipe
from engine.planning.twin import NoTwins, start_twins
from engine.remote import packed_points, requests
from engine.remote.downloads import offered_checkpoint, offered_files, piece_of
from engine.remote.requests import (
    Code,
    EarlierResults,
    ExaminationPart,
    Exported,
    ImportedRuns,
    LogLines,
    Refusal,
    Spec,
    TemporaryFolder,
)
from engine.remote.run_rows import UnfitSettings, encode, packed_history, unpacked_spec
from engine.remote.sent_code import code_of_run, is_plain, is_plain_here, keep
from engine.remote.serving import sweeps as sweeps_here
from engine.remote.serving.temporary_folders import TemporaryFolders
from engine.runs import checkpoint_files, device_queue, trash
from engine.runs.run_index import RunIndex
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import ChangedNotes, change_notes, write_notes
from engine.runs.run_overview import read_diff, read_recipe, run_overview
from engine.runs.settings_history import settings_history
from engine.runs.store.store_reader import RunReader
from engine.runs.store.stored_points import StoredPoints
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import UnreadableSpec, read_spec
from engine.spec.validation import Problem
from engine.sweeps import sweep as sweeps
from engine.sweeps.report import resume as resume_sweep
from engine.sweeps.study import DamagedJournal
from engine.sweeps.sweep import NoSuchSweep, SweepActive
from engine.system import paths

PROGRESS_SECONDS = 0.2
"""Between two messages about the progress of one call."""

LARGEST_MEDIA = 32 * 2**20
"""Bytes of a picture."""

MOST_POINTS = 50_000
"""Largest number of points that one question may ask for."""


class Cancelled(Exception):
    """The other side does not want the answer any more, or is gone."""


class Refused(Exception):
    """The request cannot be carried out; the text is a sentence."""


class Job:
    """One call that is being carried out."""

    def __init__(
        self,
        report: Callable[[int, int], None],
        send_part: Callable[[Any], None] = lambda part: None,
    ) -> None:
        self.cancelled = threading.Event()
        self.send_part = send_part
        """Sends a part of what is found at once. Raises OSError."""

        self._report = report
        self._reported = time.monotonic()

    def progress(self, done: int, total: int) -> None:
        """Tell the other side how far this is. Raises Cancelled."""
        if self.cancelled.is_set():
            raise Cancelled
        if total and time.monotonic() > self._reported + PROGRESS_SECONDS:
            self._reported = time.monotonic()
            self._report(done, total)


class Handlers:
    """What one connection may ask for; the subscriptions are in `watches`."""

    def __init__(self) -> None:
        self._folders = TemporaryFolders()

    def close(self) -> None:
        """Delete the temporary folders."""
        self._folders.close()

    def carry_out(self, request: requests.Question, job: Job) -> Any:
        """Return the answer to `request`; what it raises, `refusal_of` says."""
        match request:
            case requests.Ping():
                return None
            case requests.Window(series=series, first_step=first, last_step=last):
                most = min(request.most, MOST_POINTS)
                return _points(request.run, lambda run: run.window(series, first, last, most))
            case requests.History(series=series):
                most = min(request.most, MOST_POINTS)
                return _points(request.run, lambda run: run.history(series, most))
            case requests.CountPoints():
                with RunReader(_folder(request.run)) as reader:
                    return reader.counts()
            case requests.Points(series=series, after=after):
                most = min(request.most, MOST_POINTS)
                return _points(request.run, lambda run: run.points_after(series, after, most))
            case requests.Lines():
                log = paths.log_file(_folder(request.run), int(request.rank))
                return LogLines(*log_tail.lines_before(log, request.before))
            case requests.Send():
                return client.send(request.run, request.command)
            case requests.Keep():
                return str(keep(request.code))
            case requests.ReadCode():
                folder = _folder(request.run)
                return code_of_run(folder, read_spec(folder))
            case requests.Check():
                try:
                    return client.check(_spec(request.spec, request.code))
                except UnfitSettings as error:
                    return [error.problem]
            case requests.MeasuredBefore():
                earlier = kept.earlier(_spec(request.spec, request.code))
                return EarlierResults(*(encode(each) if each else b"" for each in earlier))
            case requests.Start():
                spec = _spec(request.spec, request.code)
                return client.start(spec, request.tags, kept.measured_before(spec))
            case requests.StartTwins():
                spec = _spec(request.spec, request.code)
                return start_twins(spec, catalog.recipe_of(spec), request.tags)
            case requests.Examine():
                return _examine(request, job)
            case requests.ReportChecks():
                return report_text(request.checks, now=time.time())
            case requests.TryRecipe():
                return try_recipe(_spec(request.spec, request.code), job.cancelled)
            case requests.Resume():
                return _resume(request, job)
            case requests.Checkpoints():
                found = client.run_checkpoints(_folder(request.run).name)
                return [offered_checkpoint(each) for each in found]
            case requests.ReadCheckpoint():
                return piece_of(_checkpoint(request), request.file, request.offset)
            case requests.Export():
                return self._export(request, job)
            case requests.ReadExport():
                return self._folders.piece(request.number, request.file, request.offset)
            case requests.Discard():
                return self._folders.discard(request.number)
            case requests.MakeFolder():
                number, folder = self._folders.make(request.files)
                return TemporaryFolder(number, str(folder))
            case requests.Write():
                return self._folders.write(request)
            case requests.Offered():
                return offered_files(self._folders.folder(request.number), lambda size: None)
            case requests.Import():
                return self._import(request, job)
            case requests.Environments():
                return registry.environments()
            case requests.MakeEnvironment():
                return _make_environment(request, job)
            case requests.Media():
                return _media(request)
            case requests.Overview():
                return run_overview(client.get_run(request.run), request.device_names)
            case requests.ReadText():
                folder = _folder(request.run)
                is_recipe = request.what == "recipe"
                return read_recipe(folder) if is_recipe else read_diff(folder, request.attempt)
            case requests.ReadSettings():
                return packed_history(settings_history(_folder(request.run)))
            case requests.WriteNotes():
                if request.before is None:
                    return write_notes(_folder(request.run), request.notes)
                change = ChangedNotes(request.before, request.notes)
                return change_notes(_folder(request.run), change)
            case requests.MoveInQueue():
                return device_queue.move(request.run, request.where)
            case requests.Delete():
                return trash.delete(request.run)
            case requests.Restore():
                return trash.restore(request.run)
            case requests.EmptyTrash():
                return trash.empty(request.runs)
            case requests.StartSweep():
                return sweeps_here.start(request)
            case requests.ResumeSweep():
                return resume_sweep(sweeps.folder_of(request.sweep))
            case requests.StopSweep():
                return sweeps.ask_to_stop(sweeps.folder_of(request.sweep))
            case _:
                assert_never(request)

    def _export(self, request: requests.Export, job: Job) -> Exported:
        from engine.exports import export_runs  # slow, and seldom needed

        infos = _infos(request.runs)
        try:
            format = export_runs.Format(request.format)
        except ValueError:
            raise Refused(f"The Traindeck there does not write {request.format!r}.") from None
        number, folder = self._folders.make()
        try:
            target = folder / export_runs.proposed_name(infos, format)
            done = export_runs.export(infos, format, target, job.progress)
            if not format.is_file:
                self._folders.offer(number, target)
            files = offered_files(target, partial(job.progress, 0))
            return Exported(number, target.name, format.is_file, files, done.points, done.remarks)
        except export_runs.CannotExport as error:
            self._folders.discard(number)
            raise Refused(str(error)) from error
        except BaseException:
            self._folders.discard(number)
            raise

    def _import(self, request: requests.Import, job: Job) -> ImportedRuns:
        from engine.imports.found_run import CannotImport  # slow, and seldom needed
        from engine.imports.import_runs import import_runs

        folder = self._folders.verified(request.number, partial(job.progress, 0))
        origins = {str(folder / each.path): each.origin for each in request.sources}

        def told(text: str) -> str:
            for path in sorted(origins, reverse=True):
                text = text.replace(path, origins[path])
            return text

        if not all(is_plain_here(each.path) for each in request.sources):
            raise Refused("This is no list of files to import.")
        try:
            done = import_runs(
                [Path(path) for path in origins],
                request.columns,
                lambda _, done, total: job.progress(done, total),
                told,
            )
        except CannotImport as error:
            raise Refused(told(str(error))) from error
        titles = [client.get_run(run_id).title for run_id in done.run_ids]
        return ImportedRuns(done.run_ids, titles, done.points, done.remarks)


def refusal_of(error: Exception) -> Refusal:
    """Return what the other side is told about `error`."""
    text = str(error)
    match error:
        case RecipeChanged(changes=changes):
            return Refusal(text, "recipe_changed", error.problems, changes=changes)
        case CheckpointUnusable(damaged=damaged, previous=previous):
            name = previous.name if previous else ""
            found = error.problems
            return Refusal(text, "checkpoint_unusable", found, damaged=damaged, previous=name)
        case CannotStart(problems=problems):
            return Refusal(text, "cannot_start", problems)
        case UnfitSettings(problem=problem):
            return Refusal(text, "cannot_start", [problem])
        case NoSuchRun():
            return Refusal(text, "no_such_run")
        case CommandFailed():
            return Refusal(text, "command_failed")
        case Cancelled():
            return Refusal("It was cancelled.", "cancelled")
        case Refused() | NoTwins() | UnreadableSpec():
            return Refusal(text)
        case trash.CannotDelete() | device_queue.CannotMoveRun():
            return Refusal(text)
        case NoSuchSweep() | SweepActive() | DamagedJournal():
            return Refusal(text)
        case OSError() if reason := disk_problem(error):
            where = f" {error.filename}:" if error.filename else ""
            return Refusal(f"This could not be done there:{where} {reason}.")
        case sqlite3.Error() | OSError():
            return Refusal(f"This could not be done there: {error}.")
        case ValueError():  # settings or code that do not fit
            return Refusal(text)
        case _:
            return Refusal(
                f"This failed there by an error of Traindeck: {type(error).__name__}: {error}."
            )


def _infos(run_ids: Sequence[str]) -> list[RunInfo]:
    if list(run_ids) == ["all"]:
        return RunIndex().runs()
    return [client.get_run(run_id) for run_id in dict.fromkeys(run_ids)]


def _folder(run_id: str) -> Path:
    """Return the folder of a run that exists. Raises NoSuchRun."""
    if not paths.is_run(run_id):
        raise NoSuchRun(f"There is no run {run_id} there.")
    return paths.run_folder(run_id)


def _points(run_id: str, read: Callable[[RunReader], StoredPoints]) -> packed_points.PackedPoints:
    with RunReader(_folder(run_id)) as reader:
        return packed_points.pack(read(reader))


def _spec(settings: Spec, code: Code | None) -> RunSpec:
    spec = unpacked_spec(settings)
    return spec if code is None else msgspec.structs.replace(spec, recipe=str(keep(code)))


def _resume(request: requests.Resume, job: Job) -> str:
    folder = _folder(request.run)
    checkpoint = None
    if request.checkpoint:
        if not is_plain(request.checkpoint) or "/" in request.checkpoint:
            raise CannotStart([Problem("", f"There is no checkpoint {request.checkpoint!r}.")])
        checkpoint = folder / checkpoint_files.FOLDER / request.checkpoint
    spec = None if request.spec is None else unpacked_spec(request.spec)
    arguments = (request.run, checkpoint, spec, job.progress, request.recipe)
    if request.as_new:
        return client.resume_as_new(*arguments)
    client.resume(*arguments)
    return request.run


def _examine(request: requests.Examine, job: Job) -> None:
    from engine.doctor import examination, probing  # slow, and seldom needed

    try:
        pythons = examination.usual_pythons()
    except OSError:  # `Environments` says why
        pythons = examination.OURS
    doctor = examination.Examination(
        pythons,
        is_cancelled=job.cancelled.is_set,
        progress=lambda what: job.send_part(ExaminationPart(doing=what)),
    )
    try:
        for check in doctor.checks(on_gpus=request.on_gpus):
            job.send_part(ExaminationPart(check))
    except probing.Cancelled:
        raise Cancelled from None


def _make_environment(request: requests.MakeEnvironment, job: Job) -> Environment:
    from engine.environments import creation  # seldom needed
    from engine.remote.serving.making import make_environment

    try:
        return make_environment(request, job.send_part, job.cancelled.is_set)
    except creation.Cancelled:
        raise Cancelled from None
    except (CannotChange, creation.CreationFailed) as error:
        raise Refused(str(error)) from error


def _checkpoint(request: requests.ReadCheckpoint) -> Path:
    for folder in checkpoint_files.folders(_folder(request.run)).values():
        if folder.name == request.checkpoint:
            return folder
    raise Refused(f"Run {request.run} has no checkpoint {request.checkpoint} any more.")


def _media(request: requests.Media) -> bytes:
    folder = _folder(request.run) / "media"
    name = request.file.removeprefix("media/")
    if not is_plain(name) or not (folder / name).parent.resolve().is_relative_to(folder.resolve()):
        raise Refused(f"{request.file!r} is not in the folder of images of this run.")
    return read_regular(folder / name, LARGEST_MEDIA)
