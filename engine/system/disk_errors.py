"""How to tell that a disk takes nothing more, whichever library says so."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)
_TEXTS = [os.strerror(number) for number in _NUMBERS]
"""safetensors, TensorFlow and torch.distributed put these into errors of their own."""


def disk_problem(error: BaseException) -> str:
    """What the disk has said, such as `No space left on device`; empty: it is not to blame."""
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.errno in _NUMBERS:
            return os.strerror(cause.errno)
    said = str(error)
    return next((text for text in _TEXTS if text in said), "")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that led to it."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
