"""Its import makes each fork fail, as a limit of processes does."""

import errno
import os


def _refuse() -> int:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


os.fork = _refuse
