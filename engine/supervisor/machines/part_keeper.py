"""Writes the checkpoint files that come from another machine beside those of this one."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import IO, Any

from engine.files.disk_errors import short_reason
from engine.messages.channel import CheckpointKept, CheckpointPart, CheckpointSent
from engine.remote.sent_code import is_plain
from engine.runs import checkpoint_files

_log = logging.getLogger(__name__)


class PartKeeper:
    """The files of one machine; one thread uses it. What goes wrong is told at the end."""

    def __init__(self, run_folder: Path) -> None:
        self._run_folder = run_folder
        self._written: dict[str, tuple[int, Any]] = {}
        self._step = -1
        self._problem = ""
        self._number = 0

    def add(self, part: CheckpointPart) -> None:
        """Write the next bytes of a file."""
        if part.step != self._step:
            self._step, self._problem = part.step, ""
            self._written.clear()
        if self._problem:
            return
        try:
            self._write(part)
        except OSError as error:
            _log.info("the part of a checkpoint cannot be kept: %s", error)
            self._problem, self._number = short_reason(error), error.errno or 0

    def end(self, sent: CheckpointSent) -> CheckpointKept:
        """Compare what was written with what was sent."""
        problem = self._problem if sent.step == self._step else ""
        written = {
            name: (size, digest.hexdigest()) for name, (size, digest) in self._written.items()
        }
        if not problem and sent.files and (sent.step != self._step or written != sent.files):
            problem = "not all of it arrived"
        self._step, self._problem = -1, ""
        self._written.clear()
        return CheckpointKept(sent.step, problem, self._number if problem else 0)

    def _write(self, part: CheckpointPart) -> None:
        if not is_plain(part.name):
            raise OSError(f"{part.name!r} is no name of a file of a checkpoint")
        folder = checkpoint_files.temporary_folder(self._run_folder, part.step)
        file = folder / part.name
        is_new = part.name not in self._written
        file.parent.mkdir(parents=True, exist_ok=True)
        opened: IO[bytes]
        # Two machines never write one file: each rank has files of its own.
        with file.open("xb" if is_new else "ab") as opened:
            opened.write(part.data)
        size, digest = self._written.get(part.name, (0, hashlib.sha256()))
        digest.update(part.data)
        self._written[part.name] = size + len(part.data), digest
