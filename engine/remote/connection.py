"""The connection to one machine: made, kept, and made again by itself when it breaks."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from engine.interface.encoding import Method
from engine.interface.engine import Engine
from engine.interface.values import MOST_RUNS, NotConnected
from engine.remote import ssh
from engine.remote.askpass import Ask, Askpass
from engine.remote.frames import Hello
from engine.remote.remote_engine import remote_engine
from engine.remote.session import Broken, OtherProtocol, Session
from engine.remote.ssh import Asking, Failure
from engine.remote.watched import (
    DevicesWatch,
    ListedRuns,
    ListedSweeps,
    OnRuns,
    OnSweeps,
    RemoteFollow,
    RemoteWatch,
)
from engine.runs.run_follower import RunNews
from engine.system.machines import RemoteMachine
from engine.telemetry.snapshot import Snapshot

_log = logging.getLogger(__name__)


class LinkState(StrEnum):
    """The state of a connection.

    CONNECTING goes to CONNECTED; to WAITING if it may work later, and back by itself; to ASKING
    while a person types a password, and back; to FAILED if only a person can help, until `retry`.
    CONNECTED goes to WAITING when the connection breaks. CLOSED is the end of all.
    """

    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting"
    ASKING = "asking"
    FAILED = "failed"
    CLOSED = "closed"


class LinkStatus(NamedTuple):
    """The state of a connection, for a person."""

    state: LinkState
    sentence: str = ""
    """Why it is not connected."""

    next_try: float = 0.0
    """While WAITING: seconds since the epoch."""

    round_trip: float | None = None
    """While CONNECTED: seconds from a question to its answer; None: not measured yet."""

    quiet: float = 0.0
    """While CONNECTED: seconds without a word from there; 0: they are no more than usual."""

    hello: Hello | None = None
    """While CONNECTED: what the Traindeck there says of itself."""


class Timing(NamedTuple):
    """Seconds."""

    ping: float = 5.0
    """Between two questions whether the other side is there."""

    quiet: float = 6.5
    """Longer than `ping` and its answer; so long without a word is told."""

    silence: float = 15.0
    """Without a word from there, the connection is given up."""

    connect: float = 30.0
    """For the whole of a connection, beside the time in which a person types."""

    first_wait: float = 1.0
    longest_wait: float = 30.0
    """Between two tries; the wait doubles."""

    tick: float = 0.5
    sleep: float = 5.0
    """By how much the time of day runs ahead of the machine's clock when it has slept."""

    after_sleep: float = 3.0
    """After a sleep, the other side has so long to say a word: it has often given up meanwhile."""


W = TypeVar("W", bound=RemoteWatch[Any])


class Connection:
    """Keeps a connection to `machine` until it is closed. May be used from any thread.

    Callbacks come in threads of the connection and of its watches: the next news come when one has
    returned.
    """

    def __init__(
        self,
        machine: RemoteMachine,
        on_status: Callable[[LinkStatus], None] = lambda status: None,
        ask: Ask | None = None,
        *,
        command: Sequence[str] | None = None,
        timing: Timing = Timing(),  # noqa: B008  # it is immutable
    ) -> None:
        """`ask` gets what `ssh` asks, such as for a password, and returns the answer, which is not
        kept; None: it was cancelled. Without it, no question is asked. `command`: what speaks the
        protocol, in the place of `ssh`."""
        self.machine = machine
        self.status = LinkStatus(LinkState.CONNECTING)
        self._on_status = on_status
        self._ask = ask
        self._command = command
        self._timing = timing
        self._changed = threading.Condition()
        self._session: Session | None = None
        self._detail = ""
        self._closing = False
        self._wake = threading.Event()
        self._begun = time.monotonic()
        self._asking = 0
        self._keeper = threading.Thread(target=self._keep, daemon=True, name=f"keep {machine.name}")
        self._pulse = threading.Thread(
            target=self._watch_over, daemon=True, name=f"pulse {machine.name}"
        )
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to connect."""
        self._keeper.start()
        self._pulse.start()

    def close(self) -> None:
        """Ask everything to end; `join` waits for it. `ssh` never outlives that."""
        with self._changed:
            self._closing = True
            session = self._session
        self._tell_watches()
        if session is not None:
            session.stop()
        self._wake.set()

    def join(self, seconds: float = 2.0) -> None:
        """Wait until everything has ended; after `seconds`, `ssh` is killed."""
        self._keeper.join(seconds)
        if self._keeper.is_alive():
            if (session := self._session) is not None:
                session.kill("it was closed here")
            self._keeper.join()
        self._ended.set()
        self._pulse.join()

    def retry(self) -> None:
        """Try to connect now, if it is WAITING or FAILED."""
        self._wake.set()

    @property
    def traffic(self) -> tuple[int, int]:
        """The bytes that were sent and received by the present session."""
        session = self._session
        return session.traffic if session is not None else (0, 0)

    @property
    def pid(self) -> int:
        """That of `ssh`; 0: it does not run now."""
        session = self._session
        return session.pid if session is not None else 0

    @property
    def engine(self) -> Engine:
        """The engine of the machine, while it is connected: otherwise its methods raise
        NotConnected. Not for callbacks."""
        return remote_engine(self.machine.name, self._call)

    def _call(self, method: Method, arguments: Mapping[str, Any]) -> Any:
        return self._connected().call(method, arguments)

    def follow(
        self,
        run_id: str,
        series: Sequence[str],
        on_news: Callable[[RunNews], None],
        *,
        most: int = 2000,
    ) -> RemoteFollow:
        """Follow a run from its beginning; the points of `series` only. `close` of it ends it."""
        return self._watch(RemoteFollow(run_id, series, most, on_news))

    def watch_runs(self, on_runs: OnRuns, most: int = MOST_RUNS) -> ListedRuns:
        """Get the newest runs, newest first, whenever a run has changed, until it is closed."""
        return self._watch(ListedRuns(on_runs, most))

    def watch_sweeps(self, on_sweeps: OnSweeps, on_trouble: Callable[[str], None]) -> ListedSweeps:
        """Get all sweeps whenever one has changed, or a sentence why not."""
        return self._watch(ListedSweeps(on_sweeps, on_trouble))

    def watch_devices(self, on_snapshot: Callable[[Snapshot], None]) -> DevicesWatch:
        """Get the devices, about every second, until it is closed."""
        return self._watch(DevicesWatch(on_snapshot))

    def show_traffic(self, device: str) -> None:
        """Get the traffic of the GPU with this UUID too, where devices are watched; empty: of none.
        Waits for nothing."""
        self._detail = device
        if self._session is not None:
            with contextlib.suppress(NotConnected):  # the next session asks for it
                self._session.post("show_traffic", device=device)

    def _watch(self, watch: W) -> W:
        watch.on_close = self._tell_watches
        thread = threading.Thread(
            target=watch.run,
            args=(partial(self._next_session, watch),),
            daemon=True,
            name=f"{type(watch).__name__} {self.machine.name}",
        )
        thread.start()
        return watch

    def _tell_watches(self) -> None:
        """Let those that wait for a session look again."""
        with self._changed:
            self._changed.notify_all()

    def _next_session(
        self, watch: RemoteWatch[Any], before: Session | None
    ) -> tuple[Session, Engine] | None:
        """Wait until there is another session than `before`; None: one of both is closed."""

        def is_there() -> bool:
            is_connected = self.status.state is LinkState.CONNECTED
            is_new = is_connected and self._session not in (None, before)
            return self._closing or watch.is_over or is_new

        with self._changed:
            self._changed.wait_for(is_there)
            session = self._session
            if self._closing or watch.is_over or session is None:
                return None
            return session, remote_engine(self.machine.name, session.call)

    def _connected(self) -> Session:
        session = self._session
        if session is None or self.status.state is not LinkState.CONNECTED:
            raise NotConnected(
                self.status.sentence or f"There is no connection to {self.machine.name} yet."
            )
        return session

    def _keep(self) -> None:
        """Connect, and connect again; the thread of all callbacks but those of `_watch_over`."""
        wait, asks = self._timing.first_wait, False
        while not self._closing:
            self._tell(LinkStatus(LinkState.CONNECTING))
            self._wake.clear()
            failure, was_connected = self._one_session(asks=asks)
            if self._closing:
                break
            if was_connected:
                wait = self._timing.first_wait
            if failure.wants_answer and self._ask is not None and not asks:
                asks = True
                continue
            asks = False
            if failure.is_lasting:
                self._tell(LinkStatus(LinkState.FAILED, failure.sentence))
                self._wake.wait()
                wait = self._timing.first_wait
                continue
            next_try = time.time() + wait
            self._tell(LinkStatus(LinkState.WAITING, failure.sentence, next_try))
            if self._wake.wait(wait):
                wait = self._timing.first_wait
            else:
                wait = min(2 * wait, self._timing.longest_wait)
        self._tell(LinkStatus(LinkState.CLOSED))
        self._ended.set()

    def _one_session(self, *, asks: bool) -> tuple[Failure, bool]:
        """Connect and stay connected; return why that has ended, and whether it was connected."""
        with contextlib.ExitStack() as stack:
            environment = None
            try:
                if asks:
                    assert self._ask is not None
                    askpass = stack.enter_context(Askpass(self._ask_person))
                    environment = askpass.environment
                command = self._command or ssh.serve_command(
                    self.machine, Asking.WINDOW if asks else Asking.NOBODY
                )
                session = Session(
                    command,
                    machine=self.machine.name,
                    environment=environment,
                )
            except OSError as error:
                text = f"`ssh` cannot be started on this machine: {error}."
                return Failure(text, is_lasting=True), False
            with self._changed:
                self._session, self._begun = session, time.monotonic()
                if self._closing:
                    session.stop()
            try:
                session.run(lambda hello: self._ready(session, hello))
            except (Broken, OtherProtocol) as error:
                was_connected = isinstance(error, Broken) and error.greeted
                self._session = None
                return ssh.failure_of(self.machine, error), was_connected
        raise AssertionError("a session ends by an exception")

    def _ready(self, session: Session, hello: Hello) -> None:
        with self._changed:
            self.status = LinkStatus(LinkState.CONNECTED, hello=hello)
            self._changed.notify_all()
        if self._detail:
            self.show_traffic(self._detail)
        self._tell(self.status)

    def _ask_person(self, prompt: str) -> str | None:
        assert self._ask is not None
        self._asking += 1
        self._tell(LinkStatus(LinkState.ASKING, prompt))
        try:
            return self._ask(prompt)
        finally:
            self._asking -= 1
            self._begun = time.monotonic()
            if self.status.state is LinkState.ASKING:  # and was not closed meanwhile
                self._tell(LinkStatus(LinkState.CONNECTING))

    @property
    def unheard_seconds(self) -> float:
        """How long ago the last word came from there, while CONNECTED; otherwise 0."""
        session = self._session
        is_connected = self.status.state is LinkState.CONNECTED and session is not None
        return time.monotonic() - session.heard_at if session and is_connected else 0.0

    def _watch_over(self) -> None:
        """Notice that the other side is silent, and that this machine has slept."""
        ahead, asked_at = time.time() - time.monotonic(), 0.0
        while not self._ended.wait(self._timing.tick):
            now = time.monotonic()
            has_slept = time.time() - now > ahead + self._timing.sleep
            ahead = time.time() - now
            session = self._session
            if session is None or self._asking:
                if has_slept and self.status.state is LinkState.WAITING:
                    self._wake.set()
                continue
            if self.status.state is not LinkState.CONNECTED:
                if now - self._begun > self._timing.connect:
                    session.kill(f"it took longer than {self._timing.connect:g} s")
                continue
            if has_slept:
                latest = now - self._timing.silence + self._timing.after_sleep
                session.heard_at = min(session.heard_at, latest)
            self._tell_quiet(now - session.heard_at)
            if now - session.heard_at > self._timing.silence:
                session.kill(f"nothing came from there for {self._timing.silence:g} s")
            elif has_slept or now - asked_at >= self._timing.ping:
                asked_at = now
                self._ping(session, now)

    def _tell_quiet(self, seconds: float) -> None:
        quiet = seconds if seconds > self._timing.quiet else 0.0
        if quiet != self.status.quiet:
            self._tell(self.status._replace(quiet=quiet))

    def _ping(self, session: Session, now: float) -> None:
        def answered() -> None:
            self._tell(self.status._replace(round_trip=time.monotonic() - now))

        with contextlib.suppress(NotConnected):  # `_keep` says so
            session.post("ping", answered)

    def _tell(self, status: LinkStatus) -> None:
        """Set and tell the status; without the lock, because the callback may take its time."""
        if status.state is not self.status.state:
            _log.info("%s: %s %s", self.machine.name, status.state, status.sentence)
        self.status = status
        self._on_status(status)
