"""`sweep`: many runs of one recipe that differ in some settings."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import NamedTuple

import msgspec
from rich.table import Table

from engine.cli.commands.train import RunOptions, make_spec, send
from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Refused, err, out, print_json
from engine.interface.engine import Engine
from engine.interface.news.sweep_news import SweepsThere
from engine.interface.values import id_of
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.sweeps.proposal import DEFAULT_TRIALS, SweepOptions, parse_settings, propose
from engine.sweeps.ranges import CannotSweep, sweepable
from engine.sweeps.report import SweepReport
from engine.sweeps.study import OVER, TrialResult
from engine.sweeps.sweep import Pruner, Sampler, Sweep, tag_of
from engine.system.program import call


class SweepFlags(NamedTuple):
    """The flags of a sweep, besides those of its runs."""

    sampler: Sampler
    trials: int | None
    """None: the usual number, or the whole grid."""

    parallel: int
    pruner: Pruner
    metric: str
    sampler_seed: int


def sweep(
    engine: Engine,
    action: str,
    number: str,
    recipe: str,
    run: RunOptions,
    flags: SweepFlags,
    *,
    detach: bool,
    json: bool,
) -> Exit:
    """Carry out an action. Raises Refused, UnknownName, CannotStart, OSError."""
    if action in ("show", "stop", "resume") and not number:
        raise Refused(f"Which sweep? `{call('sweep list', engine.machine)}` lists them.")
    match action:
        case "list":
            return show_all(engine, json=json)
        case "show":
            return show(engine, number, json=json)
        case "stop":
            return stop(engine, number)
        case "resume":
            return resume(engine, number, detach=detach, json=json)
    options = SweepOptions(
        sampler=flags.sampler,
        trials=DEFAULT_TRIALS if flags.trials is None else flags.trials,
        whole_grid=flags.trials is None,
        parallel=flags.parallel,
        pruner=flags.pruner,
        metric=flags.metric,
        seed=flags.sampler_seed,
    )
    return start(engine, make_sweep(engine, recipe, run, options), detach=detach, json=json)


def start(engine: Engine, sweep: Sweep, *, detach: bool, json: bool) -> Exit:
    """Start a sweep and follow it. Raises CannotStart, OSError."""
    sweep = msgspec.structs.replace(sweep, base=send(engine, sweep.base))
    with CtrlC() as ctrl_c:
        number = engine.start_sweep(sweep)
        return _follow_to_end(engine, number, ctrl_c, detach=detach, json=json)


def resume(engine: Engine, number: str, *, detach: bool, json: bool) -> Exit:
    """Let a sweep go on whose driver has stopped or died. Raises Refused, OSError."""
    with closing(_reports(engine, number)) as reports:
        next(reports)
    with CtrlC() as ctrl_c:
        engine.resume_sweep(number)
        return _follow_to_end(engine, number, ctrl_c, detach=detach, json=json)


def stop(engine: Engine, number: str) -> Exit:
    """Stop a sweep: its runs save and end. Raises Refused, OSError."""
    with closing(_reports(engine, number)) as reports:
        if next(reports).summary.state != "running":
            raise Refused(f"Sweep {number} is not active.")
        engine.stop_sweep(number)
        for report in reports:
            if report.summary.state != "running":
                break
    goes_on = call(f"sweep resume {number}", engine.machine)
    out().print(f"Sweep {number} is stopped: `{goes_on}` lets it go on.", soft_wrap=True)
    return Exit.DONE


def show(engine: Engine, number: str, *, json: bool) -> Exit:
    """Print the trials of a sweep, the best settings, and what mattered. Raises Refused."""
    with closing(_reports(engine, number)) as reports:
        _print(next(reports), json=json)
    return Exit.DONE


def show_all(engine: Engine, *, json: bool) -> Exit:
    """Print all sweeps, newest first."""
    with closing(_all_reports(engine)) as every:
        rows = [each.summary for each in next(every)]
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


def make_sweep(engine: Engine, recipe_name: str, run: RunOptions, options: SweepOptions) -> Sweep:
    """Return the sweep that the flags describe. Raises Refused, UnknownName, CannotStart."""
    recipe = catalog.recipe(recipe_name)
    try:
        ranges, fixed = parse_settings(run.settings, sweepable(recipe))
        own = {info.name for info in recipe.fields}
        varied = (fixed.keys() | ranges.keys()) - own
        if both := sorted(varied & run.fields.keys()):
            raise Refused(f"{both[0]} is given as a flag and with --set: leave one of them out.")
        fields = {**run.fields, **{name: fixed[name] for name in fixed.keys() - own}}
        base = make_spec(engine, recipe, run._replace(settings=(), fields=fields))
        sweep = propose(base, recipe, ranges, fixed, options)
    except CannotSweep as error:
        raise Refused(str(error)) from error
    return sweep


def _follow_to_end(engine: Engine, number: str, ctrl_c: CtrlC, *, detach: bool, json: bool) -> Exit:
    if detach:
        if json:
            print_json({"sweep": number, "state": "started"})
        else:
            out().print(number)
        shows = call(f"sweep show {number}", engine.machine)
        err().print(f"Sweep {number} has started: `{shows}` shows it.", soft_wrap=True)
        return Exit.DONE
    err().print(
        f"Sweep {number} has started; Ctrl-C stops it. Its runs have the tag {tag_of(number)}.",
        soft_wrap=True,
    )
    report = _follow(engine, number, ctrl_c)
    _print(report, json=json)
    state = report.summary.state
    if state == "finished":
        if report.summary.best:
            return Exit.DONE
        err().print(f"No trial of sweep {number} has a value.")
        return Exit.FAILED
    goes_on = call(f"sweep resume {number}", engine.machine)
    err().print(
        f"Sweep {number} has {state}: `{goes_on}` lets it go on. {report.summary.log} says more.",
        soft_wrap=True,
    )
    return Exit.FAILED


def _follow(engine: Engine, number: str, ctrl_c: CtrlC) -> SweepReport:
    """Print a line for each trial that ends, until the driver has ended. Raises Refused."""
    told, was_asked = set[int](), False
    with closing(_reports(engine, number)) as reports:
        for report in reports:
            for trial in report.trials:
                if trial.state in OVER and trial.number not in told:
                    told.add(trial.number)
                    err().print(_line(trial), soft_wrap=True)
            if report.summary.state != "running":
                return report
            if ctrl_c.count and not was_asked:
                was_asked = True
                engine.stop_sweep(number)
                err().print("Stops: the runs save first.")
    raise AssertionError("the sweeps of a machine are told without end")


def _reports(engine: Engine, number: str) -> Generator[SweepReport]:
    """Yield a sweep about every second. Raises Refused if there is none, or it is damaged."""
    name = id_of(engine.machine, number)
    with closing(_all_reports(engine)) as every:
        for reports in every:
            found = {report.summary.sweep: report for report in reports}
            if name not in found:
                known = ", ".join(found) or "none"
                raise Refused(f"There is no sweep {number}; there are: {known}.")
            if problem := found[name].summary.problem:
                raise Refused(problem)
            yield found[name]


def _all_reports(engine: Engine) -> Generator[list[SweepReport]]:
    """Yield all sweeps, newest first, about every second."""
    there, reports = SweepsThere(), list[SweepReport]()
    with closing(engine.watch_sweeps()) as watch:
        for news in watch:
            if news is not None:
                reports = there.take(news, engine.machine)
            if there.has_all:
                yield reports


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
