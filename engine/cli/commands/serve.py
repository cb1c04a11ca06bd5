"""`serve`: what `ssh` starts on another machine, for the Traindeck at which a person sits."""

from __future__ import annotations

import signal

from engine.cli.output import Exit, Refused
from engine.processes.process import END_SIGNALS
from engine.remote.server import serve as serve_streams


def serve(nonce: str) -> Exit:
    """Speak on the standard streams until the input ends. Raises Refused."""
    if not nonce.isalnum():
        raise Refused("`serve` is started by another Traindeck, over SSH: see `machines --help`.")
    for number in END_SIGNALS:
        signal.signal(number, _end)  # what was begun is cleaned up, as when the input ends
    serve_streams(nonce)
    return Exit.DONE


def _end(*_: object) -> None:
    raise EOFError("a signal")
