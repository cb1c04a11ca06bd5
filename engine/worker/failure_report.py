"""A worker's own account of the exception that ends it: what, and where in the recipe."""

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
"""What gloo, NCCL and gRPC say when another rank went away."""

_LOST_PEER_ERRORS = frozenset({"UnavailableError", "DeadlineExceededError"})
"""What TensorFlow raises for no other reason, whatever it says."""

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_IN_GRAPH = ("Graph execution error", "Detected at node")
_SEVERAL = re.compile(r"\d+ root error\(s\) found")
_FIRST_OF_SEVERAL = re.compile(r"\s*\(0\) [A-Z_]+:\s*(.+)")
_TRACED = "in user code:"
_RAISED = re.compile(r"[\w.]+: ")
_TRACEBACK = "Traceback (most recent call last):"


LONGEST_MESSAGE = 2000
LONGEST_TRACEBACK = 200_000
"""Characters; an exception may print a whole array, or all of a data set."""


def account(rank: int, recipe: RecipeInfo, error: BaseException) -> WorkerFailed:
    """What went wrong, with the recipe's line where it is the recipe's doing."""
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
    except Exception:  # its own __str__ is at fault: its type is all there is to say
        return ""


def _sendable(text: str, longest: int) -> str:
    """`text`, cut in the middle, without what no encoding has (file names may hold that)."""
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
        # It comes from another process, such as a data loader's: its last line says what happened.
        return f"{lines[-1]} ({lines[0].rstrip('.')})"
    if lines[0].startswith(_TRACED):
        # What is raised while a graph is traced shows the code first, and is indented like it.
        raised = [line for line in map(str.strip, lines) if _RAISED.match(line)]
        return raised[-1] if raised else lines[-1].strip()
    return f"{type(error).__name__}: {_telling(lines)}"


def _telling(lines: list[str]) -> str:
    """The first line, or the one after where in a graph it happened, as TensorFlow says first."""
    if not lines[0].startswith(_IN_GRAPH):
        return lines[0]
    for line in lines:
        if first := _FIRST_OF_SEVERAL.match(line):
            return first[1]
        if line and not line.startswith((*_IN_GRAPH, " ")) and not _SEVERAL.match(line):
            return line
    return lines[0]


def _where(error: BaseException, text: str, recipe: RecipeInfo) -> str:
    """File and line in the recipe; empty when it has no part in this."""
    for cause in _chain(error):
        if isinstance(cause, SyntaxError) and cause.filename:
            return f"{cause.filename}:{cause.lineno}"
        frames = traceback.extract_tb(cause.__traceback__)
        ours = [frame for frame in frames if _is_users(frame.filename, recipe)]
        if ours:
            return f"{ours[-1].filename}:{ours[-1].lineno}"
    told = [frame for frame in _FRAME.findall(text) if _is_users(frame[0], recipe)]
    return ":".join(told[-1]) if told else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that led to it, newest first."""
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )


def _is_users(filename: str, recipe: RecipeInfo) -> bool:
    path = Path(filename)
    if path == Path(recipe.path):
        return True
    return (
        not recipe.builtin
        and path.is_relative_to(Path(recipe.path).parent)
        and "site-packages" not in path.parts
    )
