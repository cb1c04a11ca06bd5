"""`sweep`: many runs of one recipe that differ in some settings."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from engine import client
from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Refused, err, out, print_json
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.sweeps import sweep as sweeps
from engine.sweeps.proposal import SweepOptions, first_problems, parse_settings, propose
from engine.sweeps.ranges import CannotSweep, sweepable
from engine.sweeps.report import SweepIndex, SweepReader, SweepReport
from engine.sweeps.study import OVER, TrialResult
from engine.sweeps.sweep import LOG, NoSuchSweep, Sweep, SweepActive
from engine.system.program import call

LOOK_SECONDS = 0.5


def start(recipe: str, run: RunOptions, options: SweepOptions, *, detach: bool, json: bool) -> Exit:
    """Start a sweep and follow it. Raises Refused, UnknownName, CannotStart, OSError."""
    sweep = make_sweep(recipe, run, options)
    folder = sweeps.create(sweep)
    return _drive(folder, detach=detach, json=json)


def resume(number: str, *, detach: bool, json: bool) -> Exit:
    """Let a sweep go on whose driver has stopped or died. Raises Refused, OSError."""
    try:
        folder = _folder(number)
        _readable(SweepReader(folder))
        return _drive(folder, detach=detach, json=json)
    except SweepActive as error:
        raise Refused(str(error)) from error


def stop(number: str) -> Exit:
    """Stop a sweep: its runs save and end. Raises Refused, OSError."""
    folder = _folder(number)
    if not sweeps.is_active(folder):
        raise Refused(f"Sweep {number} is not active.")
    sweeps.ask_to_stop(folder)
    while sweeps.is_active(folder):
        threading.Event().wait(LOOK_SECONDS)
    out().print(
        f"Sweep {number} is stopped: `{call(f'sweep resume {number}')}` lets it go on.",
        soft_wrap=True,
    )
    return Exit.DONE


def show(number: str, *, json: bool) -> Exit:
    """Print the trials of a sweep, the best settings, and what mattered. Raises Refused."""
    _print(_readable(SweepReader(_folder(number))), json=json)
    return Exit.DONE


def show_all(*, json: bool) -> Exit:
    """Print all sweeps, newest first."""
    rows = [each.summary for each in SweepIndex().read()]
    if json:
        print_json([msgspec.to_builtins(each) for each in rows])
        return Exit.DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("sweep", "state", "recipe", "trials", "best"):
        table.add_column(column, overflow="fold")
    for row in rows:
        best = "–" if row.best is None else f"{row.best.value:.6g}"
        done = f"{row.done} of {row.trials}" if row.trials else "–"
        table.add_row(row.sweep, row.state, row.recipe or "–", done, best)
    out().print(table)
    for row in rows:
        if row.problem:
            err().print(row.problem, soft_wrap=True)
        if row.reason:
            err().print(f"Sweep {row.sweep}: {row.reason}", soft_wrap=True)
    return Exit.DONE


def make_sweep(recipe_name: str, run: RunOptions, options: SweepOptions) -> Sweep:
    """Return the sweep that the flags describe. Raises Refused, UnknownName, CannotStart."""
    recipe = catalog.recipe(recipe_name)
    try:
        ranges, fixed = parse_settings(run.settings, sweepable(recipe))
        own = {info.name for info in recipe.fields}
        varied = (fixed.keys() | ranges.keys()) - own
        if both := sorted(varied & run.fields.keys()):
            raise Refused(f"{both[0]} is given as a flag and with --set: leave one of them out.")
        fields = {**run.fields, **{name: fixed[name] for name in fixed.keys() - own}}
        base = make_spec(recipe, run._replace(settings=(), fields=fields))
        sweep = propose(base, recipe, ranges, fixed, options)
    except CannotSweep as error:
        raise Refused(str(error)) from error
    if found := first_problems(sweep):
        raise client.CannotStart(found)
    return sweep


def _folder(number: str) -> Path:
    try:
        return sweeps.folder_of(number)
    except NoSuchSweep as error:
        raise Refused(str(error)) from error


def _drive(folder: Path, *, detach: bool, json: bool) -> Exit:
    number = folder.name
    with CtrlC() as ctrl_c:
        sweeps.drive(folder)
        if detach:
            if json:
                print_json({"sweep": number, "state": "started"})
            else:
                out().print(number)
            err().print(
                f"Sweep {number} has started: `{call(f'sweep show {number}')}` shows it.",
                soft_wrap=True,
            )
            return Exit.DONE
        err().print(
            f"Sweep {number} has started; Ctrl-C stops it. Its runs have the tag "
            f"{sweeps.tag_of(folder)}.",
            soft_wrap=True,
        )
        report = _follow(folder, ctrl_c)
    _print(report, json=json)
    state = report.summary.state
    if state == "finished":
        if report.summary.best:
            return Exit.DONE
        err().print(f"No trial of sweep {number} has a value.")
        return Exit.FAILED
    err().print(
        f"Sweep {number} has {state}: `{call(f'sweep resume {number}')}` lets it go on. "
        f"{folder / LOG} says more.",
        soft_wrap=True,
    )
    return Exit.FAILED


def _follow(folder: Path, ctrl_c: CtrlC) -> SweepReport:
    """Print a line for each trial that ends, until the driver has ended. Raises Refused."""
    reader, told = SweepReader(folder), set[int]()
    pause, was_asked = threading.Event(), False
    while True:
        report = _readable(reader)
        for trial in report.trials:
            if trial.state in OVER and trial.number not in told:
                told.add(trial.number)
                err().print(_line(trial), soft_wrap=True)
        if report.summary.state != "running":
            return report
        if ctrl_c.count and not was_asked:
            was_asked = True
            sweeps.ask_to_stop(folder)
            err().print("Stops: the runs save first.")
        pause.wait(LOOK_SECONDS)


def _readable(reader: SweepReader) -> SweepReport:
    """Read a sweep. Raises Refused if it is damaged."""
    report = reader.read()
    if problem := report.summary.problem:
        raise Refused(problem)
    return report


def _print(report: SweepReport, *, json: bool) -> None:
    trials, best, sweep = report.trials, report.summary.best, report.sweep
    if json:
        print_json(
            {
                **msgspec.to_builtins(report.summary),
                "trials": [msgspec.to_builtins(each) for each in trials],
                "importance": report.importance,
            }
        )
        return
    out().print(_table(trials, tuple(sweep.ranges) if sweep else ()))
    if best:
        words = " ".join(f"{name}={_text(value)}" for name, value in best.settings.items())
        out().print(f"best: {best.value:.6g} in run {best.run}: {words}", soft_wrap=True)
    if report.importance:
        shares = report.importance.items()
        parts = ", ".join(f"{name} {100 * each:.0f} %" for name, each in shares)
        out().print(f"what mattered: {parts}", soft_wrap=True)
    if reason := report.summary.reason:
        out().print(f"{report.summary.state}: {reason}", soft_wrap=True)


def _table(trials: Sequence[TrialResult], names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("trial", "run", "state", *names, "value"):
        table.add_column(column, overflow="fold")
    for each in trials:
        value = "–" if each.value is None else f"{each.value:.6g}"
        table.add_row(
            str(each.number),
            each.run or "–",
            each.state,
            *(_text(each.settings.get(name, "–")) for name in names),
            value,
        )
    return table


def _line(trial: TrialResult) -> str:
    words = " ".join(f"{name}={_text(value)}" for name, value in trial.settings.items())
    value = "" if trial.value is None else f"  {trial.value:.6g}"
    reason = f"  {trial.reason}" if trial.reason else ""
    return f"trial {trial.number}  {trial.state}{value}  {words}{reason}"


def _text(value: Setting) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
