"""Makes the failure report of a worker from the exception that ends it."""

from __future__ import annotations

import re
import textwrap
import traceback
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from engine.messages.events import WorkerFailed
from engine.spec.recipe_file import RecipeInfo
from engine.training.errors import OutOfMemory, TrainingFailed
from engine.training.kernel_faults import KernelFault

_LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "connectFullMesh",
    "NCCL communicator was aborted",
    "remote process exited",
    "Socket closed",
    "failed to connect to all addresses",
    "stopped sending heartbeats",
)
"""Error texts of gloo, NCCL and gRPC when the connection to another rank is lost."""

_LOST_PEER_ERRORS = frozenset({"UnavailableError", "DeadlineExceededError"})
"""TensorFlow raises these errors only when it loses another process."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_GRAPH_LOCATION = ("Graph execution error", "Detected at node")
_SEVERAL_ERRORS = re.compile(r"\d+ root error\(s\) found")
_FIRST_ERROR = re.compile(r"\s*\(0\) [A-Z_]+:\s*(.+)")
_WHILE_TRACING = "in user code:"
_ERROR_LINE = re.compile(r"[\w.]+: ")
_TRACEBACK = "Traceback (most recent call last):"

LONGEST_MESSAGE = 2000
LONGEST_DETAILS = 4000
LONGEST_TRACEBACK = 200_000
"""Characters. An exception may print a whole array, or a whole data set."""


def failure_report(rank: int, recipe: RecipeInfo, error: BaseException) -> WorkerFailed:
    """Return the event that reports `error`, with the recipe's line if the recipe is involved."""
    text = _text(error)
    message, rest = _message(error, text)
    return WorkerFailed(
        rank=rank,
        message=sendable(message, LONGEST_MESSAGE),
        where=sendable(_where(error, text, recipe), LONGEST_MESSAGE),
        traceback=sendable("".join(traceback.format_exception(error)), LONGEST_TRACEBACK),
        lost_peer=type(error).__name__ in _LOST_PEER_ERRORS or is_lost_peer(text),
        details=sendable("\n".join(_details(error, rest)), LONGEST_DETAILS),
        shrunk=error.shrunk if isinstance(error, OutOfMemory) else None,
        kernel_fault=isinstance(error, KernelFault),
    )


def is_lost_peer(text: str) -> bool:
    """Whether the text of an error says that the connection to another rank was lost."""
    return any(phrase in text for phrase in _LOST_PEER)


def _text(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:  # the recipe's own exception has a __str__ that fails
        return ""


def sendable(text: str, longest: int) -> str:
    """Return `text` as valid UTF-8 (file names may hold anything), with its middle cut out.

    Colours are for a terminal, such as those of PyTorch's advice on `torch.load`.
    """
    text = _COLOURS.sub("", text)
    if len(text) > longest:
        text = f"{text[: longest // 2]} … {text[-longest // 2 :]}"
    return text.encode(errors="backslashreplace").decode()


def _message(error: BaseException, text: str) -> tuple[str, list[str]]:
    """Return the line of an exception's `text` that says what is wrong, and the lines after it."""
    if isinstance(error, TrainingFailed):
        return " ".join(text.split()), []
    if isinstance(error, SystemExit):
        return _exit_message(error, text), []
    lines = text.splitlines()
    if not lines:
        return type(error).__name__, []
    if _TRACEBACK in text:
        # The error of another process or rank, such as a data loader: the message is below its
        # frames, and may have more lines.
        message, rest = _below_frames(lines)
        return f"{message} ({lines[0].rstrip('.')})", rest
    if lines[0].startswith(_WHILE_TRACING):
        # An error while a graph is traced: the code comes first, and the message is indented too.
        found = [number for number, line in enumerate(lines) if _ERROR_LINE.match(line.strip())]
        last = found[-1] if found else len(lines) - 1
        return lines[last].strip(), lines[last + 1 :]
    if lines[0].startswith(_GRAPH_LOCATION):
        return f"{type(error).__name__}: {_graph_line(lines)}", []
    return f"{type(error).__name__}: {lines[0]}", lines[1:]


def _exit_message(error: SystemExit, text: str) -> str:
    """Return why code of the recipe has ended its process, such as a parser of arguments."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_name == "error" and "message" in frame.f_locals:
            asked = " ".join(str(frame.f_locals["message"]).split())
            return (
                f"its parser of arguments refuses ({asked}): a recipe gets no arguments, so give "
                'them defaults, or parse them under `if __name__ == "__main__"` only.'
            )
    code = f"code {error.code or 0}" if isinstance(error.code, int | None) else f"{text!r}"
    return (
        f"it has left by itself with {code} (SystemExit): a recipe, and what it imports, must not "
        'end its process; let a script do that under `if __name__ == "__main__"` only.'
    )


def _details(error: BaseException, rest: Iterable[str]) -> Iterator[str]:
    """Yield the lines of what helps beside the message: `rest`, notes, members of a group, causes.

    The text of a TrainingFailed is complete: its causes are in the log only.
    """
    yield from _dedented(rest)
    yield from _notes(error)
    yield from _members(error, "")
    if isinstance(error, TrainingFailed):
        return
    for earlier, cause in pairwise(_chain(error)):
        text = _text(cause)
        message, more = _message(cause, text)
        is_cause = cause is earlier.__cause__
        yield f"{'Caused by' if is_cause else 'While handling'} {message}"
        yield from (f"  {line}" for line in (*_dedented(more), *_notes(cause)))
        yield from _members(cause, "  ")


def _members(error: BaseException, indent: str) -> Iterator[str]:
    """Yield what each exception of a group says."""
    if not isinstance(error, BaseExceptionGroup):
        return
    for number, member in enumerate(error.exceptions, 1):
        message, more = _message(member, _text(member))
        yield f"{indent}{number}. {message}"
        yield from (f"{indent}   {line}" for line in (*_dedented(more), *_notes(member)))
        yield from _members(member, f"{indent}   ")


def _notes(error: BaseException) -> list[str]:
    """Return the lines that were added with `add_note`."""
    notes = getattr(error, "__notes__", ())
    return [line for note in notes if isinstance(note, str) for line in note.splitlines()]


def _dedented(lines: Iterable[str]) -> list[str]:
    return textwrap.dedent("\n".join(lines)).strip().splitlines()


def _below_frames(lines: list[str]) -> tuple[str, list[str]]:
    """Return the first line with words after the frames of the last traceback, and the others."""
    begin = max(number for number, line in enumerate(lines) if _TRACEBACK in line) + 1
    below = [line for line in lines[begin:] if line.strip()]
    first = next((n for n, line in enumerate(below) if not line.startswith(" ")), len(below) - 1)
    message = below[first] if below else lines[-1]
    if message.endswith(": ") and below[first + 1 :]:
        first += 1
        message += below[first]  # the message begins with a line break
    return " ".join(message.split()), below[first + 1 :]


def _graph_line(lines: list[str]) -> str:
    """Return the first line of an error of TensorFlow after the location in the graph."""
    for line in lines:
        if first := _FIRST_ERROR.match(line):
            return first[1]
        is_location = line.startswith((*_GRAPH_LOCATION, " "))
        if line and not is_location and not _SEVERAL_ERRORS.match(line):
            return line
    return lines[0]


def _where(error: BaseException, text: str, recipe: RecipeInfo) -> str:
    """Return file and line in the recipe's code; empty if no frame is in it."""
    if isinstance(error, TrainingFailed) and error.where:
        return error.where
    for cause in _with_members(error):
        if isinstance(cause, SyntaxError) and cause.filename:
            return f"{cause.filename}:{cause.lineno}"
        frames = traceback.extract_tb(cause.__traceback__)
        own = [frame for frame in frames if recipe.owns(Path(frame.filename))]
        if own:
            return f"{own[-1].filename}:{own[-1].lineno}"
    quoted = [frame for frame in _FRAME.findall(text) if recipe.owns(Path(frame[0]))]
    return ":".join(quoted[-1]) if quoted else ""


def _with_members(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes, and the members of each that is a group."""
    for cause in _chain(error):
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            for member in cause.exceptions:
                yield from _with_members(member)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and its causes, newest first."""
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
