"""Shows a run as a progress bar on standard error, with its events as lines above."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from engine.cli.output import err, format_duration, format_number
from engine.interface.news.run_news import RunUpdate
from engine.messages.events import (
    Alarm,
    CheckpointFailed,
    CheckpointSaved,
    EpochEnded,
    Event,
    Notice,
    Paused,
    Queued,
    RecipeChosen,
    Restarting,
    Resumed,
    Shrunk,
    StopStage,
    Trouble,
)
from engine.runs.run_state import RunState, RunStatus


class ProgressView:
    """Shows the updates of one run. Without a terminal it prints the lines only."""

    def __init__(self, title: str) -> None:
        self._console = err()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}", markup=False),
            console=self._console,
            auto_refresh=False,
            transient=True,
            expand=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=None, numbers="starting")
        self._epochs = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self._console.print(text, soft_wrap=True)

    def show(self, update: RunUpdate) -> None:
        """Show the progress and the new events."""
        status = update.status
        self._epochs = status.epochs
        for stored in update.events:
            line = self._line(stored.event)
            if line:
                self.say(line)
        self._progress.update(
            self._task,
            completed=status.step,
            total=status.total_steps or None,
            numbers=_figures(status, update.state),
        )
        self._progress.refresh()

    def _line(self, event: Event) -> str:
        match event:
            case EpochEnded():
                values = "  ".join(
                    f"{name} {format_number(x)}" for name, x in event.metrics.items()
                )
                of_all = f"/{self._epochs}" if self._epochs else ""
                return f"epoch {event.epoch}{of_all}  step {event.step}  {values}"
            case CheckpointSaved():
                return f"checkpoint saved: {event.path}"
            case Notice() | Alarm() | Trouble() | CheckpointFailed() | Shrunk():
                return event.text
            case Restarting(failure, count, most):
                return f"restart {count} of {most}: {failure.message}"
            case RecipeChosen():
                return f"goes on with the recipe {event.version}: {event.changes}"
            case Queued():
                return event.reason or "its turn in the queue has come"
            case Paused():
                return f"paused after step {event.step}"
            case Resumed():
                return f"going on after step {event.step}"
            case StopStage(stage="terminate" | "kill"):
                return "The workers did not exit: they are ended now."
            case _:
                return ""


def _figures(status: RunStatus, state: RunState) -> str:
    if state in (RunState.STARTING, RunState.QUEUED):
        return str(state)
    parts = [] if state is RunState.RUNNING else [str(state)]
    if status.epochs:
        parts.append(f"epoch {status.epoch}/{status.epochs}")
    else:  # a script may not tell when it ends, and some runs are so many steps long
        parts += [f"epoch {status.epoch}"] * bool(status.epoch)
    if status.total_steps:
        parts.append(f"step {status.step}/{status.total_steps}")
    else:
        parts.append(f"step {status.step:,}")
    if "train/loss" in status.metrics:
        parts.append(f"loss {format_number(status.metrics['train/loss'])}")
    if state is RunState.RUNNING and status.samples_per_second > 0:
        parts.append(f"{status.samples_per_second:,.0f} samples/s")
        parts.append(f"{format_duration(status.seconds_left)} left")
    return "  ".join(parts)


Show = Callable[[str, int, int], None]
"""Takes what is done, how much of it, and of how much."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the body as Ctrl-C does, so that it cleans up."""
    named = [getattr(signal, each) for each in ("SIGTERM", "SIGHUP") if hasattr(signal, each)]
    numbers = [each for each in named if signal.getsignal(each) is not signal.SIG_IGN]  # of nohup
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress_bar(what: str) -> Iterator[Show]:
    """Show a bar while the body works; without a terminal, nothing. A signal to end ends the body
    as Ctrl-C does: what works with a bar leaves all or nothing."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    is_shown = sys.stderr.isatty()
    bar = Progress(*columns, console=err(), transient=True, disable=not is_shown)
    with ended_by_signals(), bar:
        task = bar.add_task(what, total=None)

        def show(detail: str, done: int, total: int) -> None:
            bar.update(task, description=f"{what} {detail}".rstrip(), completed=done, total=total)

        yield show
