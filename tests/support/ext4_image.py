"""A file system of its own in a file, which a test freezes or makes read-only."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOLS = ("mkfs.ext4", "mount", "umount", "fsfreeze")


def mount_image(image: Path, folder: Path, mebibytes: int = 256, errors: str = "continue") -> str:
    """Mount a new ext4 file system in the file `image` on the new `folder`.

    `errors` is that option of the mount. Return why that is not possible; empty if it is done.
    """
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"there is no {', no '.join(missing)}"
    with image.open("wb") as file:
        file.truncate(mebibytes * 2**20)
    folder.mkdir()
    for command in (
        ["mkfs.ext4", "-q", "-F", str(image)],
        ["mount", "-o", f"loop,errors={errors}", str(image), str(folder)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{command[0]} is refused: {done.stderr.strip()}"
    folder.chmod(0o700)
    return ""


def freeze(folder: Path) -> None:
    """Let every write to the file system wait."""
    subprocess.run(["fsfreeze", "--freeze", str(folder)], check=True)


def thaw(folder: Path) -> None:
    """Let the writes go on; no error if the file system is not frozen."""
    subprocess.run(["fsfreeze", "--unfreeze", str(folder)], capture_output=True, check=False)


def unmount(folder: Path) -> None:
    """Thaw and unmount it, once no process uses it any more."""
    thaw(folder)
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


@contextlib.contextmanager
def ext4_image(folder: Path) -> Iterator[None]:
    """Mount an image on the new `folder`; skip the test where that is not possible."""
    try:
        if refusal := mount_image(folder.with_suffix(".img"), folder):
            pytest.skip(f"a disk of its own can be mounted by root only: {refusal}")
        yield
    finally:
        unmount(folder)
