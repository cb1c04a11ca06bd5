"""Recognises the errors of a disk that cannot be written, from any library."""

from __future__ import annotations

import errno
import os


def _numbers(*names: str) -> list[int]:
    return [getattr(errno, name) for name in names if hasattr(errno, name)]  # Windows lacks some


_OF_FILES = _numbers("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "EACCES", "EPERM", "ESTALE")
_ERRNOS = _OF_FILES + _numbers("ENOTCONN", "ENODEV", "ENXIO", "ETIMEDOUT", "EHOSTDOWN")
"""The last ones come from a file server or a FUSE process that is gone, but also from sockets."""

_MESSAGES = [os.strerror(number) for number in _OF_FILES]
"""safetensors, TensorFlow and torch.distributed put these messages into their own exceptions."""


def short_reason(error: OSError) -> str:
    """Return the system's message as a clause, such as `stale file handle`."""
    return (error.strerror or str(error)).lower()


def disk_problem(error: BaseException) -> str:
    """Return the system's message, such as `No space left on device`; empty for other errors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _ERRNOS:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return next((message for message in _MESSAGES if message in str(error)), "")
