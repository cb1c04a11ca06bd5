"""Makes an environment, and tells in parts how far that is."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.environments import creation
from engine.environments.creation import CreationFailed, Stage
from engine.environments.registry import Environment
from engine.files.regular_file import open_regular
from engine.interface.values import CreationPart
from engine.system.cancelled import Cancelled

TELL_SECONDS = 0.5
"""Between two parts while the installer does one thing."""

MOST_OUTPUT = 8 * 2**10
"""Bytes of the installer's output in one part."""


def make_environment(
    name: str,
    requirements: Sequence[str],
    default_for: str,
    send: Callable[[CreationPart], None],
    is_cancelled: Callable[[], bool],
) -> Environment:
    """Make an environment; `send` gets the parts, and may raise OSError.

    Raises what `creation.create` raises.
    """
    news = _News(creation.log_file(name), send)
    try:
        return creation.create(
            name,
            requirements,
            default_for=default_for,
            report=news.report,
            is_cancelled=is_cancelled,
        )
    except CreationFailed:
        news.tell()  # the last words of the installer
        raise


class _News:
    """Sends what is new of one creation."""

    def __init__(self, log: Path, send: Callable[[CreationPart], None]) -> None:
        self._log = log
        self._send = send
        self._read = 0
        """Bytes of the log that were sent, or left out."""

        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._stage = self._told = Stage("", 0)
        self._told_at = 0.0

    def report(self, stage: Stage) -> None:
        """Take the stage of now, and send it if it is time to. Raises Cancelled."""
        self._stage = stage
        is_due = time.monotonic() >= self._told_at + TELL_SECONDS
        if stage.doing != self._told.doing or is_due:
            self.tell()

    def tell(self) -> None:
        """Send what is new, if anything is. Raises Cancelled if it does not arrive."""
        output = self._decode(self._new_output())
        self._told_at = time.monotonic()
        if not output and self._stage == self._told:
            return
        self._told = self._stage
        try:
            self._send(CreationPart(self._stage.doing, self._stage.bytes, output))
        except OSError:  # the connection has ended
            raise Cancelled from None

    def _new_output(self) -> bytes:
        try:
            with open_regular(self._log) as file:
                self._read = max(self._read, file.seek(0, 2) - MOST_OUTPUT)
                file.seek(self._read)
                new = file.read(MOST_OUTPUT)
        except OSError:
            return b""
        self._read += len(new)
        return new
