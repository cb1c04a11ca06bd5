"""Consoles, JSON, exit codes and number formats of the command line."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from engine.interface.values import RunDetails
from engine.runs.run_info import RunInfo
from engine.runs.run_state import STEP_SECONDS, THROUGHPUT, RunState
from engine.scripts.secrets import shown_words
from engine.spec.validation import Problem
from engine.system import units

_WIDTH_OF_A_PIPE = 200
"""Characters per line without a terminal; large, so that no table in a file is cut."""

MOST_LAID_OUT = 500
"""Lines of a table that is fitted to the width of the terminal."""

STATE_STYLES = {
    RunState.RUNNING: "green",
    RunState.FINISHED: "bold green",
    RunState.FAILED: "bold red",
    RunState.INTERRUPTED: "bold red",
    RunState.STOPPED: "yellow",
    RunState.STOPPING: "yellow",
    RunState.PAUSED: "yellow",
    RunState.QUEUED: "cyan",
}


class Exit(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    FAILED = 1
    """The run failed or was interrupted, or did not answer."""

    REFUSED = 2
    """Bad usage, an unknown run, or a run that cannot be started: nothing was done."""

    STOPPED = 3
    """The run was stopped before its last epoch."""

    INTERRUPTED = 130
    """Ctrl-C has ended the command: as a shell reports it of a program that has died of it."""

    UNREAD = 141
    """The reader of the output has closed it, as `head` does: SIGPIPE, as a shell reports it."""


class Refused(Exception):
    """A command that cannot be carried out; the text is a sentence."""


class Interrupted(Exception):
    """The user, or the system, has ended the command; the text is a sentence."""


class Unanswered(Exception):
    """A run ended, or did not answer in time; the text is a sentence."""

    def __init__(self, text: str, *, is_printed: bool = False) -> None:
        """`is_printed`: what `--json` prints was printed before."""
        super().__init__(text)
        self.is_printed = is_printed


_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Characters with which a text controls a terminal, or is shown in another order. Not the tab and
the end of a line."""


def printable(text: str) -> str:
    """Return `text` with the characters that control a terminal in a visible form, such as `\\x1b`.

    Names, notes, and messages of exceptions come from files, recipes and libraries.
    """
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


class _SafeConsole(Console):
    """Every text that it prints is `printable`, also the cells of tables and progress bars."""

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError that is handled now; Rich would exit with another code."""
        raise

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        if isinstance(renderable, Text) and _UNPRINTABLE.search(renderable.plain):
            renderable = Text(printable(renderable.plain), renderable.style)
        return super().render(renderable, options)


def out() -> Console:
    """Return the console for results: standard output."""
    return _console(stderr=False)


def err() -> Console:
    """Return the console for progress and errors: standard error."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_OF_A_PIPE
    return _SafeConsole(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def empty_table(*titles: str) -> Table:
    """Return a table that has these columns and no row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def show_table(titles: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table; a long one without colours and without folding what is too wide, because Rich
    takes a millisecond for each line."""
    if len(rows) <= MOST_LAID_OUT:
        table = empty_table(*titles)
        for row in rows:
            table.add_row(*row)
        out().print(table)
        return
    columns = [_padded([*map(str, column)]) for column in zip(titles, *rows, strict=True)]
    lines = ["  ".join(line).rstrip() + "\n" for line in zip(*columns, strict=True)]
    sys.stdout.write(printable("".join(lines)))


def _padded(cells: list[str]) -> list[str]:
    whole = "".join(cells)
    if "\n" in whole:
        cells = [each.replace("\n", " ") for each in cells]
    if whole.isascii():
        width = max(map(len, cells))
        return [each.ljust(width) for each in cells]
    lengths = [*map(cell_len, cells)]
    width = max(lengths)
    return [each + " " * (width - length) for each, length in zip(cells, lengths, strict=True)]


def print_json(value: object) -> None:
    """Print one line of strict JSON on standard output; NaN and infinities become null."""
    strict = msgspec.json.decode(msgspec.json.encode(value))
    sys.stdout.write(json.dumps(strict) + "\n")  # ASCII, which every terminal can show
    sys.stdout.flush()


def run_as_json(info: RunInfo) -> dict[str, Any]:
    """Return the JSON object that `--json` prints for each run of a list."""
    return {
        "id": info.id,
        "state": str(info.state),
        "reason": info.reason,
        "epoch": info.status.epoch,
        "step": info.status.step,
        "metrics": info.status.metrics,
        "run_dir": str(info.folder),
    }


def one_run_as_json(info: RunInfo, details: RunDetails) -> dict[str, Any]:
    """Return the JSON object that `--json` prints for one run: as in a list, with its failure."""
    failure = details.failure
    script = _script_as_json(info, details) if info.spec.is_script else {}
    return run_as_json(info) | script | ({"failure": failure} if failure else {})


_NO_RESULTS = ("device/", "rank/", STEP_SECONDS, THROUGHPUT)
"""Series that no script has captured or logged."""


def _script_as_json(info: RunInfo, details: RunDetails) -> dict[str, Any]:
    """Return what is said of a run of a script besides: its command, what resuming means, and the
    last value of every series that was captured."""
    newest = details.newest.items()
    metrics = {name: value for name, value in newest if not name.startswith(_NO_RESULTS)}
    return {
        "metrics": metrics,
        "command": shown_words(info.spec.command),
        "working_folder": info.spec.working_folder,
        "resume": details.resuming,
    }


def refusal_as_json(problems: Iterable[Problem]) -> dict[str, Any]:
    """Return the JSON object that `--json` prints for a command that was refused."""
    return {"state": "refused", "problems": list(problems)}


def error_as_json(state: str, text: str) -> dict[str, Any]:
    """Return the JSON object that `--json` prints for a command that could not do what it began.

    `state`: "failed" or "interrupted", which is that of the command and not of a run.
    """
    return {"state": state, "problems": [Problem("", text)]}


def format_number(value: float) -> str:
    """Return `value` with four significant digits."""
    return f"{value:.4g}"


def format_percent(value: float | None) -> str:
    """Return a text like `93 %`; a dash for None."""
    return "–" if value is None else f"{value:.0f} %"


def format_bytes(value: int | None) -> str:
    """Return a text like `30.0 GiB`; a dash for None."""
    return "–" if value is None else units.byte_size(value)


def format_duration(seconds: float) -> str:
    """Return a text like `0:07` or `1:02:03`; a dash if the time is unknown."""
    return units.short_duration(seconds) if math.isfinite(seconds) and seconds >= 0 else "–"


def format_time(seconds: float) -> str:
    """Return the local date and time of `seconds` since the epoch; a dash for 0."""
    return units.date_and_time(seconds) if seconds else "–"
