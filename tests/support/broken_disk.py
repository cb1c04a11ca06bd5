"""An ext4 file system of its own, in which a test causes real faults of a disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
"""EXT4_IOC_SHUTDOWN and its argument, of <fs/ext4/ext4.h>."""


class BrokenDisk:
    """A mounted image of a disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def become_read_only(self) -> None:
        """Let the kernel find an error in the file system, which is mounted for that case with
        `errors=remount-ro`."""
        device = self.folder.stat().st_dev
        name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
        assert name.startswith("loop"), f"{name} is a disk of this machine"
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("1")

    def fail(self) -> None:
        """Let every access end with EIO, as if the disk were gone."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def ext4_disk(folder: Path, image: Path, megabytes: int = 96) -> Iterator[BrokenDisk]:
    """Mount a new file system in the new `folder`; skip the test where that is forbidden."""
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(megabytes * 2**20)
    programs = {name: shutil.which(name) or name for name in ("mkfs.ext4", "mount", "umount")}
    try:
        _call(programs["mkfs.ext4"], "-q", "-F", str(image))
        _call(programs["mount"], "-o", "loop,errors=remount-ro", str(image), str(folder))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a disk of its own, with mkfs.ext4 and a loop device")
    try:
        yield BrokenDisk(folder)
    finally:
        _call(programs["umount"], "--lazy", str(folder))
        image.unlink()


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
