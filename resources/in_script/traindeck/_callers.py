"""What the line of the script that makes a call does with the result."""

from __future__ import annotations

import ast
import functools
import linecache
import opcode
from types import FrameType

_PAUSED = frozenset({"YIELD_VALUE", "YIELD_FROM", "SEND", "RESUME", "JUMP_BACKWARD_NO_INTERRUPT"})
_LEAVES = frozenset({"POP_TOP", "POP_ITER"})


def counts_batches(frame: FrameType) -> bool:
    """Whether the line where `frame` is counts the batches of `batches(...)` with `enumerate`."""
    return _counts_batches(frame.f_code.co_filename, frame.f_lineno)


def is_left_by_break(frame: FrameType | None) -> bool:
    """Whether a loop that is closed from `frame` is left by `break` or `return`, not by an error.

    An error closes the loop too, before any code can see it: but from the instruction that raised
    it, whereas the other two take the loop off the stack. Generators in between, such as those of
    progress bars, are closed where they are paused.
    """
    while frame is not None:
        name = opcode.opname[frame.f_code.co_code[max(frame.f_lasti, 0)]]
        if name not in _PAUSED:
            return name in _LEAVES
        frame = frame.f_back
    return False


@functools.cache  # a file that changes while it runs stays what it was
def _counts_batches(file: str, line: int) -> bool:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return False
    return any(
        _calls(node, "enumerate")
        and len(node.args) == 1
        and not node.keywords
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and any(_calls(inner, "batches") for inner in ast.walk(node.args[0]))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )


def _calls(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (isinstance(function, ast.Name) and function.id == name) or (
        isinstance(function, ast.Attribute) and function.attr == name
    )
