"""`replay`: trains a step of a run again, and says whether it is the same."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from rich.status import Status

from engine.cli.follow import CtrlC
from engine.cli.measuring import measure
from engine.cli.output import Exit, Refused, empty_table, err, out, print_json
from engine.interface.engine import Engine
from engine.messages.merged_metrics import LARGEST_STEP
from engine.planning.requests import AskReplay
from engine.planning.results import Doing, Inspection, News, Replay
from engine.system.program import call
from engine.training.probes.step_inspection import Inputs

AUTO = "auto"
"""In place of a step: the one that looks wrong."""

_SAMPLES = 5
"""Samples that the table shows, those with the largest loss."""


def replay(engine: Engine, run_id: str, step: str, *, keeps_checkpoint: bool, json: bool) -> Exit:
    """Train a step of a run again, and compare every value; Ctrl-C ends it.

    The exit code says whether all steps are equal. Raises Refused, Interrupted, Unanswered.
    """
    wanted = _step(step)
    with CtrlC() as ctrl_c, Status("", console=err()) as status:

        def show(news: News) -> None:
            if isinstance(news, Doing):
                status.update(news.text)

        found, _ = measure(
            engine, AskReplay(run_id, wanted, keeps_checkpoint), Replay, show, ctrl_c
        )
    if json:
        print_json(_in_words(msgspec.to_builtins(found)))
    else:
        origin = f"checkpoint {found.checkpoint}" if found.checkpoint else "the beginning"
        out().print(
            f"Step {found.step:,} of run {run_id}, from {origin}: {found.sentence}", soft_wrap=True
        )
        for reason in found.reasons:
            out().print(reason, soft_wrap=True)
        if found.inspection:
            _print(found.inspection)
        if found.kept:
            again = call(f"resume {run_id} --checkpoint {found.kept} --as-new-run")
            text = f"The run has the checkpoint {found.kept} now: `{again}` goes on from there."
            out().print(text, soft_wrap=True)
    return Exit.FAILED if found.difference else Exit.DONE


def _print(inspection: Inspection) -> None:
    """Print what made the step: the answer, and the samples that stand first."""
    out().print(inspection.answer, soft_wrap=True)
    table = empty_table("sample", "target", "loss", "gradient norm", "inputs")
    for sample in inspection.samples[:_SAMPLES]:
        table.add_row(
            sample.name,
            sample.target,
            _figure(sample.loss),
            _figure(sample.gradient_norm),
            _extremes(sample.inputs),
        )
    if inspection.samples:
        out().print(table)
    for note in inspection.notes:
        out().print(note, soft_wrap=True)


def _extremes(inputs: Inputs) -> str:
    if inputs.not_finite:
        return f"{inputs.not_finite:,} not finite"
    has_numbers = inputs.smallest <= inputs.largest
    return f"{inputs.smallest:.4g} to {inputs.largest:.4g}" if has_numbers else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _step(text: str) -> int:
    if text == AUTO:
        return 0
    if text.isascii() and text.isdecimal() and 0 < int(text) <= LARGEST_STEP:
        return int(text)
    raise Refused(f"--step {text}: a step is a number from 1, or `{AUTO}`.")


def _in_words(value: Any) -> Any:
    """Return `value` with NaN and infinities as texts: null is what is not known."""
    match value:
        case dict():
            return {key: _in_words(each) for key, each in value.items()}
        case list() | tuple():
            return [_in_words(each) for each in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value
