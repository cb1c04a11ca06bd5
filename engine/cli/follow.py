"""Follows a run to its end: progress bar, Ctrl-C, summary, exit code."""

from __future__ import annotations

import errno
import os
import signal
from types import FrameType, TracebackType
from typing import Any, Self

from engine import client
from engine.cli.output import Exit, err, out, print_json, run_as_json
from engine.cli.progress import ProgressView
from engine.cli.show import print_failure, print_summary
from engine.cli.watch import Update, last_seq, updates
from engine.client import CommandFailed, RunInfo
from engine.messages import commands
from engine.runs.run_state import RunState
from engine.system.program import call

_EXIT_CODES = {RunState.FINISHED: Exit.DONE, RunState.STOPPED: Exit.STOPPED}


class CtrlC:
    """Counts Ctrl-C inside a `with` block instead of interrupting the program at any line.

    A logout, a shutdown and a closed terminal count too: they send signals of their own.
    """

    def __init__(self) -> None:
        self.count = 0
        """How often the user pressed Ctrl-C. All signals of the system together count once: a
        logout sends several of them."""

        self._before: dict[int, Any] = {}
        self._terminals: list[int] = []

    def __enter__(self) -> Self:
        self._terminals = [stream for stream in _OUTPUTS if os.isatty(stream)]
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.count += 1
            return
        self.count = max(self.count, 1)
        if number != signal.SIGTERM:
            self._leave_terminal()

    def show(self, view: ProgressView, update: Update) -> None:
        """Show `update`. If the terminal was just closed, writing fails before the signal comes."""
        try:
            view.show(update)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self.count = max(self.count, 1)
            self._leave_terminal()

    def _leave_terminal(self) -> None:
        """The terminal is gone: write to nowhere from now on, without an error."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in self._terminals:
            os.dup2(nowhere, stream)
        os.close(nowhere)


_OUTPUTS = (1, 2)
_SIGNALS = [
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if name in signal.Signals.__members__  # Windows has no SIGHUP
]


def follow_own(run_id: str, ctrl_c: CtrlC, *, after: int, attempt: int, json: bool) -> Exit:
    """Follow a run that this command started. Ctrl-C stops it, and a second one ends it at once.

    The end of the login session or of the terminal stops it too; with `--detach` this function is
    not called.
    """
    handled = 0
    with ProgressView(client.get_run(run_id).title) as view:
        for update in updates(run_id, after=after, attempt=attempt):
            ctrl_c.show(view, update)
            if ctrl_c.count > handled and not update.state.is_over:
                handled = ctrl_c.count
                _stop(run_id, view, now=handled > 1)
    return report_end(run_id, json=json)


def follow_other(run_id: str, ctrl_c: CtrlC, *, json: bool) -> Exit:
    """Follow a run that was active before: Ctrl-C leaves it alone. Raises NoSuchRun."""
    info = client.get_run(run_id)
    with ProgressView(info.title) as view:
        for update in updates(run_id, after=last_seq(info.folder), attempt=info.status.attempt):
            ctrl_c.show(view, update)
            if ctrl_c.count and not update.state.is_over:
                view.say(f"Run {run_id} goes on: `{call(f'attach {run_id}')}` follows it again.")
                if json:
                    print_json(run_as_json(client.get_run(run_id)))
                return Exit.DONE
    return report_end(run_id, json=json)


def report_end(run_id: str, *, json: bool) -> Exit:
    """Print how a run ended, and return the exit code."""
    info = client.get_run(run_id)
    if json:
        print_json(run_as_json(info))
    else:
        print_summary(out(), info)
    print_failure(err(), info)
    return exit_code(info)


def exit_code(info: RunInfo) -> Exit:
    """Return 0 for a finished run, 3 for a stopped one, 1 for any other end."""
    return _EXIT_CODES.get(info.state, Exit.FAILED)


def _stop(run_id: str, view: ProgressView, *, now: bool) -> None:
    if now:
        view.say("stopping at once")
    else:
        view.say("stopping: saving a checkpoint; Ctrl-C again ends at once")
    try:
        client.send(run_id, commands.Stop(now=now))
    except CommandFailed as error:
        view.say(str(error))
