"""What supervisors, the window and the command line call: start templates, fork workers, ask, end.

Templates exist on Linux only: elsewhere, the libraries of the system do not survive a fork.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from engine.system.ownership import make_private
from engine.system.process import ON_LINUX, start_module
from engine.system.program import call
from engine.templates import protocol
from engine.templates.forked_process import ForkedProcess
from engine.templates.kinds import KINDS, SHARED_ENVIRONMENT, TemplateKind

_log = logging.getLogger(__name__)

IMPORT_SECONDS = 120.0
"""Longest wait for a template that imports: its imports take as long as those of a worker."""

LOW_PRIORITY_SECONDS = 10.0
"""Longest wait for a template that imports at low priority: it may get no processor time."""

_CONNECT_SECONDS = 10.0
"""Longest wait for a new template to listen, which it does before it imports."""

_OWN_VARIABLES = {
    # A forked process may have one thread only; a worker gets its number of threads afterwards.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_TORCH_DEVICE": "cpu",
}


class NoTemplate(Exception):
    """No template can fork the worker; the text is a clause without a full stop: why."""


class _TemplateEnds(NoTemplate):
    """The template ends; a new one can be started."""


def is_switched_on() -> bool:
    """Whether this user wants templates."""
    return not _switch_file().exists()


def switch(*, on: bool) -> None:
    """Switch templates on or off for this user; `off` ends those that run. Raises OSError."""
    file = _switch_file()
    if on:
        file.unlink(missing_ok=True)
        return
    _make_folder(file.parent)
    file.touch(mode=0o600)
    end_all()


def states() -> list[protocol.TemplateState]:
    """Return the state of each template that listens."""
    return [state for kind in KINDS if (state := _request(kind, protocol.Ask()))]


def end_all() -> list[protocol.TemplateState]:
    """Ask all templates to end, and return their states; they wait for their workers."""
    return [state for kind in KINDS if (state := _request(kind, protocol.End()))]


def start(kind: TemplateKind, *, at_low_priority: bool = False) -> None:
    """Start the template `kind` unless it listens already; return before its imports are done.

    Raises NoTemplate.
    """
    try:
        protocol.connect(protocol.Files(kind.name)).close()
    except OSError:
        _start_process(kind, at_low_priority)


def fork_workers(
    kind: TemplateKind,
    requests: Sequence[protocol.Fork],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[ForkedProcess | NoTemplate]:
    """Fork one worker per request; yield its process, or why there is none, in their order.

    If the template does not listen, it is started. While it imports, this waits; `is_cancelled`
    ends the wait.
    """
    sent = [_send(kind, request, is_cancelled) for request in requests]
    for request, connection in zip(requests, sent, strict=True):
        answer = _answer(connection, is_cancelled)
        if isinstance(answer, _TemplateEnds):
            answer = _answer(_send(kind, request, is_cancelled), is_cancelled)
        yield answer


def _send(
    kind: TemplateKind, request: protocol.Fork, is_cancelled: Callable[[], bool]
) -> Connection | NoTemplate:
    try:
        connection = _connect_or_start(kind, is_cancelled)
    except NoTemplate as error:
        return error
    try:
        protocol.send(connection, request)
    except OSError as error:
        connection.close()
        return _TemplateEnds(f"it does not answer: {error}")
    return connection


def _answer(
    connection: Connection | NoTemplate, is_cancelled: Callable[[], bool]
) -> ForkedProcess | NoTemplate:
    """Wait for the answer to a `Fork` that was sent on `connection`, if there is one."""
    if isinstance(connection, NoTemplate):
        return connection
    deadline = time.monotonic() + IMPORT_SECONDS
    try:
        while not is_cancelled():
            if not connection.poll(0.05):
                if time.monotonic() > deadline:
                    raise NoTemplate("it did not finish its imports in time")
                continue
            match protocol.receive(connection):
                case protocol.Importing(at_low_priority):
                    if at_low_priority:
                        deadline = time.monotonic() + LOW_PRIORITY_SECONDS
                case protocol.Forked() as forked:
                    return ForkedProcess(forked, connection)
                case protocol.Refused(reason, is_ending):
                    raise _TemplateEnds(reason) if is_ending else NoTemplate(reason)
                case _:
                    raise NoTemplate("it could not fork a worker")
        raise NoTemplate("the start was cancelled")
    except (EOFError, OSError, msgspec.DecodeError) as error:
        connection.close()
        return _TemplateEnds(f"it ended: {error}".rstrip(": "))
    except NoTemplate as error:
        connection.close()
        return error


def _connect_or_start(kind: TemplateKind, is_cancelled: Callable[[], bool]) -> Connection:
    """Return a connection to the template, which is started if it does not listen.

    Raises NoTemplate.
    """
    files = protocol.Files(kind.name)
    with contextlib.suppress(OSError):
        return protocol.connect(files)
    has_ended = _start_process(kind, at_low_priority=False)
    deadline = time.monotonic() + _CONNECT_SECONDS
    while not is_cancelled():
        code = has_ended()  # asked before the last attempt to connect
        with contextlib.suppress(OSError):
            return protocol.connect(files)
        if code or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    raise NoTemplate(f"it could not be started: see {files.log}")


def _start_process(kind: TemplateKind, at_low_priority: bool) -> Callable[[], int | None]:
    """Start the process of a template; return a function that returns its exit code, if it ended.

    If another process starts the same template meanwhile, one of them ends with the code 0. Raises
    NoTemplate.
    """
    if not ON_LINUX or not hasattr(os, "pidfd_open"):
        raise NoTemplate("this system does not support it")
    if not is_switched_on():
        raise NoTemplate(f"they are switched off; `{call('warm --on')}` switches them on")
    files = protocol.Files(kind.name)
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    try:
        _make_folder(files.folder)
        process = start_module(
            "engine.templates",
            kind.name,
            *(["--low-priority"] if at_low_priority else []),
            log=files.log,
            environment=inherited | SHARED_ENVIRONMENT | kind.environment | _OWN_VARIABLES,
            cwd=files.folder,
            own_session=True,
        )
    except OSError as error:
        raise NoTemplate(f"it could not be started: {error}") from error
    _log.info("started the template %s, pid %d", kind.name, process.pid)
    # This thread reaps a template that ends before this process.
    threading.Thread(target=process.wait, daemon=True, name="reap").start()
    return process.poll


def _request(kind: str, message: protocol.Message) -> protocol.TemplateState | None:
    """Send `message` to the template `kind`, and return its state; None if it does not answer."""
    try:
        with protocol.connect(protocol.Files(kind)) as connection:
            protocol.send(connection, message)
            answer = protocol.receive(connection)
    except (EOFError, OSError, msgspec.DecodeError):
        return None
    return answer if isinstance(answer, protocol.TemplateState) else None


def _switch_file() -> Path:
    return protocol.folder() / "off"


def _make_folder(folder: Path) -> None:
    """Create `folder` for its owner only. Raises OSError, also if it is another user's."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    make_private(folder)
