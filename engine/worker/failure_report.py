"""Makes the failure report of a worker from the exception that ends it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

from engine.messages.events import WorkerFailed
from engine.spec.recipe_file import RecipeInfo
from engine.training.errors import TrainingFailed

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

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_GRAPH_LOCATION = ("Graph execution error", "Detected at node")
_SEVERAL_ERRORS = re.compile(r"\d+ root error\(s\) found")
_FIRST_ERROR = re.compile(r"\s*\(0\) [A-Z_]+:\s*(.+)")
_WHILE_TRACING = "in user code:"
_ERROR_LINE = re.compile(r"[\w.]+: ")
_TRACEBACK = "Traceback (most recent call last):"

LONGEST_MESSAGE = 2000
LONGEST_TRACEBACK = 200_000
"""Characters. An exception may print a whole array, or a whole data set."""


def failure_report(rank: int, recipe: RecipeInfo, error: BaseException) -> WorkerFailed:
    """Return the event that reports `error`, with the recipe's line if the recipe is involved."""
    text = _text(error)
    return WorkerFailed(
        rank=rank,
        message=_sendable(_message(error, text), LONGEST_MESSAGE),
        where=_sendable(_where(error, text, recipe), LONGEST_MESSAGE),
        traceback=_sendable("".join(traceback.format_exception(error)), LONGEST_TRACEBACK),
        lost_peer=type(error).__name__ in _LOST_PEER_ERRORS
        or any(phrase in text for phrase in _LOST_PEER),
    )


def _text(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:  # the recipe's own exception has a __str__ that fails
        return ""


def _sendable(text: str, longest: int) -> str:
    """Return `text` as valid UTF-8 (file names may hold anything), with its middle cut out."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} … {text[-longest // 2 :]}"
    return text.encode(errors="backslashreplace").decode()


def _message(error: BaseException, text: str) -> str:
    if isinstance(error, TrainingFailed):
        return " ".join(text.split())
    lines = text.splitlines()
    if not lines:
        return type(error).__name__
    if _TRACEBACK in text:
        # The error of another process or rank, such as a data loader: the message is below its
        # frames, and may have more lines.
        return f"{_below_frames(lines)} ({lines[0].rstrip('.')})"
    if lines[0].startswith(_WHILE_TRACING):
        # An error while a graph is traced: the code comes first, and the message is indented too.
        messages = [line for line in map(str.strip, lines) if _ERROR_LINE.match(line)]
        return messages[-1] if messages else lines[-1].strip()
    return f"{type(error).__name__}: {_main_line(lines)}"


def _below_frames(lines: list[str]) -> str:
    """Return the first line with words after the frames of the last traceback."""
    begin = max(number for number, line in enumerate(lines) if _TRACEBACK in line) + 1
    below = [line for line in lines[begin:] if line.strip()]
    first = next((n for n, line in enumerate(below) if not line.startswith(" ")), len(below) - 1)
    message = below[first] if below else lines[-1]
    if message.endswith(": ") and below[first + 1 :]:
        message += below[first + 1]  # the message begins with a line break
    return " ".join(message.split())


def _main_line(lines: list[str]) -> str:
    """Return the first line, or, for TensorFlow, the first after the location in the graph."""
    if not lines[0].startswith(_GRAPH_LOCATION):
        return lines[0]
    for line in lines:
        if first := _FIRST_ERROR.match(line):
            return first[1]
        is_location = line.startswith((*_GRAPH_LOCATION, " "))
        if line and not is_location and not _SEVERAL_ERRORS.match(line):
            return line
    return lines[0]


def _where(error: BaseException, text: str, recipe: RecipeInfo) -> str:
    """Return file and line in the recipe's code; empty if no frame is in it."""
    for cause in _chain(error):
        if isinstance(cause, SyntaxError) and cause.filename:
            return f"{cause.filename}:{cause.lineno}"
        frames = traceback.extract_tb(cause.__traceback__)
        own = [frame for frame in frames if recipe.owns(Path(frame.filename))]
        if own:
            return f"{own[-1].filename}:{own[-1].lineno}"
    quoted = [frame for frame in _FRAME.findall(text) if recipe.owns(Path(frame[0]))]
    return ":".join(quoted[-1]) if quoted else ""


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
