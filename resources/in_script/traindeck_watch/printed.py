"""Notes after which step the script has printed a line that may tell of a validation.

The process of the rank reads the line itself from the output, and may do so steps later.
"""

from __future__ import annotations

import collections
import functools
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traindeck_watch.watch import Watch

LARGEST_LINE = 2000
"""Characters; as in `engine.script_rank.figures`, which reads no longer ones."""

LARGEST_PENDING = 20_000
LINES_OF_A_FRAME = 500

_LINE_ENDS = re.compile(r"[\r\n]+")
_TELLS = re.compile(r"(?=.*\d).*(?:val|test|dev)", re.IGNORECASE)


class Printed:
    """What was written to `stdout` and `stderr`, in pieces, until the thread sends it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._pieces: collections.deque[tuple[Any, int | None, str]] = collections.deque(
            maxlen=LARGEST_PENDING
        )
        self._begun: dict[Any, tuple[str, int]] = {}
        """The line without an end of each stream, and the step of its last piece."""

    def follow(self) -> None:
        """Note from now on what the script writes; its streams stay what they are."""
        for stream in (sys.stdout, sys.stderr):
            # Without buffers, a line that both streams write to is one line of the output.
            key = None if getattr(stream, "write_through", False) else id(stream)
            try:
                stream.write = self._noting(stream.write, key)  # type: ignore[method-assign]
            except AttributeError:  # there is none, or another kind of object
                continue

    def _noting(self, write: Any, key: Any) -> Any:
        watch, note = self._watch, self._pieces.append

        @functools.wraps(write)
        def noted(text: str) -> Any:
            written = write(text)
            if watch.sends:
                note((key, watch.step if watch.trains else None, text))
            return written

        return noted

    def send(self) -> None:
        """Send the lines that are complete. Called by the thread."""
        pieces, lines = self._pieces, []
        present = self._watch.present_step if pieces else 0
        while pieces:
            key, step, text = pieces.popleft()
            lines += self._completed(key, present if step is None else step, text)
        if self._watch.is_silent:
            return
        for begin in range(0, len(lines), LINES_OF_A_FRAME):
            part = lines[begin : begin + LINES_OF_A_FRAME]
            self._watch.recorder.put({"kind": "printed", "lines": part})

    def _completed(self, key: Any, step: int, text: str) -> list[tuple[str, int]]:
        """Return the lines that `text` completes and that are of use, with their steps."""
        begun, at = self._begun.get(key, ("", step))
        first, *others = _LINE_ENDS.split(text)
        lines = [(begun + first, step if first.strip() else at)]
        lines += [(other, step) for other in others]
        rest, at = lines.pop()
        self._begun[key] = rest[-2 * LARGEST_LINE :], at
        return [each for each in lines if len(each[0]) <= LARGEST_LINE and _TELLS.match(each[0])]

    def forget_after_fork(self) -> None:
        """In a forked child: what waits belongs to the parent."""
        self._pieces.clear()
        self._begun.clear()
