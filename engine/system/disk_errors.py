"""Recognises the errors of a disk that cannot be written, from any library."""

from __future__ import annotations

import errno
import os

_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)
_MESSAGES = [os.strerror(number) for number in _ERRNOS]
"""safetensors, TensorFlow and torch.distributed put these messages into their own exceptions."""


def disk_problem(error: BaseException) -> str:
    """Return the system's message, such as `No space left on device`; empty for other errors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _ERRNOS:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return next((message for message in _MESSAGES if message in str(error)), "")
