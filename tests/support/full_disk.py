"""A small disk, which a test fills."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Put the new `folder` on its own disk of `size`, such as `64m`; skip if that is forbidden."""
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False) if mount else None
    if done is None or done.returncode:
        pytest.skip(
            "a disk of its own can be mounted by root only; see test_buffered_store for a limit"
        )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path) -> None:
    """Write to `file` until its disk is full."""
    size = 2**20
    with file.open("ab", buffering=0) as filler:
        while size:
            try:
                filler.write(bytes(size))
            except OSError:
                size //= 2
