"""The telemetry helper: a process of its own that prints one snapshot a line, as JSON.

It stands between a driver that may crash or never answer and everybody who wants to know.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time

import msgspec

from engine.telemetry.sampler import Sampler


def main() -> None:
    """Print snapshots until standard input ends or nobody reads them any more."""
    parser = argparse.ArgumentParser(prog="python -m engine.telemetry", description=__doc__)
    parser.add_argument("--once", action="store_true", help="print one snapshot and end")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between snapshots")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    if not options.once:
        threading.Thread(target=_leave_at_end_of_input, daemon=True).start()
    sampler = Sampler()
    while True:
        begin = time.monotonic()
        _print(msgspec.json.encode(sampler.sample()) + b"\n")
        if options.once:
            return
        time.sleep(max(0.0, options.interval - (time.monotonic() - begin)))


def _print(line: bytes) -> None:
    try:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except OSError:
        _leave()


def _leave_at_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    _leave()


def _leave() -> None:
    """Nobody listens any more: go at once, the sampling thread may be stuck in the driver."""
    os._exit(0)


if __name__ == "__main__":
    main()
