"""Puts the checkpoint files that come from another machine beside those of this one."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
from pathlib import Path
from typing import IO, Any

from engine.files.disk_errors import short_reason
from engine.interface.sent_code import is_plain
from engine.messages.channel import CheckpointKept, CheckpointPart, CheckpointSent
from engine.runs.checkpoints import checkpoint_files

_log = logging.getLogger(__name__)


class PartKeeper:
    """The files of one machine; one thread uses it. What goes wrong is told at the end."""

    def __init__(self, run_folder: Path, parts: Path | None = None) -> None:
        """`parts`: where the machine writes its files, in a folder that both share; None: it sends
        them."""
        self._run_folder = run_folder
        self._parts = parts
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
        if self._parts:
            return self._take(sent, self._parts)
        problem = self._problem if sent.step == self._step else ""
        written = {
            name: (size, digest.hexdigest()) for name, (size, digest) in self._written.items()
        }
        if not problem and sent.files and (sent.step != self._step or written != sent.files):
            problem = "not all of it arrived"
        self._step, self._problem = -1, ""
        self._written.clear()
        return CheckpointKept(sent.step, problem, self._number if problem else 0)

    def _take(self, sent: CheckpointSent, parts: Path) -> CheckpointKept:
        """Move the files from where the machine has written them, in the same file system."""
        source = parts / checkpoint_files.temporary_folder(self._run_folder, sent.step).name
        try:
            for name, (size, _) in sent.files.items():
                file, target = source / name, self._target(sent.step, name)
                if os.path.lexists(target):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                if file.lstat().st_size != size:
                    return CheckpointKept(sent.step, f"not all of {name} arrived", 0)
                file.rename(target)
        except OSError as error:
            _log.info("the part of a checkpoint cannot be moved: %s", error)
            return CheckpointKept(sent.step, short_reason(error), error.errno or 0)
        return CheckpointKept(sent.step, "", 0)

    def _target(self, step: int, name: str) -> Path:
        """Return where a file belongs; its folder exists then. Raises OSError."""
        if not is_plain(name):
            raise OSError(f"{name!r} is no name of a file of a checkpoint")
        file = checkpoint_files.temporary_folder(self._run_folder, step) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _write(self, part: CheckpointPart) -> None:
        file = self._target(part.step, part.name)
        is_new = part.name not in self._written
        opened: IO[bytes]
        # Two machines never write one file: each rank has files of its own.
        with file.open("xb" if is_new else "ab") as opened:
            opened.write(part.data)
        size, digest = self._written.get(part.name, (0, hashlib.sha256()))
        digest.update(part.data)
        self._written[part.name] = size + len(part.data), digest
