"""`preflight`: a few real steps and measurements before a run, and what to change for it."""

from __future__ import annotations

import msgspec
from rich.status import Status

from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.findings_output import print_finding
from engine.cli.follow import CtrlC
from engine.cli.measuring import measure
from engine.cli.output import Exit, err, out, print_json
from engine.interface.engine import Engine
from engine.planning.requests import AskPreflight
from engine.planning.results import Doing, Found, News, Preflight
from engine.spec import catalog

_COUNTED = {"error": "problem", "warning": "warning", "hint": "hint"}


def preflight(
    engine: Engine, recipe: str, options: RunOptions, *, seconds: float, json: bool
) -> Exit:
    """Measure what a run would meet, and print each finding as it comes; Ctrl-C ends it.

    The exit code says whether there is an error. Raises CannotStart, UnknownName, Refused.
    """
    spec = make_spec(engine, catalog.recipe(recipe), options)
    with CtrlC() as ctrl_c:
        with Status("", console=err()) as status:

            def show(news: News) -> None:
                match news:
                    case Doing(text, done, of):
                        status.update(f"{text} ({done} of at most {of} s)")
                    case Found(finding) if not json:
                        print_finding(finding)
                    case _:
                        pass

            request = AskPreflight(spec, seconds)
            found, number = measure(engine, request, Preflight, show, ctrl_c)
        if json:
            print_json(msgspec.to_builtins(found) | {"planned": number})
        else:
            out().print(summary(found, number), soft_wrap=True)
    has_error = any(finding.level == "error" for finding in found.findings)
    return Exit.FAILED if has_error else Exit.DONE


def summary(found: Preflight, number: int) -> str:
    """Return how many findings there are, how long it took, and as which number it is kept."""
    levels: list[str] = [finding.level for finding in found.findings]
    counts = {name: levels.count(level) for level, name in _COUNTED.items()}
    parts = [f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items()]
    text = f"{', '.join(parts)}; it took {found.seconds:.1f} s."
    return f"{text} `train --planned {number}` keeps this with a run." if number else text
