"""One template: `python -m engine.templates KIND`; its workers leave this module for theirs."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import sys
import traceback
from collections.abc import Mapping

from setproctitle import setproctitle

from engine.processes.process import leave
from engine.templates import child
from engine.templates.kinds import KINDS, TemplateKind
from engine.templates.server import IDLE_SECONDS, Server


def main(arguments: list[str], kinds: Mapping[str, TemplateKind] = KINDS) -> int:
    """Serve until the template ends, and return the exit code of the process.

    It is the number of the error if the template cannot listen.
    """
    gc.disable()  # garbage collection takes a fifth of the time of the imports
    parser = argparse.ArgumentParser(prog="python -m engine.templates")
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parsed = parser.parse_args(arguments)
    kind = kinds[parsed.kind]
    # Before the imports: it moves the environment, to which libraries keep pointers.
    setproctitle(f"traindeck template {kind.name}")
    try:
        server = Server(kind, idle_seconds=parsed.idle_seconds)
    except BlockingIOError:
        return 0  # another template of this kind listens
    except OSError as error:
        with contextlib.suppress(OSError):  # the disk of the log may be full
            traceback.print_exc()
        return error.errno or errno.EIO
    job = server.serve()
    if job is not None:
        child.run(kind, job)
    return 0


def run(kinds: Mapping[str, TemplateKind] = KINDS) -> None:
    """Run `main`, and end at once: imports may have left threads."""
    code = 1
    try:
        code = main(sys.argv[1:], kinds)
    except Exception:
        traceback.print_exc()
    leave(code)


if __name__ == "__main__":
    run()
