"""`warm`: the switch for frameworks that stay loaded, from which workers are forked."""

from __future__ import annotations

from engine.cli.output import Exit, Unanswered, out, print_json
from engine.files.disk_errors import short_reason
from engine.interface import values
from engine.interface.engine import Engine

ON = "Frameworks stay loaded: after the first run, the next ones start at once."
OFF = "Frameworks do not stay loaded: each worker loads its own."


def switch(engine: Engine, choice: str | None, *, json: bool) -> Exit:
    """Switch it `on` or `off`, if `choice` says so, and print what holds now.

    Raises Unanswered if that cannot be stored.
    """
    try:
        is_on = engine.keep_templates(None if choice is None else choice == "on")
    except values.NoAnswer:
        raise
    except OSError as error:
        raise Unanswered(f"This could not be stored: {short_reason(error)}.") from error
    if json:
        print_json({"is_on": is_on})
    else:
        out().print(ON if is_on else OFF, soft_wrap=True)
    return Exit.DONE
