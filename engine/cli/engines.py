"""The engine that a command asks: of this machine, or of the one that `--on` or `gpus:12` names."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from engine.cli.output import Refused, Unanswered
from engine.interface import values
from engine.interface.encoding import Method
from engine.interface.engine import Engine
from engine.system import machines
from engine.system.machines import CannotChangeMachines, RemoteMachine, run_reference
from engine.system.program import call


@contextmanager
def open_engine(machine: str, if_lost: str = "") -> Iterator[Engine]:
    """Give the engine of `machine`; empty: of this one. It connects when it is asked something.

    `if_lost`: what goes on there when the connection breaks, in a sentence. Raises Refused,
    Unanswered.
    """
    if not machine:
        from engine.interface.local_engine import LocalEngine  # the other one needs less

        yield LocalEngine()
        return
    from engine.remote.remote_engine import remote_engine

    try:
        found = machines.machine(machine)
    except CannotChangeMachines as error:
        raise Refused(str(error)) from None
    try:
        with ExitStack() as stack:
            closing = stack.enter_context(_Closing())
            yield remote_engine(found.name, _Connecting(found, stack).call)
            closing.begin()
    except values.NotConnected as error:
        raise Unanswered(f"{error} {if_lost}".rstrip()) from error


class _Closing:
    """Ignores Ctrl-C while a connection is closed: it comes too late to change the result."""

    def __init__(self) -> None:
        self._before: Any = None

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Ignore it from now on, until the connection is closed."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


class _Connecting:
    """Connects at the first call; what this machine can refuse by itself needs no connection."""

    def __init__(self, machine: RemoteMachine, stack: ExitStack) -> None:
        self._machine, self._stack = machine, stack
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def call(self, method: Method, arguments: Mapping[str, Any]) -> Any:
        with self._lock:
            if self._engine is None:
                from engine.remote.short_session import open_session

                self._engine, _ = self._stack.enter_context(open_session(self._machine))
        return getattr(self._engine, method.name)(**arguments)


def named_runs(machine: str, named: Sequence[str]) -> tuple[str, list[str]]:
    """Return the machine that is meant, and the numbers of the `named` runs there.

    `machine`: that of `--on`; a run may be named such as `gpus:12`. Raises Refused.
    """
    found = [run_reference(text) for text in named]
    for text, (name, run) in zip(named, found, strict=True):
        if ":" in text and not (name and run):
            name = name or "MACHINE"
            raise Refused(
                f"{text!r} names no run: say the machine and the number, such as {name}:12. "
                f"`{call('runs', name)}` lists its runs."
            )
        if machine and name not in ("", machine):
            raise Refused(f"{text} is a run of {name}: leave out `--on {machine}`.")
    names = {machine} if machine else {name for name, _ in found} or {""}
    if len(names) > 1:
        listed = ", ".join(sorted(name or "this machine" for name in names))
        raise Refused(f"These are runs of several machines ({listed}): call it once for each.")
    return names.pop(), [run for _, run in found]
