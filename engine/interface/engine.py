"""The interface of an engine: `LocalEngine` here, the same over SSH on another machine.

A method that another machine offers needs nothing beside its annotations: values travel by their
types, a function among the arguments (`progress`, `tell`) is called here with what is told there,
and `cancelled` ends the call there when it is set here. What a method yields comes one by one, when
it is asked for here; closing the iterator ends the method there. Files of this machine do not
travel by themselves: `engine.interface.files` sends and fetches them by the methods for pieces.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from engine.environments.registry import Environment
from engine.imports.csv_tables import ColumnNames
from engine.interface.news.run_curves import RunCurves
from engine.interface.news.run_news import RunsNews, RunUpdate
from engine.interface.news.sweep_news import SweepsNews
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
    MostPoints,
    OfferedFile,
    Packed,
    QueuedRun,
    RemovedEnvironment,
    ResumedRun,
    RunDetails,
    RunNumber,
    StoppingRun,
    TemporaryFolder,
)
from engine.messages.commands import Command
from engine.messages.events import RecipeVersion
from engine.planning import requests as planning
from engine.planning.kept import Earlier
from engine.planning.measuring_process import MeasuringEnd
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_follower import RunNews
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import ChangedNotes
from engine.runs.run_overview import RunOverview
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.stored_points import StoredPoints
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from engine.sweeps.sweep import Sweep
from engine.telemetry.snapshot import Snapshot

T_co = TypeVar("T_co", covariant=True)


class Stream(Protocol[T_co]):
    """What a method yields, such as a generator; whoever leaves it early closes it."""

    def __iter__(self) -> Iterator[T_co]: ...

    def __next__(self) -> T_co: ...

    def close(self) -> None: ...


Progress = Callable[[int, int], None]
"""Gets what is done and the total. What it raises ends the call, and comes out of it."""

ANSWER_SECONDS = 20.0
START_SECONDS = 120.0
"""For the start of a run, which may verify settings and recipe first."""

PIECE_SECONDS = 60.0
EMPTY_SECONDS = 600.0
"""For the deletion of many large files."""

FIRST_SECONDS = 60.0
"""For the first that a method yields."""

LONGEST_SECONDS = 3600.0
"""For an export, an import, an examination with many GPUs, or the verification of a checkpoint; a
person can cancel them."""

MAKE_SECONDS = 24 * 3600.0
"""For an environment, which may be downloaded slowly, and for what is measured; a person can cancel
them."""


class Terms(NamedTuple):
    """How another machine is asked."""

    seconds: float
    """Longest wait for the answer."""

    acts: bool
    """Whether it leaves something changed there: after a lost answer, a person has to look. What
    ends with its call (`measure`) or is only sent (`keep_code`, `write_piece`) can be asked for
    again at once, and does not act."""

    cleans_up: bool
    """Whether a cancelled call still waits until nothing of it is left there."""


F = TypeVar("F", bound=Callable[..., Any])


def offered(
    seconds: float = ANSWER_SECONDS, *, acts: bool = False, cleans_up: bool = False
) -> Callable[[F], F]:
    """Offer a method to other machines, on these terms."""

    def mark(function: F) -> F:
        function.__dict__["terms"] = Terms(seconds, acts, cleans_up)
        return function

    return mark


class Engine(Protocol):
    """One Traindeck. The methods block; they may be called in any thread.

    A run is named by its number on that machine. Besides what a method names, that of another
    machine raises NoAnswer, and whatever concerns a run raises NoSuchRun.
    """

    machine: str
    """Its name; empty: the machine of this process."""

    most_points: int
    """Points of a part of a curve that are worth their way here, about."""

    questions_at_once: int
    """Questions that are asked at a time: each waits for its way here, and not for a processor."""

    @offered()
    def ping(self) -> None:
        """Return at once."""

    # Runs

    @offered(START_SECONDS)
    def check(self, spec: RunSpec) -> list[Problem]:
        """Return every reason why a run cannot be started now."""

    @offered()
    def describe_script(
        self,
        command: Sequence[str],
        folder: str,
        devices: tuple[str, ...],
        *,
        strategy: str = "",
        interpreter: str = "",
    ) -> RunSpec:
        """Return the settings of a run of `command` in a folder of that machine.

        `folder`: relative to the one of the user there. `strategy`: a name; empty: by what the
        script mentions. Raises UnknownName.
        """

    @offered(START_SECONDS, acts=True)
    def start(
        self, spec: RunSpec, tags: tuple[str, ...] = (), planned: int | None = None
    ) -> RunNumber:
        """Start a run with `tags` in its notes, and return its number.

        `planned`: the number of what was measured before, of which the run keeps a copy; None: the
        newest for the same recipe. Raises CannotStart, NoSuchResult.
        """

    @offered(LONGEST_SECONDS, acts=True)
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
        """Let an ended run go on, as itself or as a new one.

        `checkpoint`: the name of one; empty: the newest. `progress` gets the bytes of it that were
        verified. Raises what `client.resume` does.
        """

    @offered()
    def find_recipe_changes(self, run: str) -> str:
        """Return in what the recipe of a run has changed since its start; empty: in nothing."""

    @offered()
    def explain_resume(self, run: str, spec: RunSpec) -> str:
        """Return what it means to resume a run of a script with the settings `spec`."""

    @offered(LONGEST_SECONDS, acts=True)
    def stop_run(self, run: str, *, now: bool) -> StoppingRun:
        """Ask a run to save and end, or with `now` to end; in whatever state it is.

        Workers that a killed supervisor has left are waited for. Raises CommandFailed.
        """

    @offered()
    def explain_silence(self, run: str) -> str:
        """Return why a run cannot answer: its supervisor was halted; empty: it was not."""

    @offered(acts=True)
    def send(self, run: str, command: Command) -> int:
        """Send a command; its answer is an event after the number that is returned.

        Raises CommandFailed.
        """

    @offered(START_SECONDS)
    def list_queue(self) -> list[QueuedRun]:
        """Return the runs that use devices, and then those that wait, in their order."""

    @offered(acts=True)
    def move_in_queue(self, run: str, where: Literal["up", "down", "first"]) -> None:
        """Move a waiting run. Raises CannotMoveRun."""

    @offered(acts=True)
    def write_notes(self, run: str, change: ChangedNotes) -> None:
        """Change the notes on a run. Raises OSError."""

    @offered(acts=True)
    def delete_run(self, run: str) -> None:
        """Move a run to the trash. Raises CannotDelete."""

    @offered(acts=True)
    def restore_run(self, run: str) -> None:
        """Bring a run back from the trash. Raises CannotDelete."""

    @offered(EMPTY_SECONDS, acts=True)
    def empty_trash(self, runs: tuple[str, ...]) -> int:
        """Delete these runs of the trash for good, and return their number; others stay."""

    # What is watched: each yields what is new, and None about every second while nothing is

    @offered(FIRST_SECONDS)
    def watch_runs(self, known: Mapping[str, int]) -> Stream[RunsNews | None]:
        """Yield what is new in the list of runs.

        `known`: the digests of the runs that the asking side has, by id: these are no news.
        """

    @offered(FIRST_SECONDS)
    def follow(
        self, run: str, series: Sequence[str], most: MostPoints = 2000, cursor: Packed = b""
    ) -> Stream[RunNews | None]:
        """Yield what is new of a run, with the points of `series` only; they need not exist yet.

        `most`: points in which a long curve is read, about. `cursor`: that of the last news that
        came; empty: from the beginning of the run.
        """

    @offered(FIRST_SECONDS)
    def watch_devices(self) -> Stream[Snapshot | None]:
        """Yield the devices, about every second. Raises OSError."""

    @offered()
    def show_traffic(self, device: str) -> None:
        """From now on, measure the traffic (PCIe, NVLink) of one GPU, which is slow to read.

        `device`: its UUID; empty: of none.
        """

    @offered(FIRST_SECONDS)
    def watch_sweeps(self) -> Stream[SweepsNews | None]:
        """Yield what is new of the sweeps; `SweepsThere` puts it together."""

    @offered(FIRST_SECONDS)
    def watch_events(self, run: str, after: int = -1, attempt: int = 0) -> Stream[RunUpdate | None]:
        """Yield the state of a run and its new events, several times a second, until it is over.

        `after`: the number of the last event that is known; -1: the newest one there is. The last
        update has the final state, of attempt `attempt` or a later one. Raises NoStore if its
        supervisor writes none.
        """

    # What is recorded of a run

    @offered(START_SECONDS)
    def get_run(self, run: str) -> RunInfo:
        """Return the state of a run; a supervisor that is silent is asked."""

    @offered(START_SECONDS)
    def list_runs(self) -> RunsNews:
        """Return all runs; supervisors that are silent are asked."""

    @offered()
    def read_details(self, run: str) -> RunDetails:
        """Return what is read of a run besides its state. Raises sqlite3.Error."""

    @offered()
    def read_window(
        self, run: str, series: str, first_step: float, last_step: float, most: MostPoints
    ) -> StoredPoints:
        """Return the points of a series between two steps and one more on each side, or about
        `most` blocks. Raises sqlite3.Error."""

    @offered()
    def read_history(self, run: str, series: str, most: MostPoints) -> StoredPoints:
        """Return a whole series in about `most` points. Raises sqlite3.Error."""

    @offered(START_SECONDS)
    def read_curves(self, run: str, most: MostPoints, cursor: Packed = b"") -> RunCurves:
        """Return the events and the curves that are compared, of the curves what is new.

        A curve that is read whole has about `most` points. `cursor`: that of the last answer;
        empty: all is new. Raises sqlite3.Error.
        """

    @offered()
    def count_points(self, run: str) -> dict[str, int]:
        """Return the number of points of each series. Raises sqlite3.Error."""

    @offered()
    def read_points(
        self, run: str, series: str, after: int, most: MostPoints = 20_000
    ) -> StoredPoints:
        """Return at most `most` points after the first `after`, each by itself.

        Raises sqlite3.Error.
        """

    @offered()
    def read_log(self, run: str, rank: int, before: int = -1) -> LogLines:
        """Return the lines of a rank's log before one of its bytes; -1: its end."""

    @offered()
    def read_media(self, run: str, file: str) -> bytes:
        """Return an image that a script has logged. Raises OSError."""

    @offered(PIECE_SECONDS)
    def read_case(self, run: str) -> bytes:
        """Return the failure file of a run, of at most 10 MB. Raises OSError if it left none."""

    @offered()
    def read_overview(self, run: str, device_names: Mapping[str, str]) -> RunOverview:
        """Return how a run came about; `device_names` are those that a person knows, by id."""

    @offered()
    def read_recipe(self, run: str) -> str:
        """Return the run's copy of the recipe."""

    @offered()
    def read_diff(self, run: str, attempt: int) -> str:
        """Return the changes of the code of an attempt that were not committed."""

    @offered()
    def read_settings(self, run: str) -> SettingsHistory:
        """Return the settings of a run, and those that it has had before."""

    @offered()
    def read_code(self, run: str) -> Code:
        """Return the recipe of a run, as it trains, or its script, as it is now."""

    @offered()
    def list_checkpoints(self, run: str) -> list[CheckpointInfo]:
        """Return the complete checkpoints of a run, oldest first. Of another machine, the folder of
        each is its name alone."""

    # Before a run

    @offered(START_SECONDS)
    def keep_code(self, code: Code) -> str:
        """Keep a recipe or script that comes from elsewhere; return the path of its file."""

    @offered(MAKE_SECONDS, cleans_up=True)
    def measure(
        self,
        request: planning.Request,
        tell: Callable[[planning.Answer], None],
        cancelled: threading.Event,
    ) -> MeasuringEnd:
        """Measure something before a run; `tell` gets each answer as soon as it is there.

        A race or a preflight that has found something is kept, also for runs that are started
        later. What is cancelled tells what it has found, and then ends. Raises OSError.
        """

    @offered()
    def find_results(self, spec: RunSpec) -> Earlier:
        """Return the newest results that were measured for a recipe on some devices."""

    @offered(START_SECONDS, acts=True)
    def start_sweep(self, sweep: Sweep) -> RunNumber:
        """Start a sweep, and return its number. Raises CannotStart, SweepActive, OSError."""

    @offered(START_SECONDS, acts=True)
    def resume_sweep(self, sweep: str) -> None:
        """Let a sweep go on. Raises NoSuchSweep, SweepActive, DamagedJournal, OSError."""

    @offered(START_SECONDS, acts=True)
    def stop_sweep(self, sweep: str) -> None:
        """Ask a sweep to stop: its runs save and end. Raises NoSuchSweep, OSError."""

    # The machine

    @offered(START_SECONDS)
    def list_devices(self) -> MachineDevices:
        """Return the devices now; a helper asks the driver."""

    @offered(START_SECONDS)
    def list_members(self) -> ClusterMembers:
        """Return the machines of the cluster that this one is in; none if it is in none."""

    @offered(acts=True)
    def keep_templates(self, on: bool | None) -> bool:
        """Return whether frameworks stay loaded for the next runs; `on`: let them, or not, from now
        on. Raises OSError."""

    @offered()
    def find_interpreter(self, name: str, framework: str, folder: str = "") -> str:
        """Return the path of a Python; empty: that of Traindeck itself.

        `name`: of an environment, or a path, relative to `folder`; empty: the Python that trains
        recipes of `framework`. Raises NoInterpreter, OSError.
        """

    @offered(LONGEST_SECONDS, cleans_up=True)
    def examine(
        self,
        depth: Literal["quick", "thorough", "full"],
        environment: str,
        tell: Callable[[ExaminationPart], None],
        cancelled: threading.Event,
    ) -> None:
        """Check whether the machine can train; `tell` gets each part as soon as it is there.

        `quick` imports no framework and touches no GPU, `thorough` does both, and `full` trains
        with each strategy too. `environment`: the name or the path of the Python whose frameworks
        are checked; empty: those that train recipes. Raises NoInterpreter, Cancelled, OSError.
        """

    @offered()
    def report_checks(self, parts: Sequence[ExaminationPart]) -> str:
        """Return the report of an examination, without names of the user of that machine."""

    @offered(LONGEST_SECONDS, acts=True)
    def check_files(
        self, runs: tuple[str, ...], repair: bool, tell: Callable[[str], None]
    ) -> CheckedFiles:
        """Check the files of runs, and mend them with `repair`; none: all, and the data folder.

        `tell` gets a few words about what is checked now.
        """

    @offered()
    def list_environments(self) -> list[Environment]:
        """Return the Pythons that runs can use, beside the one of Traindeck. Raises OSError."""

    @offered()
    def own_environment(self) -> Environment:
        """Return the Python of Traindeck itself. Raises OSError."""

    @offered(START_SECONDS, acts=True)
    def add_environment(self, name: str, python: str, folder: str = "") -> Environment:
        """Add the environment of a Python, and return it with what a check has found.

        `python`: as for `find_interpreter`. Raises NoInterpreter, CannotChange, OSError.
        """

    @offered(START_SECONDS, acts=True)
    def check_environment(self, name: str) -> Environment:
        """Ask an environment what it has. Raises CannotChange, OSError."""

    @offered(EMPTY_SECONDS, acts=True)
    def remove_environment(self, name: str) -> RemovedEnvironment:
        """Remove an environment, and delete it if Traindeck has made it.

        Raises CannotChange, OSError.
        """

    @offered(acts=True)
    def use_environment(self, name: str, frameworks: Sequence[str]) -> tuple[str, ...]:
        """Let an environment train the recipes of frameworks, by default of all that it has.

        Return the frameworks. Raises CannotChange, OSError.
        """

    @offered(MAKE_SECONDS, acts=True, cleans_up=True)
    def make_environment(
        self,
        name: str,
        requirements: Sequence[str],
        default_for: str,
        tell: Callable[[CreationPart], None],
        cancelled: threading.Event,
        base: str = "",
    ) -> Environment:
        """Make an environment; when this returns or raises, nothing is made any more.

        `default_for`: a framework whose recipes it trains from then on; empty: none. `base`: the
        Python that it is made with; empty: that of Traindeck. Raises Cancelled, CannotChange,
        NoInterpreter, CreationFailed, OSError.
        """

    # Files, in pieces: see `engine.interface.files.transfers`

    @offered(LONGEST_SECONDS)
    def offer_checkpoint(self, run: str, checkpoint: str) -> list[OfferedFile]:
        """Return the files of a checkpoint, with its manifest. Raises Unfit, OSError."""

    @offered(PIECE_SECONDS)
    def read_checkpoint(self, run: str, checkpoint: str, file: str, offset: int) -> bytes:
        """Return PIECE bytes of a file of a checkpoint; fewer at its end. Raises Unfit, OSError."""

    @offered(LONGEST_SECONDS)
    def export_runs(
        self, runs: tuple[str, ...], format: str, progress: Progress, cancelled: threading.Event
    ) -> Exported:
        """Write runs (`all`, alone: every run) in the format of another program into a temporary
        folder. `progress` gets points. Raises CannotExport."""

    @offered(LONGEST_SECONDS, acts=True)
    def import_runs(
        self, number: int, sources: Sequence[ImportSource], columns: ColumnNames, progress: Progress
    ) -> ImportedRuns:
        """Make runs of the files in a temporary folder, and say which cannot be read. Raises
        CannotImport: then of none."""

    @offered(PIECE_SECONDS)
    def make_folder(self, files: Sequence[OfferedFile] = ()) -> TemporaryFolder:
        """Make a temporary folder for `files`, which will be sent. Raises Unfit, OSError."""

    @offered(PIECE_SECONDS)
    def write_piece(self, number: int, file: str, offset: int, content: bytes) -> None:
        """Write PIECE bytes of a file into a temporary folder; fewer at its end.

        Raises Unfit, OSError.
        """

    @offered(PIECE_SECONDS)
    def read_piece(self, number: int, file: str, offset: int) -> bytes:
        """Return PIECE bytes of a file of a temporary folder; fewer at its end.

        Raises Unfit, OSError.
        """

    @offered()
    def discard_folder(self, number: int) -> None:
        """Delete a temporary folder, if it is there."""
