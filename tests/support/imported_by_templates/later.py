"""Ends when a worker is waited for, or was: the modules after it are not imported before.

The template is found by its importing thread: a template that has forked has frozen its objects,
which `gc.get_objects` then leaves out.
"""

import threading
import time

_server = threading.current_thread()._target.__self__  # type: ignore[attr-defined]
_deadline = time.monotonic() + 40
while not (_server._waiting or _server._last_fork > 0) and time.monotonic() < _deadline:
    threading.Event().wait(0.005)
