"""The telemetry helper: a separate process that prints one snapshot per line, as JSON.

If the driver crashes or never answers, only this process is affected.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # garbage collection takes a tenth of the time of the imports

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator

import msgspec

from engine.system import logs
from engine.telemetry.helper.requests import Requests
from engine.telemetry.helper.sampler import Sampler
from engine.telemetry.snapshot import KnownGpu

_log = logging.getLogger("engine.telemetry.helper")


def main() -> None:
    """Print snapshots until standard input or standard output is closed."""
    parser = argparse.ArgumentParser(prog="python -m engine.telemetry.helper", description=__doc__)
    parser.add_argument("--once", action="store_true", help="print one snapshot and end")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between snapshots")
    parser.add_argument("--known", default="[]", help="JSON: the GPUs that were found before")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the helper without a traceback
    if options.once:
        _print(Sampler().sample())
    else:
        known = msgspec.json.decode(options.known, type=tuple[KnownGpu, ...])
        _print_until_closed(options.interval, known)


def _print_until_closed(interval: float, known: Iterable[KnownGpu]) -> None:
    logs.start("telemetry")
    _log.info("telemetry helper starts, a snapshot every %g s", interval)
    requests = Requests()
    threading.Thread(target=_follow_input, args=[requests], daemon=True).start()
    sampler = Sampler(known)
    note = None
    while True:
        begin = time.monotonic()
        snapshot = sampler.sample(requests.detail)
        if snapshot.gpu_note != note:
            note = snapshot.gpu_note
            _log.info("%d devices; %s", len(snapshot.devices), note or "all GPUs answer")
        _print(snapshot)
        requests.wait(begin, interval)


def _print(snapshot: msgspec.Struct) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(snapshot) + b"\n")
        sys.stdout.buffer.flush()
    except OSError:
        _leave()


def _follow_input(requests: Requests) -> None:
    requests.follow(_lines_of_input())
    _leave()


def _lines_of_input() -> Iterator[bytes]:
    """Yield lines of input without Python's buffer, whose lock is held during a read."""
    rest = b""
    while chunk := os.read(sys.stdin.fileno(), 4096):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _leave() -> None:
    """Exit at once: the sampling thread may be blocked in the driver."""
    _log.info("telemetry helper ends: its parent has closed the pipe")
    os._exit(0)


if __name__ == "__main__":
    gc.freeze()  # what is imported lives to the end
    gc.enable()
    main()
