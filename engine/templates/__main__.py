"""One template: `python -m engine.templates KIND`; its workers leave this module for theirs."""

from __future__ import annotations

import argparse
import gc
import sys

from engine.templates import child
from engine.templates.kinds import KINDS
from engine.templates.server import IDLE_SECONDS, Server


def main(arguments: list[str]) -> int:
    """Serve until the template ends, and return the exit code of the process."""
    gc.disable()  # garbage collection takes a fifth of the time of the imports
    parser = argparse.ArgumentParser(prog="python -m engine.templates")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--low-priority", action="store_true")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parsed = parser.parse_args(arguments)
    kind = KINDS[parsed.kind]
    try:
        server = Server(kind, at_low_priority=parsed.low_priority, idle_seconds=parsed.idle_seconds)
    except BlockingIOError:
        return 0  # another template of this kind listens
    job = server.serve()
    if job is not None:
        child.run(kind, job)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
