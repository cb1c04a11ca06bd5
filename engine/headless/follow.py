"""Follows a run to its end: progress bar, Ctrl-C, summary, exit code."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Self

from engine import client, commands
from engine.client import CommandFailed, RunInfo
from engine.headless.output import Exit, err, out, print_json, run_object
from engine.headless.progress import ProgressView
from engine.headless.summary import print_failure, print_summary
from engine.headless.watch import last_seq, updates
from engine.run_state import RunState

_EXIT_CODES = {RunState.FINISHED: Exit.DONE, RunState.STOPPED: Exit.STOPPED}


class CtrlC:
    """Counts Ctrl-C while it is entered, so that no moment of a run is a bad one for it."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def follow_own(run_id: str, ctrl_c: CtrlC, *, after: int, attempt: int, json: bool) -> Exit:
    """Follow a run that this command line started: Ctrl-C stops it, a second one at once."""
    heard = 0
    with ProgressView(client.look(run_id).title) as view:
        for update in updates(run_id, after=after, attempt=attempt):
            view.show(update)
            if ctrl_c.count > heard and not update.state.is_over:
                heard = ctrl_c.count
                _stop(run_id, view, now=heard > 1)
    return report_end(run_id, json=json)


def follow_other(run_id: str, ctrl_c: CtrlC, *, json: bool) -> Exit:
    """Follow a run that is active already: Ctrl-C leaves it alone. Raises NoSuchRun."""
    info = client.look(run_id)
    with ProgressView(info.title) as view:
        for update in updates(run_id, after=last_seq(info.folder), attempt=info.status.attempt):
            view.show(update)
            if ctrl_c.count and not update.state.is_over:
                view.say(
                    f"Run {run_id} goes on: `python main.py attach {run_id}` follows it again."
                )
                if json:
                    print_json(run_object(client.look(run_id)))
                return Exit.DONE
    return report_end(run_id, json=json)


def report_end(run_id: str, *, json: bool) -> Exit:
    """Print how a run ended, and return what the process should exit with."""
    info = client.look(run_id)
    if json:
        print_json(run_object(info))
    else:
        print_summary(out(), info)
    print_failure(err(), info)
    return exit_code(info)


def exit_code(info: RunInfo) -> Exit:
    """0 for a finished run, 3 for a stopped one, 1 for any other end."""
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
