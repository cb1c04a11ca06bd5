"""Runs a program that must not outlive the one that started it: `with_parent.py PROGRAM ARGUMENTS`.

Its standard input is a pipe that the starter holds open. When it closes, as the starter was
killed, the whole process group is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def _watch() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main(words: list[str]) -> int:
    """Return the exit code of the program `words`."""
    # The program gets the signals of the group too: it decides when it ends.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    try:
        # It inherits the lock of the folder that it works in.
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, close_fds=False)
    except OSError as error:
        sys.stderr.write(f"ERROR: {words[0]} cannot be started: {error.strerror or error}\n")
        return 127
    threading.Thread(target=_watch, daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(exit_code)
