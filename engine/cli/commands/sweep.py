"""`sweep`: many runs of one recipe that differ in some settings."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.table import Table

from engine import client
from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Refused, err, out, print_json
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.metric_direction import long_name, lower_is_better, split_direction
from engine.sweeps import study as studies
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import Choices, Range, UnusableRange, grid_size, parse_setting, sweepable
from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import LOG, NoSuchSweep, Sweep, SweepActive
from engine.system.program import call

LOOK_SECONDS = 0.5
DEFAULT_TRIALS = 20


class SweepOptions(NamedTuple):
    """The flags of a new sweep."""

    trials: int | None
    sampler: sweeps.Sampler
    pruner: sweeps.Pruner
    metric: str
    parallel: int
    sweep_seed: int


def start(recipe: str, run: RunOptions, options: SweepOptions, *, detach: bool, json: bool) -> Exit:
    """Start a sweep and follow it. Raises Refused, UnknownName, CannotStart, OSError."""
    sweep = make_sweep(recipe, run, options)
    folder = sweeps.create(sweep)
    return _drive(folder, detach=detach, json=json)


def resume(number: str, *, detach: bool, json: bool) -> Exit:
    """Let a sweep go on whose driver has stopped or died. Raises Refused, OSError."""
    try:
        return _drive(_folder(number), detach=detach, json=json)
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
    folder = _folder(number)
    _print(folder, json=json)
    return Exit.DONE


def show_all(*, json: bool) -> Exit:
    """Print all sweeps, newest first."""
    rows = [_summary(sweeps.folder_of(number)) for number in sweeps.numbers()]
    if json:
        print_json(rows)
        return Exit.DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("sweep", "state", "recipe", "trials", "best"):
        table.add_column(column, overflow="fold")
    for row in rows:
        best = "–" if row["best"] is None else f"{row['best']['value']:.6g}"
        done = f"{row['done']} of {row['trials']}"
        table.add_row(row["sweep"], row["state"], row["recipe"], done, best)
    out().print(table)
    return Exit.DONE


def make_sweep(recipe_name: str, run: RunOptions, options: SweepOptions) -> Sweep:
    """Return the sweep that the flags describe. Raises Refused, UnknownName, CannotStart."""
    recipe = catalog.recipe(recipe_name)
    known = sweepable(recipe)
    own = {info.name for info in recipe.fields}
    ranges: dict[str, Range] = {}
    fixed: dict[str, Setting] = {}
    try:
        for text in run.settings:
            name, value = parse_setting(text, known)
            if name in ranges or name in fixed:
                raise Refused(f"{name} is set twice: name its values once, with commas between.")
            if isinstance(value, Choices) or not isinstance(value, bool | int | float | str):
                ranges[name] = value
            else:
                fixed[name] = value
        if not ranges:
            raise Refused(
                "A sweep needs a range: --set learning_rate=1e-4..1e-1:log, or --set "
                "batch_size=16,32,64."
            )
        trials = options.trials
        if options.sampler == "grid":
            size = grid_size(ranges)
            trials = size if trials is None else min(trials, size)
    except UnusableRange as error:
        raise Refused(str(error)) from error
    fields = {name: value for name, value in fixed.items() if name not in own}
    if both := sorted((fields.keys() | ranges.keys()) & run.fields.keys()):
        raise Refused(f"{both[0]} is given as a flag and with --set: leave one of them out.")
    base = make_spec(recipe, run._replace(settings=(), fields={**run.fields, **fields}))
    base = msgspec.structs.replace(
        base,
        settings={name: value for name, value in fixed.items() if name in own},
        name=run.name or "",
    )
    metric, direction = split_direction(options.metric)
    metric = long_name(metric)
    lowest = lower_is_better(metric or "loss") if direction is None else direction == "min"
    sweep = Sweep(
        base=base,
        ranges=ranges,
        own_settings=tuple(sorted(own & ranges.keys())),
        trials=DEFAULT_TRIALS if trials is None else trials,
        sampler=options.sampler,
        pruner=options.pruner,
        metric=metric,
        lowest=lowest,
        parallel=options.parallel,
        seed=options.sweep_seed,
    )
    _check(sweep)
    return sweep


def _check(sweep: Sweep) -> None:
    """Refuse a sweep whose first run could not start. Raises Refused, CannotStart."""
    if sweep.trials < 1 or sweep.parallel < 1:
        raise Refused("A sweep needs at least 1 trial, and at least 1 of them at one time.")
    count = len(sweep.base.devices)
    if count > 1 and count % sweep.parallel:
        raise Refused(
            f"{count} devices cannot be shared equally by {sweep.parallel} runs: choose another "
            "--parallel, or other devices."
        )
    first = {
        name: each.values[0] if isinstance(each, Choices) else _low(each.low, each.whole)
        for name, each in sweep.ranges.items()
    }
    spec = sweep.spec_of(first, 0)
    if found := client.check(spec):
        raise client.CannotStart(found)


def _low(low: float, whole: bool) -> Setting:
    return int(low) if whole else low


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
        _follow(folder, ctrl_c)
    _print(folder, json=json)
    state = _summary(folder)["state"]
    if state == "finished":
        return Exit.DONE
    err().print(
        f"Sweep {number} has {state}: `{call(f'sweep resume {number}')}` lets it go on. "
        f"{folder / LOG} says more.",
        soft_wrap=True,
    )
    return Exit.FAILED


def _follow(folder: Path, ctrl_c: CtrlC) -> None:
    """Print a line for each trial that ends, until the driver has ended."""
    told: set[int] = set()
    pause, was_asked = threading.Event(), False
    while True:
        is_active = sweeps.is_active(folder)
        for trial in studies.results(studies.read_study(folder)):
            is_over = trial.state in ("finished", "pruned", "failed")
            if is_over and trial.number not in told:
                told.add(trial.number)
                err().print(_line(trial), soft_wrap=True)
        if not is_active:
            return
        if ctrl_c.count and not was_asked:
            was_asked = True
            sweeps.ask_to_stop(folder)
            err().print("Stops: the runs save first.")
        pause.wait(LOOK_SECONDS)


def _print(folder: Path, *, json: bool) -> None:
    sweep = sweeps.read(folder)
    study = studies.read_study(folder)
    trials = studies.results(study)
    best = studies.best_of(trials, lowest=sweep.lowest)
    if json:
        print_json(
            {
                **_summary(folder),
                "trials": [msgspec.to_builtins(each) for each in trials],
                "best": msgspec.to_builtins(best),
                "importance": studies.importance(study),
            }
        )
        return
    out().print(_table(trials, tuple(sweep.ranges)))
    if best:
        words = " ".join(f"{name}={_text(value)}" for name, value in best.settings.items())
        out().print(f"best: {best.value:.6g} in run {best.run}: {words}", soft_wrap=True)
    if shares := studies.importance(study):
        parts = ", ".join(f"{name} {100 * each:.0f} %" for name, each in shares.items())
        out().print(f"what mattered: {parts}", soft_wrap=True)


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


def _summary(folder: Path) -> dict[str, Any]:
    sweep = sweeps.read(folder)
    trials = studies.results(studies.read_study(folder))
    done = sum(each.state in ("finished", "pruned", "failed") for each in trials)
    state = "stopped" if done < sweep.trials else "finished"
    best = studies.best_of(trials, lowest=sweep.lowest)
    return {
        "sweep": folder.name,
        "state": "running" if sweeps.is_active(folder) else state,
        "recipe": sweep.base.recipe,
        "trials": sweep.trials,
        "done": done,
        "best": msgspec.to_builtins(best),
    }
