"""The first steps of a forked worker: it becomes what a started process would be."""

from __future__ import annotations

import contextlib
import gc
import locale
import multiprocessing
import os
import pkgutil
import runpy
import sys
import tempfile
import threading
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec
from setproctitle import setproctitle, setthreadtitle

from engine.files.atomic_file import open_to_append
from engine.processes import process
from engine.system.streams import flush_output, write_error
from engine.templates import protocol
from engine.templates.kinds import TemplateKind
from engine.templates.server import Job

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def run(kind: TemplateKind, job: Job) -> NoReturn:
    """Become the worker of `job`, and never return."""
    request, connection = job.request, job.connection
    try:
        os.setpgid(0, 0)
        _redirect_output(Path(request.log))
        os.chdir(request.folder)
        _set_environment(job.set_by_imports | request.environment)
        _renew_identity(request)  # before threads are started, which take over the name
        _set_threads(job.thread_pools, request.environment)
        pkgutil.resolve_name(kind.after_fork)(request.environment)
        printed = pkgutil.resolve_name(kind.shown)(job.printed, request.environment)
        pid = os.getpid()
        protocol.send(connection, protocol.Forked(pid, process.start_time(pid)))
        connection.poll(None)  # the supervisor may sleep, or be stopped
        if not isinstance(protocol.receive(connection), protocol.Run):
            os._exit(1)
    except (EOFError, msgspec.DecodeError, ConnectionError):  # the supervisor is gone
        os._exit(1)
    except Exception as error:
        with contextlib.suppress(OSError):
            protocol.send(connection, protocol.Refused(f"it could not become a worker: {error}"))
        os._exit(1)
    _report_exit(connection)
    write_error(printed)
    gc.enable()
    process.leave(_run_module(request))


def _run_module(request: protocol.Fork) -> int:
    """Run the module of `request` as `python -m` does, and return the exit code."""
    sys.argv[:] = ["-m", *request.arguments]
    try:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if isinstance(error.code, str):
            write_error(f"{error.code}\n")
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        write_error(traceback.format_exc())
        return 1
    finally:
        flush_output()
    return 0


def _redirect_output(log: Path) -> None:
    """Make `log` the standard output and error, and let the standard input be empty."""
    null = os.open(os.devnull, os.O_RDWR)
    with open_to_append(log) as output:
        for descriptor, target in ((null, 0), (output.fileno(), 1), (output.fileno(), 2)):
            os.dup2(descriptor, target)
    os.close(null)


def _set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    encoding = locale.nl_langinfo(locale.CODESET)
    locale.setlocale(locale.LC_CTYPE, "")
    if locale.nl_langinfo(locale.CODESET) != encoding:  # Python chooses its own at its start
        raise ValueError(f"the encoding of its locale is not {encoding}")
    tempfile.tempdir = None  # it was computed from the environment


def _set_threads(pools: ThreadpoolController, environment: dict[str, str]) -> None:
    """Set the numbers of threads that libraries read from the environment when they are loaded."""
    processors = process.usable_processors()
    for interface, names in {
        "openmp": ("OMP_NUM_THREADS",),
        "blas": ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
    }.items():
        texts = (environment.get(name, "") for name in names)
        threads = next((int(text) for text in texts if text.isdecimal() and int(text)), processors)
        if interface == "blas":
            threads = min(threads, processors)
        pools.limit(limits=threads, user_api=interface)


def _renew_identity(request: protocol.Fork) -> None:
    """Draw anew what a process draws when it starts; Python itself reseeds `random`."""
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
    multiprocessing.current_process().authkey = os.urandom(32)
    sys.orig_argv[:] = [sys.executable, "-P", "-m", request.module, *request.arguments]
    setproctitle(" ".join(sys.orig_argv))
    setthreadtitle(Path(sys.executable).name)


def _report_exit(connection: Connection) -> None:
    """Report the exit code also if the template is gone by then; forked children do not."""

    def report(code: int) -> None:
        with contextlib.suppress(OSError):
            protocol.send(connection, protocol.Exited(code, by_template=False))

    process.on_leave(report)
    os.register_at_fork(after_in_child=connection.close)
