"""The other machines of the window: connections over SSH, and the devices and runs behind them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace
from PySide6.QtCore import QObject, QSettings, Signal

from engine.interface.values import MOST_RUNS, NoAnswer
from engine.runs.run_info import NoSuchRun, RunInfo, UnreadableRun, get_run
from engine.runs.run_state import RunState
from engine.system import paths
from engine.system.program import call
from engine.telemetry.snapshot import Snapshot
from gui.bridge.machines.turns import Turns

if TYPE_CHECKING:
    from engine.interface.engine import Engine
    from engine.interface.local_engine import LocalEngine
    from engine.remote.connection import Connection, LinkStatus
    from engine.remote.watched import DevicesWatch, ListedRuns, RemoteFollow
    from engine.runs.run_follower import RunNews
    from engine.system.machines import RemoteMachine


_log = logging.getLogger(__name__)

UNREADABLE = (NoSuchRun, OSError)
"""What an engine raises for a run that was deleted, or whose disk or machine is away."""

MOST_POINTS = 2000
"""Of a curve of another machine, about; each has the lowest and highest value behind it."""

MOST_LISTED = 2000
"""Runs of one other machine in the window, the newest ones: a longer list keeps it busy too long
whenever one of them has changed."""

MOST_DAMAGED = 200
"""The same of runs that cannot be read."""

_ANSWER_CHECK_SECONDS = 0.2
"""Between two looks whether an answer of the user is still waited for."""

_CONNECTED = "machines/connected"
"""Key of the settings: the machines to connect to when the window opens."""


def place_of(run_id: str) -> tuple[str, str]:
    """Return the machine and the number of the run that the window calls `gpus:12`.

    The machine is empty for a run of this machine.
    """
    name, _, number = run_id.rpartition(":")
    return name, number


class ToldRuns(NamedTuple):
    """The runs of a machine, as the window calls them."""

    ids: set[str]
    listed: list[RunInfo]
    """Newest first, as many as are listed."""

    unreadable: list[UnreadableRun]
    in_all: int


class _Question:
    """What `ssh` asks a person; a thread waits for the answer."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.answer: str | None = None
        self.is_answered = threading.Event()


class _Link:
    """What the window has of one machine while it is connected, or tries to be."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.devices: DevicesWatch | None = None
        self.listed: ListedRuns | None = None
        self.runs: list[RunInfo] = []
        self.unreadable: list[UnreadableRun] = []
        self.ids: set[str] = set()
        """Those of all runs there, also of those that are not in the window."""

        self.deleted: set[str] = set()
        """Ids of runs that were there before."""

        self.has_told_most = False
        """Whether the user knows that not all runs are in the window."""

        self.question: _Question | None = None


class Machines(QObject):
    """Keeps the connections. All signals come in the thread of the window."""

    listed = Signal(list)
    """list[RemoteMachine], whenever the list has changed, and once after `begin`."""

    status_changed = Signal(str, object)
    """Name of a machine, and its LinkStatus; None: it is not connected any more."""

    snapshot = Signal(str, object)
    """Name of a machine, and the Snapshot of its devices, about every second."""

    runs_listed = Signal(str, list, list)
    """Name of a machine; list[RunInfo], newest first, whose ids are such as `gpus:12`; and
    list[UnreadableRun]."""

    question = Signal(str, str)
    """Name of a machine, and what `ssh` asks, such as a password: see `answer`."""

    question_ended = Signal(str)
    """Name of a machine: its question was answered, or is not asked any more."""

    failed = Signal(str)
    """A sentence."""

    _told = Signal(object)
    """A function to be called in the thread of the window."""

    def __init__(self, settings: QSettings | None = None, parent: QObject | None = None) -> None:
        """`settings` remember which machines are connected."""
        super().__init__(parent)
        self._settings = settings
        self._links: dict[str, _Link] = {}
        self._closing: list[Connection] = []
        self._is_watching = True
        self._machines: list[RemoteMachine] = []
        self._own: LocalEngine | None = None
        self._told.connect(lambda function: function())
        self._turns = Turns(self)

    @property
    def machines(self) -> list[RemoteMachine]:
        """Those that were added, in their order."""
        return list(self._machines)

    def status(self, name: str) -> LinkStatus | None:
        """Return the state of a connection; None: there is none, and none is tried."""
        link = self._links.get(name)
        return link.connection.status if link else None

    def is_connected(self, name: str) -> bool:
        """Whether a machine answers now. For any thread."""
        status = self.status(name)
        return status is not None and status.state == "connected"

    def unheard_seconds(self, name: str) -> float:
        """Return how long ago a machine that is connected has said its last word."""
        link = self._links.get(name)
        return link.connection.unheard_seconds if link else 0.0

    def begin(self) -> None:
        """Read the list of machines, and connect to those that were connected at the last end."""
        self._read_list()
        known = [each.name for each in self._machines]
        stored = self._settings.value(_CONNECTED) if self._settings is not None else ""
        for name in str(stored or "").split():
            if name in known:
                self.connect_to(name)

    def read_again(self) -> None:
        """Follow what a command or another window has added or removed; a list that cannot be read
        now changes nothing."""
        before = self._machines
        self._read_list(tells_always=False)
        for name in {each.name for each in before} - {each.name for each in self._machines}:
            self.disconnect_from(name)

    def add(self, name: str, destination: str, command: str) -> str:
        """Add a machine. Return why it cannot be added, in a sentence; empty: it was added."""
        from engine.system import machines

        try:
            machines.add(
                machines.RemoteMachine(name=name, destination=destination, command=command)
            )
        except (machines.CannotChangeMachines, OSError) as error:
            return str(error)
        self._read_list()
        return ""

    def remove(self, name: str) -> None:
        """Forget a machine; nothing changes there."""
        from engine.system import machines

        self.disconnect_from(name)
        try:
            machines.remove(name)
        except (machines.CannotChangeMachines, OSError) as error:
            self.failed.emit(str(error))
        self._read_list()

    def connect_to(self, name: str, command: Sequence[str] | None = None) -> None:
        """Connect to a machine, and again whenever the connection breaks. `command`: what speaks
        the protocol, in the place of `ssh`."""
        if name in self._links:
            self.retry(name)
            return
        machine = next((each for each in self._machines if each.name == name), None)
        if machine is None:
            return
        from engine.remote.connection import Connection

        connection = Connection(
            machine,
            lambda status: self._tell(partial(self._take_status, name, connection, status)),
            partial(self._ask, name),
            command=command,
        )
        link = self._links[name] = _Link(connection)
        link.listed = connection.watch_runs(
            lambda *told: self.give(partial(self._take_runs, name, told_runs(name, *told))),
            MOST_LISTED,
        )
        self._watch_devices(link)
        self._remember()
        self.status_changed.emit(name, connection.status)
        connection.start()

    def disconnect_from(self, name: str) -> None:
        """End the connection to a machine; trainings there go on."""
        link = self._links.pop(name, None)
        if link is None:
            return
        self._remember()
        self._close(link)
        threading.Thread(target=link.connection.join, daemon=True).start()
        self.runs_listed.emit(name, [], [])
        self.status_changed.emit(name, None)

    def retry(self, name: str) -> None:
        """Try to connect now, if the connection waits or has failed."""
        if link := self._links.get(name):
            link.connection.retry()

    def answer(self, name: str, text: str | None) -> None:
        """Answer the question of `ssh`; None: cancel it. The answer is not kept."""
        link = self._links.get(name)
        if link is not None and (question := link.question) is not None:
            link.question = None
            question.answer = text
            question.is_answered.set()
            self.question_ended.emit(name)

    def set_watching(self, watching: bool) -> None:
        """Set whether the window is visible: while it is not, no devices are asked for."""
        self._is_watching = watching
        for link in self._links.values():
            self._watch_devices(link)

    def set_detail(self, name: str, device: str) -> None:
        """Measure the traffic of the GPU with this UUID too; empty: of none."""
        link = self._links.get(name)
        if link is not None:
            link.connection.show_traffic(device)

    def shut_down(self) -> None:
        """End all connections. What they run is gone afterwards."""
        self._turns.end()
        links, self._links = list(self._links.values()), {}
        for link in links:
            self._close(link)
        for link in links:
            link.connection.join()

    def runs(self) -> list[RunInfo]:
        """Return the runs of all other machines, each newest first."""
        return [info for link in self._links.values() for info in link.runs]

    def unreadable(self) -> list[UnreadableRun]:
        """Return the damaged runs of all other machines."""
        return [run for link in self._links.values() for run in link.unreadable]

    def trashed(self) -> list[str]:
        """Return the ids of the runs in the trash of each machine that is connected."""
        return [
            f"{name}:{number}"
            for name, link in self._links.items()
            if link.listed is not None and self.is_connected(name)
            for number in link.listed.trashed
        ]

    def has_run(self, run_id: str) -> bool:
        """Whether a run exists; one of another machine that was not listed yet is taken to, while
        the window is connected to its machine or tries to be."""
        name, number = place_of(run_id)
        if not name:
            return paths.is_run(number)
        link = self._links.get(name)
        return link is not None and run_id not in link.deleted

    def engine(self, name: str) -> Engine:
        """Return the engine of a machine; empty: of this one. For any thread. Raises NoAnswer."""
        if name:
            return self.connection(name).engine
        if self._own is None:
            from engine.interface.local_engine import LocalEngine  # NumPy takes long to import

            self._own = LocalEngine()
        return self._own

    def engine_of(self, run_id: str) -> tuple[Engine, str]:
        """Return the engine of a run's machine, and the run's number there. For any thread.

        Raises NoAnswer.
        """
        name, number = place_of(run_id)
        return self.engine(name), number

    def questions_at_once(self, run_ids: Iterable[str]) -> int:
        """Return how many of these runs are asked for at a time. For any thread."""
        most = 1
        for name in {place_of(each)[0] for each in run_ids}:
            with contextlib.suppress(NoAnswer):
                most = max(most, self.engine(name).questions_at_once)
        return most

    def connection(self, name: str) -> Connection:
        """Return the connection to a machine. For any thread. Raises NoAnswer."""
        link = self._links.get(name)
        if link is None:
            raise NoAnswer(f"{name} is not connected.")
        return link.connection

    def follow(
        self,
        run_id: str,
        series: Sequence[str],
        on_news: Callable[[RunNews], None],
        most: int = MOST_POINTS,
    ) -> RemoteFollow | None:
        """Follow a run of another machine; None: that is not connected.

        A curve comes in about `most` points. `on_news` is called in the thread of the window, with
        a part of the news in each turn. For any thread, as is `info`.
        """
        name, number = place_of(run_id)
        link = self._links.get(name)
        if link is None:
            return None

        from gui.bridge.machines.news_parts import parts_of  # NumPy takes long to import

        def take(news: RunNews) -> None:
            for part in parts_of(news):
                self.give(partial(on_news, part))

        return link.connection.follow(number, series, take, most=most)

    def give(self, function: Callable[[], None]) -> None:
        """Let `function` be called in the thread of the window, in its turn; waits for that. For
        the threads of watches."""
        self._turns.give(function)

    def info(self, run_id: str) -> RunInfo | None:
        """Return the newest known state of a run of another machine; None: it is not listed."""
        link = self._links.get(place_of(run_id)[0])
        runs = link.runs if link else []
        return next((each for each in runs if each.id == run_id), None)

    def known(self, run_id: str) -> RunInfo:
        """Return the state of a run; of another machine, the newest that is known.

        Raises NoSuchRun.
        """
        found = self.info(run_id) if place_of(run_id)[0] else get_run(run_id)
        if found is None:
            raise NoSuchRun(f"There is no run {run_id}.")
        return found

    def _read_list(self, *, tells_always: bool = True) -> None:
        from engine.system import machines

        before = self._machines
        try:
            self._machines = machines.machines()
        except OSError as error:
            if not tells_always:
                return
            self._machines = []
            self.failed.emit(f"No other machine is shown: {error}.")
        if tells_always or self._machines != before:
            self.listed.emit(self.machines)

    def _remember(self) -> None:
        if self._settings is not None:
            self._settings.setValue(_CONNECTED, " ".join(self._links))

    def _watch_devices(self, link: _Link) -> None:
        name = link.connection.machine.name
        if self._is_watching and link.devices is None:
            link.devices = link.connection.watch_devices(
                lambda snapshot: self.give(partial(self._take_snapshot, name, snapshot))
            )
        elif not self._is_watching and link.devices is not None:
            link.devices.close()
            link.devices = None

    def _close(self, link: _Link) -> None:
        link.connection.close()
        if (question := link.question) is not None:
            link.question = None
            question.is_answered.set()
            self.question_ended.emit(link.connection.machine.name)

    def _tell(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the window is gone
            self._told.emit(function)

    def _ask(self, name: str, prompt: str) -> str | None:
        """Let the user answer; called in a thread of the connection."""
        question = _Question(prompt)
        self._tell(partial(self._take_question, name, question))
        while not question.is_answered.wait(_ANSWER_CHECK_SECONDS):
            if name not in self._links:
                return None  # the window closes, and takes no question any more
        answer, question.answer = question.answer, None
        return answer

    def _take_question(self, name: str, question: _Question) -> None:
        link = self._links.get(name)
        if link is None:
            question.is_answered.set()
            return
        if link.question is not None:  # it is not asked any more
            link.question.is_answered.set()
        link.question = question
        self.question.emit(name, question.prompt)

    def _take_status(self, name: str, connection: Connection, status: LinkStatus) -> None:
        link = self._links.get(name)
        if link is None or link.connection is not connection:
            return
        self.status_changed.emit(name, status)
        if self.is_connected(name):
            return
        lost = [_lost(name, info, status.sentence) for info in link.runs]
        if lost != link.runs:
            link.runs = lost
            self.runs_listed.emit(name, lost, link.unreadable)

    def _take_runs(self, name: str, told: ToldRuns) -> None:
        link = self._links.get(name)
        if link is not None:
            known = link.deleted if len(link.deleted) < MOST_RUNS else set()
            link.deleted = (known | link.ids) - told.ids
            link.ids = told.ids
            link.runs, link.unreadable = told.listed, told.unreadable
            self.runs_listed.emit(name, link.runs, link.unreadable)
            if told.in_all > MOST_LISTED and not link.has_told_most:
                link.has_told_most = True
                self.failed.emit(
                    f"{name} has {told.in_all:,} runs: the newest {MOST_LISTED:,} are listed "
                    f"here. `{call(f'runs --on {name}')}` lists all."
                )

    def _take_snapshot(self, name: str, snapshot: Snapshot) -> None:
        if name in self._links:
            self.snapshot.emit(name, snapshot)


def is_elsewhere(info: RunInfo) -> bool:
    """Whether this is a run of another machine: its folder is no path here."""
    return bool(place_of(info.id)[0])


def now_of(info: RunInfo) -> float:
    """Return the time of day on the machine of a run: its clock may differ from the one here, so
    of another machine it is that of the newest event."""
    return info.status.updated if is_elsewhere(info) else time.time()


def told_runs(
    machine: str,
    runs: Sequence[RunInfo],
    unreadable: Sequence[UnreadableRun],
    numbers: Sequence[str],
) -> ToldRuns:
    """Return what the window takes of the runs of a machine; `numbers`: of all readable ones there.

    Any thread may call it: of very many runs it takes longer than the window may stand still."""
    return ToldRuns(
        {f"{machine}:{number}" for number in (*numbers, *(each.id for each in unreadable))},
        # A number is what the window counts on, and what comes from there may be anything.
        [named(machine, info) for info in runs[:MOST_LISTED] if info.id.isdecimal()],
        [run._replace(id=f"{machine}:{run.id}") for run in unreadable[:MOST_DAMAGED]],
        len(numbers),
    )


def named(machine: str, info: RunInfo) -> RunInfo:
    """Return a run of another machine as the window calls it."""
    origin = info.origin
    if origin.parent:
        origin = replace(origin, parent=f"{machine}:{origin.parent}")
    return info._replace(id=f"{machine}:{info.id}", origin=origin)


def _lost(machine: str, info: RunInfo, why: str) -> RunInfo:
    """Return what is known of a run while its machine is not connected."""
    if info.state.is_over:
        return info
    reason = f"There is no connection to {machine}. {why}".rstrip()
    return info._replace(state=RunState.ELSEWHERE, reason=reason)
