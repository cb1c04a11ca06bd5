"""Follows a run to its end: progress bar, Ctrl-C, summary, exit code."""

from __future__ import annotations

import errno
import math
import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

from engine.cli.output import Exit, Interrupted, Unanswered, err, one_run_as_json, out, print_json
from engine.cli.progress import ProgressView
from engine.cli.summary import print_failure, print_summary
from engine.cli.watch import updates
from engine.client import CommandFailed, NoSuchRun, RunInfo
from engine.interface.engine import Engine
from engine.interface.news.run_news import RunUpdate
from engine.messages import commands
from engine.processes.process import END_SIGNALS
from engine.runs.run_info import DamagedRun
from engine.runs.run_state import RunState
from engine.system.program import call

_SHORT_SECONDS = 1.0
"""A verification that takes less time is not shown."""

_FRAME_SECONDS = 0.1

_EXIT_CODES = {RunState.FINISHED: Exit.DONE, RunState.STOPPED: Exit.STOPPED}


class CtrlC:
    """Counts Ctrl-C inside a `with` block, so that it does not interrupt the program at any line.

    The signals of a logout, of a shutdown and of a closed terminal count too.
    """

    def __init__(self) -> None:
        self.count = 0
        """Number of Ctrl-C; all signals of the system count as one: a logout sends several."""

        self._previous_handlers: dict[int, Any] = {}
        self._terminals: list[int] = []

    @property
    def event(self) -> threading.Event:
        """An event that is set by Ctrl-C. A signal handler must not set one that a thread waits
        for."""
        return _Interrupted(self)

    def __enter__(self) -> Self:
        self._terminals = [stream for stream in _OUTPUTS if os.isatty(stream)]
        for number in END_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                self._previous_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.count += 1
            return
        self.count = max(self.count, 1)
        if number != signal.SIGTERM:
            self._leave_terminal()

    def show(self, view: ProgressView, update: RunUpdate) -> None:
        """Show `update`. If the terminal was just closed, writing fails before the signal comes."""
        try:
            view.show(update)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self.count = max(self.count, 1)
            self._leave_terminal()

    def _leave_terminal(self) -> None:
        """Write to the null device from now on: writing to a closed terminal is an error."""
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in self._terminals:
            os.dup2(null, stream)
        os.close(null)


_OUTPUTS = (1, 2)


class _Interrupted(threading.Event):
    def __init__(self, ctrl_c: CtrlC) -> None:
        super().__init__()
        self._ctrl_c = ctrl_c

    def is_set(self) -> bool:
        return self._ctrl_c.count > 0

    def wait(self, timeout: float | None = None) -> bool:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self.is_set() and time.monotonic() < deadline:
            time.sleep(min(_FRAME_SECONDS, max(0.0, deadline - time.monotonic())))
        return self.is_set()


class VerificationView:
    """Shows how much of a checkpoint has been verified; a Ctrl-C ends the verification."""

    def __init__(self, run_id: str, ctrl_c: CtrlC) -> None:
        self._run_id = run_id
        self._ctrl_c = ctrl_c
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(binary_units=True),
            console=err(),
            auto_refresh=False,
            transient=True,
            disable=not err().is_terminal,
        )
        self._task: TaskID | None = None
        self._begun = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the terminal was closed
            self._bar.stop()

    def show(self, done: int, total: int) -> None:
        """Show the verified bytes. Raises Interrupted after a Ctrl-C."""
        if self._ctrl_c.count:
            raise Interrupted(
                f"Run {self._run_id} was not resumed: this was interrupted before it began. "
                "Nothing has changed."
            )
        now = time.monotonic()
        if not total or now < max(self._begun + _SHORT_SECONDS, self._shown + _FRAME_SECONDS):
            return
        self._shown = now
        with suppress(OSError):
            if self._task is None:
                self._bar.start()
                self._task = self._bar.add_task("verifying the checkpoint")
            self._bar.update(self._task, completed=done, total=total, refresh=True)


def follow_started_run(
    engine: Engine, run_id: str, ctrl_c: CtrlC, *, after: int, attempt: int, json: bool
) -> Exit:
    """Follow a run that this command started. Ctrl-C stops it, and a second one ends it at once.

    The end of the login session or of the terminal stops it too.
    """
    handled, last = 0, None
    with ProgressView(engine.get_run(run_id).title) as view:
        for update in updates(engine, run_id, after=after, attempt=attempt):
            last = update
            ctrl_c.show(view, update)
            if ctrl_c.count > handled and not update.state.is_over:
                handled = ctrl_c.count
                _stop(engine, run_id, view, now=handled > 1)
    return report_end(engine, run_id, last, json=json)


def follow_active_run(engine: Engine, info: RunInfo, ctrl_c: CtrlC, *, json: bool) -> Exit:
    """Follow a run that was active before; Ctrl-C ends the following."""
    run_id, last = info.id, None
    with ProgressView(info.title) as view:
        for update in updates(engine, run_id, after=-1, attempt=info.status.attempt):
            last = update
            ctrl_c.show(view, update)
            if ctrl_c.count and not update.state.is_over:
                again = call(f"attach {run_id}", engine.machine)
                view.say(f"Run {run_id} goes on: `{again}` follows it again.")
                if json:
                    print_run_as_json(engine, run_id)
                return Exit.DONE
    return report_end(engine, run_id, last, json=json)


def report_end(engine: Engine, run_id: str, last: RunUpdate | None, *, json: bool) -> Exit:
    """Print the end of a run, and return the exit code; `last`: its last update.

    Raises Unanswered if its folder is gone.
    """
    try:
        info, details = engine.get_run(run_id), engine.read_details(run_id)
    except DamagedRun as error:
        raise Unanswered(str(error)) from None
    except NoSuchRun:
        reason = last.status.reason if last is not None else ""
        text = f"The folder of run {run_id} was moved or deleted while it trained. {reason}"
        raise Unanswered(text.rstrip()) from None
    if json:
        print_json(one_run_as_json(info, details))
    else:
        print_summary(out(), info, details, now_of(engine, info))
    print_failure(err(), details.failure)
    return exit_code(info)


def now_of(engine: Engine, info: RunInfo) -> float:
    """Return the time of day where a run is: the clock of another machine may differ, so there it
    is that of the newest event."""
    return info.status.updated if engine.machine else time.time()


def print_run_as_json(engine: Engine, run_id: str) -> None:
    """Print the JSON object of one run."""
    print_json(one_run_as_json(engine.get_run(run_id), engine.read_details(run_id)))


def exit_code(info: RunInfo) -> Exit:
    """Return 0 for a finished run, 3 for a stopped one, 1 for any other end."""
    return _EXIT_CODES.get(info.state, Exit.FAILED)


def _stop(engine: Engine, run_id: str, view: ProgressView, *, now: bool) -> None:
    if now:
        view.say("stopping at once")
    else:
        view.say("stopping: saving a checkpoint; Ctrl-C again ends at once")
    try:
        engine.send(run_id, commands.Stop(now=now))
    except CommandFailed as error:
        view.say(str(error))


def print_detached(engine: Engine, run_id: str, *, json: bool) -> Exit:
    """Print the number of a run that goes on by itself, or with `json` its object."""
    if json:
        print_run_as_json(engine, run_id)
    else:
        out().print(run_id)
    follows = call(f"attach {run_id}", engine.machine)
    hint = f"Run {run_id} has started: `{follows}` follows it."
    err().print(hint, soft_wrap=True)
    return Exit.DONE
