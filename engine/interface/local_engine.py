"""The engine of this machine: it does in this process what its methods say, and copies nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from engine import client
from engine.cases import case_file
from engine.client import CannotStart, NoSuchRun
from engine.doctor.report import report_text
from engine.environments import registry
from engine.environments.registry import Environment
from engine.files import log_tail
from engine.files.regular_file import read_regular
from engine.imports.csv_tables import ColumnNames
from engine.interface import local_environments, local_runs, local_watches
from engine.interface.engine import Engine, Progress, Stream
from engine.interface.files.temporary_folders import TemporaryFolders
from engine.interface.files.transfers import Unfit, offered_checkpoint, offered_files, piece_of
from engine.interface.news.run_curves import RunCurves, read_curves
from engine.interface.news.run_news import RunsNews, RunUpdate
from engine.interface.news.sweep_news import SweepsNews
from engine.interface.sent_code import code_of_run, is_plain, is_plain_here, keep
from engine.interface.values import (
    CheckedFiles,
    ClusterMembers,
    Code,
    CreationPart,
    ExaminationPart,
    Exported,
    ImportedRuns,
    ImportSource,
    LogLines,
    MachineDevices,
    OfferedFile,
    QueuedRun,
    RemovedEnvironment,
    ResumedRun,
    RunDetails,
    StoppingRun,
    TemporaryFolder,
)
from engine.messages.commands import Command
from engine.messages.events import RecipeVersion
from engine.messages.status_question import ANSWER_SECONDS
from engine.planning import kept
from engine.planning import requests as planning
from engine.planning.kept import Earlier
from engine.planning.measuring_process import MeasuringEnd, MeasuringProcess
from engine.planning.results import News
from engine.runs import device_queue, run_overview, trash
from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_follower import RunNews
from engine.runs.run_index import RunIndex, is_settled
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import ChangedNotes, change_notes
from engine.runs.run_overview import RunOverview
from engine.runs.settings_history import SettingsHistory, settings_history
from engine.runs.store.store_reader import RunReader
from engine.runs.store.stored_points import StoredPoints
from engine.scripts.interpreters import interpreter_of
from engine.spec import catalog
from engine.spec.recipe_file import read_script
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import script_spec
from engine.spec.spec_file import read_spec
from engine.spec.validation import Problem
from engine.sweeps import report as sweep_reports
from engine.sweeps import sweep as sweeps
from engine.sweeps.proposal import first_problems
from engine.sweeps.sweep import Sweep
from engine.system import paths
from engine.system.cancelled import Cancelled
from engine.telemetry.given_gpus import given_gpus
from engine.telemetry.helper_client import snapshot_once
from engine.telemetry.snapshot import Snapshot
from engine.templates import client as templates

CANCEL_SECONDS = 0.1
"""Between two looks whether what is measured was cancelled."""

LARGEST_MEDIA = 32 * 2**20
"""Bytes of a picture."""


class LocalEngine(Engine):
    """The engine of the machine of this process; `close` deletes its temporary folders."""

    machine = ""
    most_points = 64_000
    """Above it, blocks of 16 points or more are read: at least 4000, which is two per pixel while a
    plot 1000 pixels wide shows half of them."""

    questions_at_once = 1

    def __init__(self) -> None:
        self._folders = TemporaryFolders()
        self._devices = local_watches.DeviceWatches()

    def close(self) -> None:
        """Delete the temporary folders, and make no more."""
        self._folders.close()

    def ping(self) -> None:
        return

    def check(self, spec: RunSpec) -> list[Problem]:
        return client.check(spec)

    def describe_script(
        self,
        command: Sequence[str],
        folder: str,
        devices: tuple[str, ...],
        *,
        strategy: str = "",
        interpreter: str = "",
    ) -> RunSpec:
        place = Path(os.path.abspath(Path(folder).expanduser()))  # noqa: PTH100  # links stay
        spec = script_spec(command, place, devices, interpreter=interpreter)
        if strategy:
            recipe = read_script(Path(spec.recipe))
            spec = replace(spec, strategy=catalog.strategy(strategy, recipe).name)
        return spec

    def start(self, spec: RunSpec, tags: tuple[str, ...] = (), planned: int | None = None) -> str:
        measured = kept.measured_before(spec) if planned is None else kept.planned(planned)
        return client.start(spec, tags, measured)

    def resume(
        self,
        run: str,
        checkpoint: str,
        spec: RunSpec | None,
        recipe: RecipeVersion | None,
        progress: Progress,
        *,
        as_new: bool,
    ) -> ResumedRun:
        chosen = None
        if checkpoint:
            if not is_plain(checkpoint) or "/" in checkpoint:
                raise CannotStart([Problem("", f"There is no checkpoint {checkpoint!r}.")])
            chosen = paths.run_folder(run) / checkpoint_files.FOLDER / checkpoint
        return local_runs.resume(run, chosen, spec, recipe, progress, as_new=as_new)

    def find_recipe_changes(self, run: str) -> str:
        info = client.get_run(run)
        return client.recipe_changes(info) if info.state.is_over else ""

    def explain_resume(self, run: str, spec: RunSpec) -> str:
        return client.resume_meaning(client.get_run(run), spec)

    def stop_run(self, run: str, *, now: bool) -> StoppingRun:
        return local_runs.stop(run, now=now)

    def explain_silence(self, run: str) -> str:
        return client.halted_sentence(run)

    def send(self, run: str, command: Command) -> int:
        return client.send(run, command)

    def list_queue(self) -> list[QueuedRun]:
        return local_runs.queued_runs()

    def move_in_queue(self, run: str, where: Literal["up", "down", "first"]) -> None:
        device_queue.move(run, where)

    def write_notes(self, run: str, change: ChangedNotes) -> None:
        change_notes(_folder(run), change)

    def delete_run(self, run: str) -> None:
        trash.delete(run)

    def restore_run(self, run: str) -> None:
        trash.restore(run)

    def empty_trash(self, runs: tuple[str, ...]) -> int:
        return trash.empty(runs)

    def watch_runs(self, known: Mapping[str, int]) -> Stream[RunsNews | None]:
        return local_watches.watch_runs(known)

    def follow(
        self, run: str, series: Sequence[str], most: int = 2000, cursor: bytes = b""
    ) -> Stream[RunNews | None]:
        return local_watches.follow_run(run, series, most, cursor)

    def watch_devices(self) -> Stream[Snapshot | None]:
        return self._devices.watch()

    def show_traffic(self, device: str) -> None:
        self._devices.show_traffic(device)

    def watch_sweeps(self) -> Stream[SweepsNews | None]:
        return local_watches.watch_sweeps()

    def watch_events(self, run: str, after: int = -1, attempt: int = 0) -> Stream[RunUpdate | None]:
        client.get_run(run)
        return local_watches.watch_events(run, after, attempt)

    def get_run(self, run: str) -> RunInfo:
        return client.get_run(run)

    def list_runs(self) -> RunsNews:
        index = RunIndex()
        infos = index.runs()  # it asks all silent supervisors at the same time
        if not all(map(is_settled, infos)):
            infos = index.runs(ANSWER_SECONDS)
        unreadable = [
            each._replace(reason=client.unreadable_reason(each.id, each.reason))
            for each in index.unreadable
        ]
        ids = [each.id for each in infos]
        return RunsNews(ids, [*infos], {}, unreadable, trash.trashed())

    def read_details(self, run: str) -> RunDetails:
        return local_runs.read_details(client.get_run(run))

    def read_window(
        self, run: str, series: str, first_step: float, last_step: float, most: int
    ) -> StoredPoints:
        with RunReader(_folder(run)) as reader:
            return reader.window(series, first_step, last_step, most)

    def read_history(self, run: str, series: str, most: int) -> StoredPoints:
        with RunReader(_folder(run)) as reader:
            return reader.history(series, most)

    def read_curves(self, run: str, most: int, cursor: bytes = b"") -> RunCurves:
        return read_curves(_folder(run), most, cursor)

    def count_points(self, run: str) -> dict[str, int]:
        with RunReader(_folder(run)) as reader:
            return reader.counts()

    def read_points(self, run: str, series: str, after: int, most: int = 20_000) -> StoredPoints:
        with RunReader(_folder(run)) as reader:
            return reader.points_after(series, after, most)

    def read_log(self, run: str, rank: int, before: int = -1) -> LogLines:
        return LogLines(*log_tail.lines_before(paths.log_file(_folder(run), rank), before))

    def read_media(self, run: str, file: str) -> bytes:
        folder, name = _folder(run) / "media", file.removeprefix("media/")
        inside = (folder / name).parent.resolve().is_relative_to(folder.resolve())
        if not is_plain(name) or not inside:
            raise OSError("it lies in another folder than the images of this run")
        return read_regular(folder / name, LARGEST_MEDIA)

    def read_case(self, run: str) -> bytes:
        file = _folder(run) / case_file.NAME
        if not file.exists():
            raise OSError(f"run {run} has left no failure file: it did not fail, or still runs")
        return read_regular(file, case_file.LARGEST_READ)

    def read_overview(self, run: str, device_names: Mapping[str, str]) -> RunOverview:
        return run_overview.run_overview(client.get_run(run), dict(device_names))

    def read_recipe(self, run: str) -> str:
        return run_overview.read_recipe(_folder(run))

    def read_diff(self, run: str, attempt: int) -> str:
        return run_overview.read_diff(_folder(run), attempt)

    def read_settings(self, run: str) -> SettingsHistory:
        return settings_history(_folder(run))

    def read_code(self, run: str) -> Code:
        folder = _folder(run)
        return code_of_run(folder, read_spec(folder))

    def list_checkpoints(self, run: str) -> list[CheckpointInfo]:
        return client.run_checkpoints(_folder(run).name)

    def keep_code(self, code: Code) -> str:
        return str(keep(code))

    def measure(
        self,
        request: planning.Request,
        tell: Callable[[planning.Answer], None],
        cancelled: threading.Event,
    ) -> MeasuringEnd:
        process, is_over = MeasuringProcess(request), threading.Event()
        number, not_kept = 0, ""

        def watch() -> None:
            while not is_over.is_set():
                if cancelled.wait(CANCEL_SECONDS):
                    process.cancel()
                    return

        threading.Thread(target=watch, daemon=True, name="cancel measuring").start()
        try:
            for answer in process.answers():
                if not isinstance(answer, News | planning.Refusal) and kept.says_something(answer):
                    try:
                        number = kept.keep(answer)
                    except OSError as error:
                        why = error.strerror or error
                        not_kept = f"What was measured could not be kept: {why}."
                tell(answer)
        except BaseException:  # the caller does not listen any more
            process.cancel()
            raise
        finally:
            is_over.set()
            end = process.wait_and_close()
        return end._replace(number=number, not_kept=not_kept)

    def find_results(self, spec: RunSpec) -> Earlier:
        return kept.earlier(spec)

    def start_sweep(self, sweep: Sweep) -> str:
        if found := first_problems(sweep):
            raise CannotStart(found)
        folder = sweeps.create(sweep)
        sweeps.drive(folder)
        return folder.name

    def resume_sweep(self, sweep: str) -> None:
        sweep_reports.resume(sweeps.folder_of(sweep))

    def stop_sweep(self, sweep: str) -> None:
        sweeps.ask_to_stop(sweeps.folder_of(sweep))

    def examine(
        self,
        depth: Literal["quick", "thorough", "full"],
        environment: str,
        tell: Callable[[ExaminationPart], None],
        cancelled: threading.Event,
    ) -> None:
        from engine.interface.local_examination import examine  # slow, and seldom needed

        examine(self, depth, environment, tell, cancelled)

    def report_checks(self, parts: Sequence[ExaminationPart]) -> str:
        checks = [each.finding for each in parts if each.finding is not None]
        sections = {each.title: each.text for each in parts if each.title}
        return report_text(checks, sections, now=time.time())

    def check_files(
        self, runs: tuple[str, ...], repair: bool, tell: Callable[[str], None]
    ) -> CheckedFiles:
        from engine.repair.check import check_files  # seldom needed

        chosen, findings = check_files(runs, repair=repair, progress=tell)
        return CheckedFiles(chosen, findings)

    def list_devices(self) -> MachineDevices:
        snapshot = snapshot_once()
        return MachineDevices(snapshot, given_gpus(snapshot))

    def list_members(self) -> ClusterMembers:
        from engine.cluster import membership  # Ray takes long to import

        try:
            return ClusterMembers(membership.members() if membership.cluster() else [])
        except membership.ClusterError as error:
            return ClusterMembers([], str(error))

    def keep_templates(self, on: bool | None) -> bool:
        if on is not None:
            templates.switch(on=on)
        return templates.is_switched_on()

    def find_interpreter(self, name: str, framework: str, folder: str = "") -> str:
        if not name:
            return registry.default_interpreter(framework)
        return interpreter_of(name, Path(folder))

    def list_environments(self) -> list[Environment]:
        return registry.environments()

    def own_environment(self) -> Environment:
        return local_environments.own_environment()

    def add_environment(self, name: str, python: str, folder: str = "") -> Environment:
        return local_environments.add_environment(name, python, folder)

    def check_environment(self, name: str) -> Environment:
        return local_environments.check_environment(name)

    def remove_environment(self, name: str) -> RemovedEnvironment:
        return local_environments.remove_environment(name)

    def use_environment(self, name: str, frameworks: Sequence[str]) -> tuple[str, ...]:
        return local_environments.use_environment(name, frameworks)

    def make_environment(
        self,
        name: str,
        requirements: Sequence[str],
        default_for: str,
        tell: Callable[[CreationPart], None],
        cancelled: threading.Event,
        base: str = "",
    ) -> Environment:
        return local_environments.make_environment(
            name, requirements, default_for, tell, cancelled.is_set, base
        )

    def offer_checkpoint(self, run: str, checkpoint: str) -> list[OfferedFile]:
        for each in self.list_checkpoints(run):
            if each.folder.name == checkpoint:
                return offered_checkpoint(each)
        raise Unfit(f"Run {run} has no checkpoint {checkpoint} any more.")

    def read_checkpoint(self, run: str, checkpoint: str, file: str, offset: int) -> bytes:
        for folder in checkpoint_files.folders(_folder(run)).values():
            if folder.name == checkpoint:
                return piece_of(folder, file, offset)
        raise Unfit(f"Run {run} has no checkpoint {checkpoint} any more.")

    def export_runs(
        self, runs: tuple[str, ...], format: str, progress: Progress, cancelled: threading.Event
    ) -> Exported:
        from engine.exports import export_runs  # slow, and seldom needed

        infos = _infos(runs)
        try:
            kind = export_runs.Format(format)
        except ValueError:
            text = f"This Traindeck does not write {format!r}."
            raise export_runs.CannotExport(text) from None

        def report(done: int, total: int) -> None:
            if cancelled.is_set():
                raise Cancelled
            progress(done, total)

        number, folder = self._folders.make()
        try:
            target = folder / export_runs.proposed_name(infos, kind)
            done = export_runs.export(infos, kind, target, report)
            if not kind.is_file:
                self._folders.offer(number, target)
            files = offered_files(target, partial(report, 0))
            return Exported(number, files, done.points, done.remarks)
        except BaseException:
            self._folders.discard(number)
            raise

    def import_runs(
        self, number: int, sources: Sequence[ImportSource], columns: ColumnNames, progress: Progress
    ) -> ImportedRuns:
        from engine.imports.found_run import CannotImport  # slow, and seldom needed
        from engine.imports.import_runs import import_runs

        folder = self._folders.verified(number, partial(progress, 0))
        origins = {str(folder / each.path): each.origin for each in sources}

        def told(text: str) -> str:
            for path in sorted(origins, reverse=True):
                text = text.replace(path, origins[path])
            return text

        if not all(is_plain_here(each.path) for each in sources):
            raise Unfit("This is no list of files to import.")
        try:
            done = import_runs(
                [Path(path) for path in origins],
                columns,
                lambda _, done, total: progress(done, total),
                told,
            )
        except CannotImport as error:
            raise CannotImport(told(str(error))) from error
        titles = [client.get_run(run).title for run in done.run_ids]
        return ImportedRuns(done.run_ids, titles, done.points, list(map(told, done.remarks)))

    def make_folder(self, files: Sequence[OfferedFile] = ()) -> TemporaryFolder:
        number, folder = self._folders.make(files)
        return TemporaryFolder(number, str(folder))

    def write_piece(self, number: int, file: str, offset: int, content: bytes) -> None:
        self._folders.write(number, file, offset, content)

    def read_piece(self, number: int, file: str, offset: int) -> bytes:
        return self._folders.piece(number, file, offset)

    def discard_folder(self, number: int) -> None:
        self._folders.discard(number)


def _infos(runs: Sequence[str]) -> list[RunInfo]:
    if list(runs) == ["all"]:
        return RunIndex().runs()
    return [client.get_run(run) for run in dict.fromkeys(runs)]


def _folder(run: str) -> Path:
    """Return the folder of a run that exists. Raises NoSuchRun."""
    if not paths.is_run(run):
        raise NoSuchRun(f"There is no run {run}.")
    return paths.run_folder(run)
