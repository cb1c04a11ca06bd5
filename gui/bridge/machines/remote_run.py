"""A run of another machine: each method is one request to the Traindeck there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

from engine.client import CannotStart, NoSuchRun
from engine.doctor.check import Check
from engine.environments.creation import Cancelled
from engine.environments.registry import Environment
from engine.messages.commands import Command
from engine.messages.events import RecipeVersion
from engine.planning.recipe_check import CHECK_SECONDS, END_SECONDS, CheckResult
from engine.remote import packed_points, requests
from engine.remote.connection import Connection
from engine.remote.downloads import DownloadFailed, download_checkpoint
from engine.remote.requests import CreationPart, ExaminationPart, Request
from engine.remote.run_rows import packed_spec, unpacked_history
from engine.remote.sent_code import SentFiles, code_of, keep, script_code
from engine.remote.session import CallCancelled, NotConnected, RemoteError
from engine.runs.checkpoint_files import CheckpointInfo, Watch
from engine.runs.device_queue import Move
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import ChangedNotes
from engine.runs.run_overview import RunOverview
from engine.runs.settings_history import SettingsHistory
from engine.runs.store.stored_points import StoredPoints
from engine.spec import catalog, recipe_file
from engine.spec.recipe_copy import copied_recipe
from engine.spec.recipe_file import SCRIPT, RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.bridge.machines.no_answer import NoAnswer
from gui.bridge.machines.run_access import RunAccess
from gui.style.translation import translate

A = TypeVar("A")

ANSWER_SECONDS = 20.0
START_SECONDS = 120.0
"""For the start of a run there, which may verify settings and recipe first."""

EMPTY_SECONDS = 600.0
"""For the deletion of many large files there."""

EXAMINE_SECONDS = 3600.0
"""For an examination with many GPUs; the user can stop it."""

MAKE_SECONDS = 24 * 3600.0
"""For an environment, which may be downloaded slowly there; the user can cancel it."""

VERIFY_SECONDS = 3600.0
"""For a checkpoint that is read again there; the user can cancel it."""


def call(connection: Connection, request: Request[A], seconds: float, **more: Any) -> A:
    """Ask, and wait for the answer. Raises what `engine.client` raises, and NoAnswer."""
    try:
        return connection.call(request, seconds, **more)
    except RemoteError as error:
        raise _no_answer(connection, error) from error


def _no_answer(connection: Connection, error: Exception) -> NoAnswer:
    """Return what happened, in a sentence that names the machine."""
    name, text = connection.machine.name, str(error)
    return NoAnswer(text if text.startswith(f"{name} ") else f"{name}: {text}")


@contextmanager
def downloading(connection: Connection) -> Iterator[None]:
    """Let what comes in the body be all or nothing also for the reader of an error.

    Raises NoAnswer.
    """
    try:
        yield
    except NotConnected as error:
        text = translate(
            "Machines", "The connection to {machine} broke: nothing was kept of the download."
        )
        text = text.format(machine=connection.machine.name)
        raise NoAnswer(f"{text} {connection.status.sentence}".rstrip()) from error
    except (RemoteError, NoSuchRun) as error:
        raise _no_answer(connection, error) from error


def start_elsewhere(connection: Connection, spec: RunSpec, tags: tuple[str, ...]) -> str:
    """Send the recipe or script of `spec` to a machine, and start a run there; return such as
    `gpus:12`.

    Raises CannotStart and NoAnswer.
    """
    spec, code = _sent(connection, spec)
    number = call(connection, requests.Start(packed_spec(spec), tags, code), START_SECONDS)
    return f"{connection.machine.name}:{number}"


def start_twins_elsewhere(connection: Connection, spec: RunSpec, tags: tuple[str, ...]) -> str:
    """Start twin runs of the recipe of `spec`, as `start_elsewhere`; return the first of both."""
    request = requests.StartTwins(packed_spec(spec), tags, recipe_code(spec))
    number = call(connection, request, START_SECONDS)
    return f"{connection.machine.name}:{number}"


def environments_elsewhere(connection: Connection) -> list[Environment]:
    """Return the Pythons that a machine has named. Raises NoAnswer."""
    return call(connection, requests.Environments(), ANSWER_SECONDS)


def make_environment_elsewhere(
    connection: Connection,
    request: requests.MakeEnvironment,
    on_part: Callable[[CreationPart], None],
    cancelled: threading.Event,
) -> Environment:
    """Make an environment on a machine; when this returns or raises, nothing is made any more.

    `on_part` is called in the thread of the connection. Raises Cancelled and NoAnswer.
    """

    def take(part: bytes) -> None:
        on_part(msgspec.msgpack.decode(part, type=CreationPart))

    try:
        return connection.call(request, MAKE_SECONDS, on_part=take, cancelled=cancelled)
    except CallCancelled:
        raise Cancelled from None
    except NotConnected as error:
        text = translate(
            "Environments",
            "There is no connection to {machine} any more: an environment that was not ready yet "
            "is deleted there, at the latest by the next command `env` there.",
        )
        text = text.format(machine=connection.machine.name)
        raise NoAnswer(f"{text} {connection.status.sentence}".rstrip()) from error
    except RemoteError as error:
        raise _no_answer(connection, error) from error


def check_elsewhere(connection: Connection, spec: RunSpec) -> list[Problem]:
    """Return why a recipe or script with these settings cannot start on a machine now, to which it
    is sent.

    Raises CannotStart if it cannot be read here, and NoAnswer.
    """
    spec, code = _sent(connection, spec)
    return call(connection, requests.Check(packed_spec(spec), code), START_SECONDS)


def try_recipe_elsewhere(
    connection: Connection, spec: RunSpec, cancelled: threading.Event
) -> CheckResult:
    """Train one batch of the recipe of `spec` on a machine, to which it is sent.

    Places in the files that were sent are those of this machine in the result; `where` is empty if
    it is another file. Raises CannotStart if the recipe cannot be read here, and NoAnswer.
    """
    code, seconds = recipe_code(spec), CHECK_SECONDS + 2 * END_SECONDS
    request = requests.TryRecipe(packed_spec(spec), code)
    found = call(connection, request, seconds, cancelled=cancelled)
    if code is None:
        return msgspec.structs.replace(found, recipe=spec.recipe, where="")
    sent = SentFiles(code, found.recipe, spec.recipe)
    return msgspec.structs.replace(
        found,
        recipe=spec.recipe,
        problem=sent.told(found.problem),
        where=sent.place(found.where),
        details=sent.told(found.details),
        notices=tuple(map(sent.told, found.notices)),
    )


def examine_elsewhere(
    connection: Connection,
    on_part: Callable[[ExaminationPart], None],
    cancelled: threading.Event,
    *,
    on_gpus: bool,
) -> None:
    """Make the checks of the doctor on a machine. Raises NoAnswer.

    `on_part` gets each one when it ends, in the thread of the connection.
    """

    def take(part: bytes) -> None:
        on_part(msgspec.msgpack.decode(part, type=ExaminationPart))

    request = requests.Examine(on_gpus)
    call(connection, request, EXAMINE_SECONDS, on_part=take, cancelled=cancelled)


def report_elsewhere(connection: Connection, checks: list[Check]) -> str:
    """Return the report of an examination of a machine. Raises NoAnswer."""
    return call(connection, requests.ReportChecks(checks), ANSWER_SECONDS)


def recipe_code(spec: RunSpec) -> requests.Code | None:
    """Return the recipe of `spec` for a message, with its modules; None: every Traindeck has it.

    Raises CannotStart.
    """
    with _readable_here():
        return code_of(catalog.recipe_of(spec))


def send_recipe(connection: Connection, spec: RunSpec) -> SentFiles | None:
    """Send the recipe of `spec` to a machine; return None for one that every Traindeck has.

    Raises CannotStart, NoAnswer.
    """
    if (code := recipe_code(spec)) is None:
        return None
    there = call(connection, requests.Keep(code), START_SECONDS)
    return SentFiles(code, there, spec.recipe)


@contextmanager
def _readable_here() -> Iterator[None]:
    """Let a recipe or script that cannot be read here be a problem of its field."""
    try:
        yield
    except (OSError, ValueError, catalog.UnknownName) as error:
        raise CannotStart([Problem("recipe", str(error))]) from error


def _sent(connection: Connection, spec: RunSpec) -> tuple[RunSpec, requests.Code | None]:
    """Return `spec` as it runs there, and the recipe that goes with it; a script is sent at once.

    Raises CannotStart if it cannot be read here, and NoAnswer.
    """
    if spec.is_script:
        return _with_script_there(connection, spec), None
    return spec, recipe_code(spec)


def _with_script_there(connection: Connection, spec: RunSpec) -> RunSpec:
    """Send the script of `spec`, and return the spec with which it runs in the folder there.

    Raises CannotStart if it cannot be read here, and NoAnswer.
    """
    with _readable_here():
        code, at = script_code(spec.command, Path(spec.working_folder or Path(spec.recipe).parent))
    file = PurePosixPath(call(connection, requests.Keep(code), START_SECONDS))
    return msgspec.structs.replace(
        spec,
        recipe=str(file),
        command=(*spec.command[:at], file.name, *spec.command[at + 1 :]),
        working_folder=str(file.parent),
    )


def start_there(connection: Connection, spec: RunSpec) -> str:
    """Start a run of a recipe that lies on that machine; otherwise as `start_elsewhere`."""
    number = call(connection, requests.Start(packed_spec(spec)), START_SECONDS)
    return f"{connection.machine.name}:{number}"


def empty_trash_elsewhere(connection: Connection, numbers: Sequence[str]) -> None:
    """Delete these runs of the trash of a machine for good. Raises NoAnswer."""
    call(connection, requests.EmptyTrash(tuple(numbers)), EMPTY_SECONDS)


class RemoteRun(RunAccess):
    """A run of the machine behind `connection`; `find` returns its newest known state."""

    def __init__(
        self, connection: Connection, number: str, find: Callable[[], RunInfo | None]
    ) -> None:
        self._connection = connection
        self._number = number
        self._find = find

    @property
    def id(self) -> str:
        """Such as `gpus:12`."""
        return f"{self._connection.machine.name}:{self._number}"

    def info(self) -> RunInfo:
        if found := self._find():
            return found
        raise NoSuchRun(f"There is no run {self.id}.")

    def window(self, series: str, first: float, last: float, most: int) -> StoredPoints:
        request = requests.Window(self._number, series, first, last, most)
        return packed_points.unpack(self._ask(request))

    def history(self, series: str, most: int) -> StoredPoints:
        return packed_points.unpack(self._ask(requests.History(self._number, series, most)))

    def counts(self) -> Mapping[str, int]:
        return self._ask(requests.CountPoints(self._number))

    def batches(self, series: str) -> Iterator[StoredPoints]:
        there, count = 0, self.counts().get(series, 0)
        while there < count:
            answer = self._ask(requests.Points(self._number, series, there))
            with self._readable():
                points = packed_points.unpack(answer)
            if points.count <= there:
                return  # the number of points is wrong
            there = points.count
            yield points

    def send(self, command: Command) -> None:
        self._ask(requests.Send(self._number, command))

    def resume(
        self,
        checkpoint: Path | None,
        spec: RunSpec | None,
        recipe: RecipeVersion | None,
        watch: Watch,
        *,
        as_new: bool,
    ) -> str:
        cancelled = threading.Event()
        raised: list[Exception] = []

        def progress(done: int, total: int) -> None:
            try:
                watch(done, total)
            except Exception as error:  # the caller wants to end this; it is raised again below
                raised.append(error)
                cancelled.set()

        settings = None if spec is None else packed_spec(spec)
        name = checkpoint.name if checkpoint else ""
        request = requests.Resume(self._number, name, settings, as_new, recipe)
        try:
            number = self._connection.call(
                request, VERIFY_SECONDS, progress=progress, cancelled=cancelled
            )
        except CallCancelled:
            if raised:
                raise raised[0] from None
            raise
        except RemoteError as error:
            raise _no_answer(self._connection, error) from error
        return f"{self._connection.machine.name}:{number}"

    def checkpoints(self) -> list[CheckpointInfo]:
        listed = self._ask(requests.Checkpoints(self._number))
        return [CheckpointInfo(Path(each.name), each.manifest) for each in listed]

    def copy_checkpoint(self, name: str, target: Path, progress: Watch) -> None:
        with downloading(self._connection):
            listed = self._connection.call(requests.Checkpoints(self._number), ANSWER_SECONDS)
            for each in listed:
                if each.name == name:
                    begin = self._connection.begin
                    return download_checkpoint(begin, self._number, each, target, progress)
        raise DownloadFailed(f"Run {self.id} has no checkpoint {name} any more.")

    def overview(self, info: RunInfo, device_names: Mapping[str, str]) -> RunOverview:
        return self._ask(requests.Overview(self._number, dict(device_names)))

    def diff(self, attempt: int) -> str:
        return self._ask(requests.ReadText(self._number, "diff", attempt))

    def recipe(self) -> str:
        return self._ask(requests.ReadText(self._number, "recipe"))

    def recipe_info(self, spec: RunSpec) -> RecipeInfo:
        path = Path(spec.recipe)
        if spec.is_script and path.suffix != ".py":
            name = recipe_file.script_name(path)
            return RecipeInfo(name=name, path=str(path), builtin=False, framework=SCRIPT)
        code = self._ask(requests.ReadCode(self._number))
        with self._readable():
            file = keep(code)
        if not spec.is_script:
            return copied_recipe(spec, file)
        found, name = recipe_file.read_script(file), recipe_file.script_name(path)
        return msgspec.structs.replace(found, name=name, path=str(path), copy=str(file))

    def settings_history(self) -> SettingsHistory:
        answer = self._ask(requests.ReadSettings(self._number))
        with self._readable():
            return unpacked_history(answer)

    def media(self, file: str, largest: int) -> bytes:
        content = self._ask(requests.Media(self._number, file))
        if len(content) > largest:
            raise NoAnswer(f"{file} of {self.id} is larger than {largest:,} bytes.")
        return content

    def write_notes(self, change: ChangedNotes) -> None:
        self._ask(requests.WriteNotes(self._number, change.after, change.before))

    def move(self, where: Move) -> None:
        self._ask(requests.MoveInQueue(self._number, where))

    def delete(self) -> None:
        self._ask(requests.Delete(self._number))

    def restore(self) -> None:
        self._ask(requests.Restore(self._number))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Let what cannot be read of an answer be as none. Raises NoAnswer."""
        try:
            yield
        except ValueError as error:
            raise _no_answer(self._connection, error) from error

    def _ask(self, request: Request[A]) -> A:
        try:
            return call(self._connection, request, ANSWER_SECONDS)
        except NoSuchRun as error:  # it is deleted there while it is shown here
            raise _no_answer(self._connection, error) from error
