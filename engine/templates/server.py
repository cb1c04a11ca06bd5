"""A template process: it imports its modules, then forks a worker for each request.

It listens before it imports, and answers afterwards. It has one thread when it forks: a fork copies
one thread, and locks that other threads hold would stay locked in the worker for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import logging
import os
import selectors
import signal
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from engine.files.atomic_file import open_to_append
from engine.processes import children, process_tree
from engine.processes.process import END_SIGNALS, trim_heap
from engine.processes.process_tree import Identity
from engine.templates import protocol
from engine.templates.differences import difference
from engine.templates.fingerprint import Fingerprint
from engine.templates.kinds import TemplateKind
from engine.templates.protocol import Fork, Refused

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_log = logging.getLogger(__name__)

IDLE_SECONDS = 900.0
"""A template that has no worker and forks none for this time ends."""

THREAD_END_SECONDS = 2.0
"""Time in which threads that only the imports needed have to end."""

START_SECONDS = 0.5
"""Time within which the files count as unchanged: all ranks of a run are checked once."""

LEFTOVER_CHECK_SECONDS = 0.2
"""Time between two looks at the processes that ended workers have left."""

LARGEST_LOG = 2**20
"""Bytes; a template that finds a larger log file empties it."""


class Job(NamedTuple):
    """What a new worker has to do; only the forked child gets it."""

    request: Fork
    connection: Connection
    """To the supervisor; the template holds it too."""

    printed: str
    """What the imports have printed."""

    set_by_imports: dict[str, str]
    """Environment variables that the imports have set."""

    thread_pools: ThreadpoolController
    """Those of the libraries that were loaded by the imports."""


class Server:
    """One template process."""

    def __init__(self, kind: TemplateKind, *, idle_seconds: float = IDLE_SECONDS) -> None:
        """Listen for requests. Raises BlockingIOError if another template does, and OSError."""
        self._kind = kind
        self._idle_seconds = idle_seconds
        self._files = protocol.Files(kind.name)
        # Not a FileLock: a worker must close its copy, or it would hold a dead template's lock.
        self._lock = os.open(self._files.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.pwrite(self._lock, f"{os.getpid():<20}".encode(), 0)
        self._printed_from = self._open_log()
        self._fingerprint = Fingerprint()
        self._listener = protocol.listen(self._files.socket)
        self._own_socket = _identity(self._files.socket)
        self._environment = dict(os.environ)
        self._printed = ""
        self._problem = ""
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, Connection] = {}
        self._leftovers: dict[Identity, float] = {}
        """What ended workers have left, and when it is killed."""

        self._is_asked_to_end = self._is_ending = False
        self._last_use = time.monotonic()
        self._last_check = 0.0

    def serve(self) -> Job | None:
        """Serve requests until the template ends, and return None; return the job in a worker."""
        self._import()
        for number in END_SIGNALS:
            signal.signal(number, self._note_signal)
        self._selector.register(self._listener, selectors.EVENT_READ)
        children.adopt_orphans()
        while not (self._is_ending and not self._workers and not self._leftovers):
            pause = LEFTOVER_CHECK_SECONDS if self._leftovers else 1.0
            for key, _ in self._selector.select(pause):
                if key.fileobj is not self._listener:
                    self._reap(key.data, key.fd)
                elif job := self._serve_caller():
                    return job
            if self._leftovers:
                self._end_leftovers()
            self._check()
        return None

    def _open_log(self) -> int:
        """Let all output of this process go to its log; return the bytes that are in it already."""
        with open_to_append(self._files.log) as log:
            os.fchmod(log.fileno(), 0o600)
            if os.fstat(log.fileno()).st_size > LARGEST_LOG:
                log.truncate(0)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        return os.fstat(2).st_size

    def _note_signal(self, *_: object) -> None:
        self._is_asked_to_end = True

    def _import(self) -> None:
        """Import the modules, and make their state permanent."""
        try:
            for module in self._kind.modules:
                importlib.import_module(module)
        except BaseException as error:  # a module may even raise SystemExit
            traceback.print_exc()
            text = str(error) or type(error).__name__
            self._problem = f"its imports failed: {text}; see {self._files.log}"
        deadline = time.monotonic() + THREAD_END_SECONDS
        while not self._problem and (problem := _threads_problem()):
            if time.monotonic() > deadline:
                self._problem = problem
            time.sleep(0.001)
        if self._problem:
            print(f"The template cannot fork: {self._problem}.", file=sys.stderr)
        self._fingerprint.add_imported()
        threadpoolctl = importlib.import_module("threadpoolctl")  # it sets environment variables
        self._thread_pools = threadpoolctl.ThreadpoolController()  # to find them takes 10 ms
        gc.collect()
        trim_heap()
        gc.freeze()  # a collection in a worker must not copy the pages of these objects
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)  # each worker would write it again
        with self._files.log.open(errors="replace") as log:
            log.seek(self._printed_from)
            self._printed = log.read()
        self._last_use = time.monotonic()

    def _serve_caller(self) -> Job | None:
        """Answer the message of a new caller; return its job in a worker only."""
        try:
            connection = protocol.accept(self._listener)
        except OSError as error:
            _log.info("a caller could not be accepted: %s", error)
            time.sleep(0.01)  # with too many open files, the caller stays in the queue
            return None
        try:
            match protocol.receive(connection):
                case Fork() as request:
                    return self._fork(request, connection)
                case protocol.End():
                    self._end("it was asked to end")
                case protocol.Ask():
                    state = protocol.TemplateState(
                        self._kind.name, os.getpid(), len(self._workers), self._problem
                    )
                    protocol.send(connection, state)
        except (EOFError, OSError, msgspec.DecodeError) as error:
            _log.debug("a connection ended: %r", error)
        connection.close()
        return None

    def _fork(self, request: Fork, connection: Connection) -> Job | None:
        """Fork a worker, or refuse that; return its job in the worker only. Raises OSError."""
        refusal = self._refusal(request)
        if refusal is None:
            # A signal that arrives in the worker too early would be taken for the template's.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
            try:
                pid = os.fork()
                if not pid:
                    self._leave_to_worker()
                    before = self._environment
                    added = {name: os.environ[name] for name in os.environ.keys() - before.keys()}
                    return Job(request, connection, self._printed, added, self._thread_pools)
                self._follow(pid, connection)
                self._last_use = time.monotonic()
                return None
            except OSError as error:
                refusal = Refused(f"the system refused the fork: {error}")
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        with connection:
            protocol.send(connection, refusal)
        return None

    def _follow(self, pid: int, connection: Connection) -> None:
        """Notice the end of the worker `pid`; if that is impossible, end it. Raises OSError."""
        try:
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._workers[pid] = connection

    def _refusal(self, request: Fork) -> Refused | None:
        """Return why `request` cannot be served. The template ends if a new one can serve it."""
        try:
            if path := self._changed_file():
                self._end(f"{path} has changed")
                return Refused("the template is about to end", is_ending=True)
            if found := difference(request, self._environment):
                return Refused(f"the template was started otherwise, and this run has {found}")
            problem = self._problem or _threads_problem()
        except OSError as error:  # such as too many open files
            problem = str(error)
        return Refused(problem) if problem else None

    def _changed_file(self) -> str:
        """Return a file on disk that has changed since its import; empty if none has."""
        now = time.monotonic()
        if now - self._last_check < START_SECONDS:
            return ""
        self._last_check = now
        return self._fingerprint.changed()

    def _leave_to_worker(self) -> None:
        """Close, in a new worker, what belongs to the template."""
        for number in END_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for key in list(self._selector.get_map().values()):
            if key.fileobj is not self._listener:
                os.close(key.fd)
        self._selector.close()
        self._listener.close()
        for connection in self._workers.values():
            connection.close()
        os.close(self._lock)

    def _reap(self, pid: int, descriptor: int) -> None:
        """Report the worker `pid`, which has ended."""
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        self._last_use = time.monotonic()
        code = os.waitstatus_to_exitcode(status)
        _log.info("worker %d ended with code %d", pid, code)
        with self._workers.pop(pid) as connection, contextlib.suppress(OSError):
            protocol.send(connection, protocol.Exited(code, by_template=True))
        self._end_leftovers()

    def _end_leftovers(self) -> None:
        """End what ended workers have left: it has become children of this process.

        A living worker keeps what it has started below itself. What imports start stays in the
        group of this process.
        """
        now, before = time.monotonic(), self._leftovers
        self._leftovers = {}
        for pid, child in process_tree.children(os.getpid()):
            if pid in self._workers or child.group == os.getpgrp():
                continue
            each = pid, child.created
            self._leftovers[each] = before.get(each, now + children.END_SECONDS)
            if child.state == "Z":
                os.waitpid(pid, os.WNOHANG)
            elif each not in before:
                process_tree.ask_to_end(each)
            elif now >= before[each]:
                process_tree.kill([each])

    def _check(self) -> None:
        """End if the template is idle, was asked to end, or can no longer be reached."""
        if self._is_asked_to_end:
            self._end("a signal asked it to end")
        elif not self._workers and time.monotonic() - self._last_use > self._idle_seconds:
            self._end("it was idle")
        elif _identity(self._files.socket) != self._own_socket:
            self._end("its files were deleted")

    def _end(self, reason: str) -> None:
        """Stop listening; another template may be started from now on."""
        if self._is_ending:
            return
        _log.info("ends: %s", reason)
        self._is_ending = True
        self._selector.unregister(self._listener)
        self._listener.close()
        if _identity(self._files.socket) == self._own_socket:  # not of a template started since
            with contextlib.suppress(OSError):
                self._files.socket.unlink()
        fcntl.flock(self._lock, fcntl.LOCK_UN)


def _identity(file: Path) -> tuple[int, int] | None:
    """Return what tells `file` from another one of its name; None if there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _threads_problem() -> str:
    """Return why the threads of this process forbid a fork; empty if there is only one."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    threads = []
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended
                name = (task / "comm").read_text().strip()
                threads.append(names.get(int(task.name), name))
    if not threads:
        return ""
    return f"a fork would lose threads that imports have started: {', '.join(threads)}"
