"""A connection for one errand of the command line: no watches, and no second try."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from engine.interface.engine import Engine
from engine.interface.values import NoAnswer, NotConnected
from engine.remote import ssh
from engine.remote.frames import Hello
from engine.remote.remote_engine import remote_engine
from engine.remote.session import Broken, OtherProtocol, Session
from engine.remote.ssh import Asking
from engine.system.machines import RemoteMachine

LONGEST_CONNECT = 60.0
"""Seconds; longer where a person types a password."""

LONGEST_TYPING = 600.0
LONGEST_END = 10.0


PING_SECONDS = 15.0
"""The other side ends when it hears nothing for a minute, such as while it exports."""

LONGEST_SILENCE = 60.0
"""Seconds; it answers each ping, whatever it does meanwhile."""


@contextmanager
def open_session(machine: RemoteMachine) -> Iterator[tuple[Engine, Hello]]:
    """Connect to `machine`. Raises NoAnswer, whose text is a sentence.

    If the connection breaks, the NotConnected of a call leaves this as one that says why.

    `ssh` asks on the terminal, if there is one.
    """
    asking = Asking.here()
    has_terminal = asking is Asking.TERMINAL
    try:
        with ignored_interrupts() if has_terminal else nullcontext():
            session = Session(
                ssh.serve_command(machine, asking),
                machine=machine.name,
                own_session=not has_terminal,
            )
    except OSError as error:
        raise NoAnswer(f"`ssh` cannot be started on this machine: {error}.") from error
    spoken = threading.Event()
    hellos: list[Hello] = []
    failures: list[str] = []

    def ready(hello: Hello) -> None:
        hellos.append(hello)
        spoken.set()

    def run() -> None:
        try:
            session.run(ready)
        except (Broken, OtherProtocol) as error:
            failures.append(ssh.failure_of(machine, error).sentence)
            spoken.set()

    thread = threading.Thread(target=run, daemon=True, name=f"session {machine.name}")
    thread.start()
    try:
        seconds = LONGEST_TYPING if asking is Asking.TERMINAL else LONGEST_CONNECT
        if not spoken.wait(seconds):
            raise NoAnswer(ssh.explain_silence(machine, seconds, session.said_before).sentence)
        if not hellos:
            raise NoAnswer(failures[0])
        over = threading.Event()
        pings = threading.Thread(target=_keep_alive, args=(session, over), daemon=True)
        pings.start()
        try:
            yield remote_engine(machine.name, session.call), hellos[0]
        except NotConnected as error:
            thread.join(LONGEST_END)
            raise NotConnected(failures[0] if failures else str(error)) from error
        finally:
            over.set()
            pings.join()
    finally:
        session.stop()
        thread.join(1.0)
        if thread.is_alive():
            session.terminate("it was closed here")  # it may have changed the terminal
            thread.join(1.0)
        if thread.is_alive():
            session.kill("it was closed here")
            thread.join()


@contextmanager
def ignored_interrupts() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C, as `ssh` then does to its end.

    It has the terminal, to ask for a password; Ctrl-C is for the command that waits.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _keep_alive(session: Session, over: threading.Event) -> None:
    while not over.wait(PING_SECONDS):
        if time.monotonic() > session.heard_at + LONGEST_SILENCE:
            session.kill(f"nothing came from there for {LONGEST_SILENCE:g} s")
            return
        try:
            session.post("ping")
        except NotConnected:
            return
