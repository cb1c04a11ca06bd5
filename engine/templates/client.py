"""What supervisors, the window and the command line call: start templates, fork workers, ask, end.

Templates exist on Linux only: elsewhere, the libraries of the system do not survive a fork.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from engine.files.atomic_file import open_to_append
from engine.files.ownership import make_private_folder
from engine.processes.process import ON_LINUX, start_module
from engine.system.program import call
from engine.templates import protocol
from engine.templates.forked_process import ForkedProcess
from engine.templates.kinds import KINDS, SHARED_ENVIRONMENT, TemplateKind

_log = logging.getLogger(__name__)

ANSWER_SECONDS = 120.0
"""Longest wait for a template, which answers when it has imported its modules."""

ASK_SECONDS = 5.0
"""Longest wait for the state of a template; one that imports does not tell it."""

_CONNECT_SECONDS = 20.0
"""Longest wait for a new template to listen, which it does before it imports."""

_SYSTEM_ERRORS = errno.errorcode.keys() - {1, 2}
"""Exit codes that say why a template could not listen; Python itself ends with 1 and 2."""

_OWN_VARIABLES = {
    # A forked process may have one thread only; a worker gets its number of threads afterwards.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # The allocator of pyarrow, which scikit-learn imports, starts a thread when it is loaded.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
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
    """Switch templates on or off for this user; `off` ends those that run.

    Raises OSError if that cannot be stored; `off` has ended those that run all the same.
    """
    file = _switch_file()
    if on:
        file.unlink(missing_ok=True)
        return
    try:
        make_private_folder(file.parent)
        open_to_append(file).close()  # first: a window would start what was just ended
    finally:
        end_all()


def states() -> list[protocol.TemplateState]:
    """Return the state of each template that answers."""
    return [state for kind in KINDS if (state := _request(kind, protocol.Ask()))]


def end_all() -> None:
    """Ask all templates to end; they wait for their imports and their workers."""
    for kind in KINDS:
        with contextlib.suppress(OSError), protocol.connect(protocol.Files(kind)) as connection:
            protocol.send(connection, protocol.End())


def start(kind: TemplateKind) -> None:
    """Start the template `kind` unless it listens already; return before its imports are done.

    Raises NoTemplate.
    """
    try:
        protocol.connect(protocol.Files(kind.name)).close()
    except OSError:
        _start_process(kind)


def fork_workers(
    kind: TemplateKind,
    requests: Sequence[protocol.Fork],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[ForkedProcess | NoTemplate]:
    """Fork one worker per request; yield its process, or why there is none, in their order.

    If the template does not listen, it is started. While it imports, this waits; `is_cancelled`
    ends the wait.
    """
    left = list(requests)
    problem = NoTemplate("")
    for _ in range(2):  # the second time with a new template
        sent: list[Connection] = []
        try:
            sent.extend(_send(kind, request, is_cancelled) for request in left)
            deadline = time.monotonic() + ANSWER_SECONDS
            while left:
                process = _answer(sent[0], deadline, is_cancelled)
                del sent[0], left[0]
                yield process
            return
        except _TemplateEnds as error:
            problem = error
        except NoTemplate as error:
            problem = error
            break
        finally:
            for connection in sent:
                connection.close()  # a worker that was forked for it ends
    for _ in left:
        yield problem


def _send(
    kind: TemplateKind, request: protocol.Fork, is_cancelled: Callable[[], bool]
) -> Connection:
    """Send a request to the template, which is started if needed. Raises NoTemplate."""
    connection = _connect_or_start(kind, is_cancelled)
    try:
        protocol.send(connection, request)
    except UnicodeEncodeError as error:
        connection.close()
        raise NoTemplate("its environment, or a folder, has a text that is not UTF-8") from error
    except OSError as error:
        connection.close()
        raise _TemplateEnds(f"the template does not answer: {error}") from error
    return connection


def _answer(
    connection: Connection, deadline: float, is_cancelled: Callable[[], bool]
) -> ForkedProcess:
    """Wait for the answer to a `Fork` that was sent on `connection`. Raises NoTemplate."""
    try:
        while not connection.poll(0.05):
            if is_cancelled():
                raise NoTemplate("the start was cancelled")
            if time.monotonic() > deadline:
                raise NoTemplate("the template does not answer")
        match protocol.receive(connection):
            case protocol.Forked() as forked:
                return _followed(forked, connection)
            case protocol.Refused(reason, is_ending):
                raise _TemplateEnds(reason) if is_ending else NoTemplate(reason)
            case _:
                raise NoTemplate("the template could not fork a worker")
    except (EOFError, OSError, msgspec.DecodeError) as error:
        raise _TemplateEnds(f"the template ended: {error}".rstrip(": ")) from error


def _followed(forked: protocol.Forked, connection: Connection) -> ForkedProcess:
    try:
        return ForkedProcess(forked, connection)
    except OSError as error:
        raise NoTemplate(f"the forked worker cannot be followed: {error}") from error


def _connect_or_start(kind: TemplateKind, is_cancelled: Callable[[], bool]) -> Connection:
    """Return a connection to the template, which is started if it does not listen.

    Of several callers, also in other processes, one starts it. Raises NoTemplate.
    """
    _check_allowed()
    files = protocol.Files(kind.name)
    has_ended: Callable[[], int | None] | None = None
    deadline = time.monotonic() + _CONNECT_SECONDS
    with _start_lock(files) as lock:
        while not is_cancelled():
            code = has_ended() if has_ended else None  # asked before the attempt to connect
            try:
                return protocol.connect(files)
            except (FileNotFoundError, ConnectionError):
                pass  # none listens yet
            except OSError as error:
                raise NoTemplate(f"the template does not answer: {error}".rstrip(": ")) from error
            if code and code < 0:
                raise _TemplateEnds(f"the template was ended by signal {-code}")
            if code:
                why = os.strerror(code) if code in _SYSTEM_ERRORS else f"see {files.log}"
                raise NoTemplate(f"the template could not be started: {why}")
            if time.monotonic() > deadline:
                raise NoTemplate(f"the template could not be started in time: see {files.log}")
            if has_ended is None and lock():
                has_ended = _start_process(kind)
            time.sleep(0.01)
    raise NoTemplate("the start was cancelled")


@contextlib.contextmanager
def _start_lock(files: protocol.Files) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether this caller may start the template of `files`.

    It may until the end of the `with` block. Raises NoTemplate.
    """
    import fcntl  # not on Windows

    try:
        make_private_folder(files.folder)
        descriptor = os.open(files.start_lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise NoTemplate(f"the template could not be started: {error}") from error

    def is_ours() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield is_ours
    finally:
        os.close(descriptor)


def _check_allowed() -> None:
    """Raises NoTemplate where there are no templates."""
    if not ON_LINUX or not hasattr(os, "pidfd_open"):
        raise NoTemplate("this system has no templates")
    if not is_switched_on():
        raise NoTemplate(f"templates are switched off; `{call('warm on')}` switches them on")


def _start_process(kind: TemplateKind) -> Callable[[], int | None]:
    """Start the process of a template; return a function that returns its exit code, if it ended.

    If another process starts the same template meanwhile, one of them ends with the code 0. Raises
    NoTemplate.
    """
    _check_allowed()
    files = protocol.Files(kind.name)
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    try:
        make_private_folder(files.folder)
        open_to_append(files.log).close()
        process = start_module(
            kind.program,
            kind.name,
            log=files.log,
            environment=inherited | SHARED_ENVIRONMENT | kind.environment | _OWN_VARIABLES,
            cwd=files.folder,
            own_session=True,
        )
    except OSError as error:
        raise NoTemplate(f"the template could not be started: {error}") from error
    _log.info("started the template %s, pid %d", kind.name, process.pid)
    # This thread reaps a template that ends before this process.
    threading.Thread(target=process.wait, daemon=True, name="reap").start()
    return process.poll


def _request(kind: str, message: protocol.Message) -> protocol.TemplateState | None:
    """Send `message` to the template `kind`, and return its state; None if it does not answer."""
    try:
        with protocol.connect(protocol.Files(kind)) as connection:
            protocol.send(connection, message)
            answer = protocol.receive(connection) if connection.poll(ASK_SECONDS) else None
    except (EOFError, OSError, msgspec.DecodeError):
        return None
    return answer if isinstance(answer, protocol.TemplateState) else None


def _switch_file() -> Path:
    return protocol.folder() / "off"
