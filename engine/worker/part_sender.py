"""Sends the checkpoint files of the ranks of one machine to the head, where rank 0 is."""

from __future__ import annotations

import errno
import hashlib
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from engine.files.atomic_file import sync_to_disk
from engine.messages.channel import Channel, CheckpointKept, CheckpointPart, CheckpointSent
from engine.runs.checkpoints import checkpoint_files

_AT_ONCE = 4 * 2**20


class PartSender:
    """The `PartSender` of `engine.training.protocols`, over the channel of this worker."""

    def __init__(self, channel: Channel, *, sends: bool, is_shared: bool = False) -> None:
        """`sends`: this rank is the first one of a machine that is not the head; `is_shared`: the
        head sees its files, and moves them."""
        self._channel = channel
        self._sends = sends
        self._is_shared = is_shared
        self._changed = threading.Condition()
        self._kept: CheckpointKept | None = None
        self._is_gone = False

    def begin(self, run_folder: Path, step: int) -> None:
        """See `engine.training.protocols`."""
        if self._sends:
            checkpoint_files.begin(run_folder, step)

    def send(self, run_folder: Path, step: int, count: Callable[[int], None]) -> None:
        """See `engine.training.protocols`."""
        if not self._sends:
            return
        folder = checkpoint_files.temporary_folder(run_folder, step)
        files: dict[str, tuple[int, str]] = {}
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            name = file.relative_to(folder).as_posix()
            if self._is_shared:
                sync_to_disk(file, count)
                files[name] = file.stat().st_size, ""
            else:
                files[name] = self._send_file(step, name, file, count)
        with self._changed:
            self._kept = None
        self._channel.send(CheckpointSent(step, files))
        with self._changed:
            self._changed.wait_for(lambda: self._kept is not None or self._is_gone)
        if self._kept is None:
            raise EOFError("the head is gone")
        if self._kept.problem:
            raise OSError(self._kept.number or errno.EIO, self._kept.problem)
        shutil.rmtree(folder, ignore_errors=True)

    def kept(self, message: CheckpointKept) -> None:
        """Note the answer of the head; called by the thread that reads."""
        with self._changed:
            self._kept = message
            self._changed.notify_all()

    def orphaned(self) -> None:
        """Note that no answer will come."""
        with self._changed:
            self._is_gone = True
            self._changed.notify_all()

    def _send_file(
        self, step: int, name: str, file: Path, count: Callable[[int], None]
    ) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        with file.open("rb") as opened:
            while True:
                data = opened.read(_AT_ONCE)
                if data or not size:  # also an empty file is one
                    self._channel.send(CheckpointPart(step, name, data))
                if not data:
                    return size, digest.hexdigest()
                digest.update(data)
                size += len(data)
                count(len(data))
