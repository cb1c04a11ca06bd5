"""A template process: it imports its modules, then forks a worker for each request.

Only the main thread uses the state, and no other thread runs when it forks: a fork copies one
thread, and locks that other threads hold would stay locked in the worker for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import logging
import math
import os
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from engine.files.atomic_file import open_to_append, write_atomically
from engine.processes import children, process_tree
from engine.processes.confinement import rights_difference
from engine.processes.process import END_SIGNALS
from engine.processes.process_tree import Identity
from engine.templates import protocol
from engine.templates.fingerprint import Fingerprint
from engine.templates.import_environment import difference
from engine.templates.kinds import TemplateKind
from engine.templates.protocol import Fork, Refused
from engine.templates.resident_memory import own_memory, release_memory

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_log = logging.getLogger(__name__)

IDLE_SECONDS = 900.0
"""A template that has no worker and forks none for this time ends."""

KEPT_SECONDS = 60.0
"""A template that has forked a worker in this time does not make room for another one."""

LOW_PRIORITY = 19
"""The niceness of imports for which no worker waits."""

THREAD_END_SECONDS = 2.0
"""Time in which threads that only the imports needed have to end."""

CHECK_SECONDS = 5.0
"""Time between two checks whether the files on disk have changed."""

START_SECONDS = 0.5
"""Time within which the files count as unchanged: all ranks of a run are checked once."""

LEFTOVER_CHECK_SECONDS = 0.2
"""Time between two looks at the processes that ended workers have left."""

LARGEST_LOG = 2**20
"""Bytes; a template that finds a larger log file empties it."""

MOST_STRANGERS = 64
"""Callers that have not yet proved that they know the key; if there are more, the oldest goes."""

UNFIT = 79
"""Exit code of a forked process that could not become the worker, while a new template's could."""


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


class _Worker(NamedTuple):
    connection: Connection
    fork_before: float
    """When the worker before it was forked."""


class Server:
    """One template process."""

    def __init__(
        self, kind: TemplateKind, *, at_low_priority: bool, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        """Listen for requests. Raises BlockingIOError if another template does, and OSError."""
        self._kind = kind
        self._at_low_priority = at_low_priority
        self._idle_seconds = idle_seconds
        self._files = protocol.Files(kind.name)
        # Not a FileLock: a worker must close its copy, or it would hold a dead template's lock.
        self._lock = os.open(self._files.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._printed_from = self._open_log()
        self._fingerprint = Fingerprint()
        self._selector = selectors.DefaultSelector()
        self._wakeups = self._wake_up_on_signals()
        self._listener = protocol.listen(self._files.socket)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._key = secrets.token_bytes(32)
        control = {"key": self._key.hex(), "pid": os.getpid()}
        write_atomically(self._files.control, json.dumps(control), mode=0o600)
        self._own_files = {
            file: _identity(file) for file in (self._files.control, self._files.socket)
        }
        self._printed = ""
        self._environment = dict(os.environ)
        self._left = deque([*kind.modules, *kind.later_modules])
        self._importer: threading.Thread | None = None
        self._has_imported = threading.Event()
        """Set by the importer before it wakes the main thread, and is still alive."""

        self._problem = ""
        self._thread_starters: dict[int, str] = {}
        self._strangers: dict[Connection, bytes] = {}
        self._waiting: list[tuple[Fork, Connection]] = []
        self._workers: dict[int, _Worker] = {}
        self._leftovers: dict[Identity, float] = {}
        """What ended workers have left, and when it is killed."""

        self._is_ending = False
        self._last_use = self._last_check = time.monotonic()
        self._last_fork = -math.inf

    def serve(self) -> Job | None:
        """Serve requests until the template ends, and return None; return the job in a worker."""
        self._start_importer()
        children.adopt_orphans()
        while not (self._is_ending and not self._workers and not self._leftovers):
            can_fork = self._waiting and not self._importer
            longest = LEFTOVER_CHECK_SECONDS if self._leftovers else 1.0
            for key, _ in self._selector.select(0.0 if can_fork else longest):
                self._handle(key.fileobj)
            if self._reap() or self._leftovers:
                self._end_leftovers()
            if self._importer and not self._has_imported.is_set():
                for _, connection in self._waiting:
                    self._tell(connection, protocol.Importing(self._at_low_priority))
                self._check()
                continue
            self._finish_imports()
            if self._waiting:
                if job := self._fork(*self._waiting.pop(0)):
                    return job
            elif self._left and not self._problem and not self._is_ending:
                self._start_importer()
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

    def _wake_up_on_signals(self) -> socket.socket:
        """Make signals end `select`: one that a worker has ended, or one that asks to end."""
        receiving, sending = socket.socketpair()
        receiving.setblocking(False)
        sending.setblocking(False)
        self._sending = sending
        signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *END_SIGNALS):
            signal.signal(number, lambda *_: None)
        self._selector.register(receiving, selectors.EVENT_READ)
        return receiving

    def _start_importer(self) -> None:
        self._has_imported.clear()
        self._importer = threading.Thread(target=self._import, daemon=True)
        self._importer.start()

    def _import(self) -> None:
        """Import the modules that are left, until a worker is waited for and can be forked.

        A thread of its own does it: only that thread gets a low priority, which an ordinary user
        cannot raise again.
        """
        try:
            self._note_threads("the start of Python")
            while self._left:
                can_fork = len(self._left) <= len(self._kind.later_modules)
                if can_fork and self._waiting:
                    break
                if can_fork or self._at_low_priority:
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
                module = self._left.popleft()
                importlib.import_module(module)
                self._note_threads(module)
        except BaseException as error:  # a module may even raise SystemExit
            traceback.print_exc()
            text = str(error) or type(error).__name__
            self._problem = f"its imports failed: {text}; see {self._files.log}"
        self._has_imported.set()
        self._sending.send(b"\0")

    def _note_threads(self, starter: str) -> None:
        for thread in _other_threads():
            self._thread_starters.setdefault(thread, starter)

    def _threads_problem(self) -> str:
        """Return why the threads of this process forbid a fork; empty if there is only one."""
        threads = [
            f"{name} ({self._thread_starters.get(number, 'an import')})"
            for number, name in _other_threads().items()
        ]
        return (
            f"a fork would lose threads that imports have started: {', '.join(threads)}"
            if threads
            else ""
        )

    def _finish_imports(self) -> None:
        """Make the state of the imports permanent, once they are done."""
        if self._importer is None:
            return
        self._importer.join()
        self._importer = None
        deadline = time.monotonic() + THREAD_END_SECONDS
        while not self._problem and (problem := self._threads_problem()):
            if time.monotonic() > deadline:
                self._problem = problem
            time.sleep(0.001)
        if self._problem:
            _log.info("cannot fork: %s", self._problem)
            print(f"The template cannot fork: {self._problem}.", file=sys.stderr)
        self._fingerprint.add_imported()
        threadpoolctl = importlib.import_module("threadpoolctl")  # it sets environment variables
        self._thread_pools = threadpoolctl.ThreadpoolController()  # to find them takes 10 ms
        if not self._left:
            gc.collect()
            release_memory()
        gc.freeze()  # a collection in a worker must not copy the pages of these objects
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)  # each worker would write it again
        with self._files.log.open(errors="replace") as log:
            log.seek(self._printed_from)
            self._printed = log.read()
        self._last_use = time.monotonic()
        _log.info("can fork: %s", self._state())

    def _handle(self, source: object) -> None:
        """Handle what `source` of the selector has received."""
        if source is self._wakeups:
            with contextlib.suppress(BlockingIOError):
                if set(self._wakeups.recv(4096)) & set(END_SIGNALS):
                    self._end("a signal asked it to end")
        elif source is self._listener:
            self._accept()
        elif isinstance(source, Connection) and not source.closed:
            self._receive(source)

    def _accept(self) -> None:
        """Greet a new caller; its requests are read once it has proved that it knows the key."""
        try:
            connection, nonce = protocol.accept(self._listener)
        except OSError as error:
            _log.info("a caller could not be accepted: %s", error)
            time.sleep(0.01)  # with too many open files, the caller stays in the queue
            return
        self._selector.register(connection, selectors.EVENT_READ)
        self._strangers[connection] = nonce
        if len(self._strangers) > MOST_STRANGERS:
            self._close(next(iter(self._strangers)))

    def _receive(self, connection: Connection) -> None:
        """Handle a message of a caller, or the end of its connection."""
        try:
            message = protocol.receive(connection)
            if connection in self._strangers:
                protocol.welcome(connection, message, self._strangers.pop(connection), self._key)
                return
            match message:
                case Fork() if not any(each is connection for _, each in self._waiting):
                    if self._is_ending:
                        self._tell(connection, _ENDING)
                    else:
                        self._waiting.append((message, connection))
                        if self._importer:
                            self._tell(connection, protocol.Importing(self._at_low_priority))
                        return  # the connection stays open
                case protocol.End():
                    state = self._state()
                    self._end("it was asked to end")
                    protocol.send(connection, state)
                case protocol.Ask():
                    protocol.send(connection, self._state())
        except (EOFError, OSError, msgspec.DecodeError) as error:
            _log.debug("a connection ended: %r", error)
        self._close(connection)

    def _tell(self, connection: Connection, message: protocol.Message) -> None:
        """Send `message`; a caller that is gone is noticed when its connection is read."""
        with contextlib.suppress(OSError):
            protocol.send(connection, message)

    def _close(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._waiting = [each for each in self._waiting if each[1] is not connection]
        with contextlib.suppress(KeyError, ValueError, OSError):
            self._selector.unregister(connection)
        connection.close()

    def _fork(self, request: Fork, connection: Connection) -> Job | None:
        """Fork a worker; return its job in the worker only."""
        refusal = self._refusal(request)
        if refusal is None:
            self._selector.unregister(connection)
            # A signal that arrives in the worker too early would be taken for the template's.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
            try:
                pid = os.fork()
            except OSError as error:
                refusal = Refused(f"the system refused the fork: {error}")
            else:
                if not pid:
                    self._leave_to_worker()
                    set_by_imports = self._set_by_imports()
                    return Job(
                        request, connection, self._printed, set_by_imports, self._thread_pools
                    )
                self._workers[pid] = _Worker(connection, self._last_fork)
                self._last_use = self._last_fork = time.monotonic()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if refusal:
            self._tell(connection, refusal)
            self._close(connection)
        return None

    def _set_by_imports(self) -> dict[str, str]:
        before = self._environment
        return {name: value for name, value in os.environ.items() if name not in before}

    def _refusal(self, request: Fork) -> Refused | None:
        """Return why `request` cannot be served. The template ends if a new one can serve it."""
        try:
            if path := self._changed_file(START_SECONDS):
                self._end(f"{path} has changed")
            if self._is_ending:
                return _ENDING
            if difference := self._difference(request):
                return self._refuse_stranger(difference)
            problem = self._problem or self._threads_problem()
        except OSError as error:  # such as too many open files
            problem = str(error)
        return Refused(problem) if problem else None

    def _difference(self, request: Fork) -> str:
        """Return in what the run differs from this template, which cannot change it."""
        if request.interpreter != protocol.Interpreter():
            return f"another installation, {request.interpreter.prefix}"
        if name := difference(self._environment, request.environment):
            return f"another value of {name}, which is read only once"
        if name := rights_difference(request.confinement):
            return f"another {name}"
        return ""

    def _refuse_stranger(self, difference: str) -> Refused:
        """Refuse a run that only another template could serve.

        A template that forked a worker lately stays: two kinds of runs in turn would otherwise wait
        for a new template each time, which takes longer than a cold start.
        """
        if time.monotonic() - self._last_fork < KEPT_SECONDS:
            return Refused(f"the template is in use, and this run has {difference}")
        self._end(f"a run has {difference}")
        return _ENDING

    def _leave_to_worker(self) -> None:
        """Close, in a new worker, what belongs to the template."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, *END_SIGNALS):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for key in list(self._selector.get_map().values()):
            if hasattr(key.fileobj, "close"):
                key.fileobj.close()
        for _, connection in self._waiting:
            connection.close()
        for worker in self._workers.values():
            worker.connection.close()
        self._selector.close()
        self._sending.close()
        os.close(self._lock)

    def _reap(self) -> bool:
        """Report the workers that have ended; return whether there are any."""
        has_ended = False
        for pid, (connection, fork_before) in list(self._workers.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            has_ended = True
            self._last_use = time.monotonic()
            del self._workers[pid]
            code = os.waitstatus_to_exitcode(status)
            _log.info("worker %d ended with code %d", pid, code)
            if code == UNFIT:
                self._last_fork = fork_before
                self._tell(connection, self._refuse_stranger("limits that cannot be adopted"))
            self._tell(connection, protocol.Exited(code, by_template=True))
            connection.close()
        return has_ended

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
        """End if the template is idle, or if the files on disk have changed."""
        if self._is_ending:
            return
        is_used = self._workers or self._importer
        if not is_used and time.monotonic() - self._last_use > self._idle_seconds:
            self._end("it was idle")
        elif time.monotonic() - self._last_check > CHECK_SECONDS:
            if path := self._changed_file(START_SECONDS):
                self._end(f"{path} has changed")
            elif any(_identity(file) != own for file, own in self._own_files.items()):
                self._end("its files were deleted")

    def _changed_file(self, pause: float = 0.0) -> str:
        """Return a file on disk that has changed; empty if none has, `pause` seconds ago."""
        now = time.monotonic()
        if now - self._last_check < pause:
            return ""
        self._last_check = now
        return self._fingerprint.changed()

    def _end(self, reason: str) -> None:
        """Stop listening; another template may be started from now on."""
        if self._is_ending:
            return
        _log.info("ends: %s", reason)
        self._is_ending = True
        self._selector.unregister(self._listener)
        self._listener.close()
        for file, own in self._own_files.items():
            if _identity(file) == own:  # not of a template that was started since
                with contextlib.suppress(OSError):
                    file.unlink()
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        for _, connection in list(self._waiting):
            self._tell(connection, _ENDING)
            self._close(connection)

    def _state(self) -> protocol.TemplateState:
        return protocol.TemplateState(
            self._kind.name,
            os.getpid(),
            self._importer is None and not self._left,
            len(self._workers),
            own_memory(),
            0.0 if self._workers else time.monotonic() - self._last_use,
            self._problem,
        )


_ENDING = Refused("the template is about to end", is_ending=True)


def _identity(file: Path) -> tuple[int, int] | None:
    """Return what tells `file` from another one of its name; None if there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _other_threads() -> dict[int, str]:
    """Return the names of this process's threads, except for the first one and this one."""
    python_names = {thread.native_id: thread.name for thread in threading.enumerate()}
    names = {}
    for task in Path("/proc/self/task").iterdir():
        number = int(task.name)
        if number not in (os.getpid(), threading.get_native_id()):
            with contextlib.suppress(OSError):  # it has ended
                name = (task / "comm").read_text().strip()
                names[number] = python_names.get(number, name)
    return names
