"""`diverge`: says where two runs begin to differ."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.status import Status

from engine.cli.follow import CtrlC
from engine.cli.measuring import measure
from engine.cli.output import Exit, empty_table, err, out, print_json
from engine.interface.engine import Engine
from engine.planning.requests import AskDivergence
from engine.planning.results import Divergence, Doing, News


def diverge(engine: Engine, run_ids: Sequence[str], *, json: bool) -> Exit:
    """Find the first step, and the first layer in it, at which two runs differ; Ctrl-C ends it.

    The exit code says whether they differ beyond rounding. Raises Refused, Interrupted, Unanswered.
    """
    first, second = run_ids
    with CtrlC() as ctrl_c, Status("", console=err()) as status:

        def show(news: News) -> None:
            if isinstance(news, Doing):
                status.update(news.text)

        found, _ = measure(engine, AskDivergence(first, second), Divergence, show, ctrl_c)
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        _print(found)
    return Exit.FAILED if found.step else Exit.DONE


def _print(found: Divergence) -> None:
    out().print(found.answer, soft_wrap=True)
    for text in (found.curves, *found.notes):
        out().print(text, soft_wrap=True)
    if found.settings:
        table = empty_table("setting", f"run {found.first}", f"run {found.second}")
        for each in found.settings:
            table.add_row(each.title, each.first, each.second)
        out().print(table)
    for line in found.recipe:
        out().print(line, soft_wrap=True)
