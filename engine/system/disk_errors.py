"""Recognises a disk that cannot be written, whichever library reports it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)
_TEXTS = [os.strerror(number) for number in _NUMBERS]
"""safetensors, TensorFlow and torch.distributed put these texts into errors of their own."""


def disk_problem(error: BaseException) -> str:
    """Return the system's reason, such as `No space left on device`; empty for any other error."""
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.errno in _NUMBERS:
            return os.strerror(cause.errno)
    message = str(error)
    return next((text for text in _TEXTS if text in message), "")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and those that led to it."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
