"""Two disks that a test can cut from the power: ext4, and a strict double."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

SOURCE = Path(__file__).with_name("synced_only.c")
LIBRARY = "synced_only.so"
IMAGE_BYTES = 96 * 2**20
MOUNTED_ALIKE_WITHIN = 20.0
"""Seconds within which a disk to which no process writes must have come to rest."""


class NoSuchDisk(Exception):
    """This disk cannot be made here; the text is a sentence."""


class Disk(Protocol):
    """A disk that loses what the system still holds in memory when the power is cut."""

    folder: Path
    """An empty folder on the disk, whose own name is durable."""

    def cut(self, number: int) -> None:
        """Keep what a power cut would leave now. The processes that write to it are halted."""

    def after(self, number: int) -> AbstractContextManager[Path]:
        """The folder as cut `number` has left it; it can be written."""

    def close(self) -> None:
        """Take the disk away."""


class Ext4Disk:
    """An ext4 file system in an image, which is copied while it is mounted.

    What is read from the image is what the file system has sent to its device: the loop device
    writes it to the image without a cache of its own, and data that the system still holds in
    memory is not there. So a copy is the device after a power cut, if it keeps all that it has
    received, and mounting the copy replays the journal as the next start of the machine does. The
    system writes also without a process; a copy counts only if the image has not changed meanwhile.
    A commit of the journal every five seconds would save by luck what was never synced.
    """

    def __init__(self, place: Path) -> None:
        """Make it in the folder `place`. Raises NoSuchDisk."""
        self._place = place
        self._image = place / "disk.img"
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        self.folder = place / "live"
        try:
            _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
            _mount(self._image, self.folder, "commit=300,noauto_da_alloc")
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoSuchDisk(f"an image of ext4 can be mounted by root only: {error}") from error

    def cut(self, number: int) -> None:
        """See Disk."""
        copy = self._copy(number)
        deadline = time.monotonic() + MOUNTED_ALIKE_WITHIN
        while True:
            _run("cp", "--sparse=always", str(self._image), str(copy))
            if filecmp.cmp(self._image, copy, shallow=False):
                return
            assert time.monotonic() < deadline, "the disk does not come to rest"

    @contextlib.contextmanager
    def after(self, number: int) -> Iterator[Path]:
        """See Disk."""
        folder = self._place / f"after-{number}"
        _mount(self._copy(number), folder, "defaults")
        try:
            yield folder
        finally:
            _run("umount", "--lazy", str(folder))

    def close(self) -> None:
        """See Disk."""
        _run("umount", "--lazy", str(self.folder))

    def _copy(self, number: int) -> Path:
        return self._place / f"cut-{number}.img"


class SyncedOnlyDisk:
    """A folder of which a power cut leaves what POSIX promises, and no more.

    The processes that write to it must be started with `environment`: see `synced_only.c`.
    """

    def __init__(self, place: Path) -> None:
        """Make it in the folder `place`. Raises NoSuchDisk."""
        self._place = place
        self.folder = place / "live"
        self._synced = place / "synced"
        for folder in (self.folder, self._synced):
            folder.mkdir()

    @staticmethod
    def environment(place: Path) -> dict[str, str]:
        """Compile the library in `place`; return the variables of processes that write to the disk.

        Raises NoSuchDisk.
        """
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or os.uname().sysname != "Linux":
            raise NoSuchDisk("a library that takes the place of fsync needs Linux and a compiler")
        library = place / LIBRARY
        flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        _run(compiler, *flags, str(SOURCE), "-o", str(library))
        return {
            "LD_PRELOAD": str(library),
            "SYNCED_ONLY": str(place / "synced"),
            "SYNCED_ONLY_ROOT": str(place / "live"),
        }

    def cut(self, number: int) -> None:
        """See Disk."""
        self._rebuild("root", self._after(number))

    @contextlib.contextmanager
    def after(self, number: int) -> Iterator[Path]:
        """See Disk."""
        yield self._after(number)

    def close(self) -> None:
        """See Disk."""

    def _after(self, number: int) -> Path:
        return self._place / f"after-{number}"

    def _rebuild(self, key: str, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        names = self._synced / key
        if not names.exists():
            return  # the folder was never synced: it has no entry
        for line in names.read_text().splitlines():
            kind, inner, name = line.split(" ", 2)
            if kind == "d":
                self._rebuild(inner, folder / name)
            elif kind == "f":
                content = self._synced / inner
                (folder / name).write_bytes(content.read_bytes() if content.exists() else b"")


def _mount(image: Path, folder: Path, options: str) -> None:
    folder.mkdir()
    _run("mount", "-t", "ext4", "-o", f"loop,{options}", str(image), str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
