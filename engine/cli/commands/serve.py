"""`serve`: what `ssh` starts on another machine, for the Traindeck at which a person sits."""

from __future__ import annotations

from engine.cli.output import Exit, Refused
from engine.remote.server import serve as serve_streams


def serve(nonce: str) -> Exit:
    """Speak on the standard streams until the input ends. Raises Refused."""
    if not nonce.isalnum():
        raise Refused("`serve` is started by another Traindeck, over SSH: see `machines --help`.")
    serve_streams(nonce)
    return Exit.DONE
