"""Which errors mean that a disk cannot be written."""

from __future__ import annotations

import errno

import pytest

from engine.files.disk_errors import disk_problem


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "No space left on device"),
        (errno.EROFS, "Read-only file system"),
        (errno.EFBIG, "File too large"),
        (errno.EACCES, "Permission denied"),
    ],
)
def test_the_text_of_the_system_is_kept(number: int, said: str) -> None:
    assert disk_problem(OSError(number, "whatever", "/some/file")) == said


def test_other_errors_are_none_of_the_disks() -> None:
    assert disk_problem(FileNotFoundError(errno.ENOENT, "No such file")) == ""
    assert disk_problem(ValueError("no space for improvement")) == ""


def test_a_library_that_wraps_or_rewords_it_is_understood() -> None:
    wrapped = RuntimeError("writing failed")
    wrapped.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert disk_problem(wrapped) == "No space left on device"
    reworded = RuntimeError("state.data: No space left on device; write failed")
    assert disk_problem(reworded) == "No space left on device"
