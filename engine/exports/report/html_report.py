"""Writes the report of one run, or of the comparison of several."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from engine.drawing.svg import svg
from engine.exports.report import plots, run_tables
from engine.exports.report.media import media
from engine.exports.report.page import rendered
from engine.exports.report.report_run import ReportRun, is_of_machine, main_series, read_run
from engine.exports.run_source import RunSource, source_of
from engine.exports.tables import Tick
from engine.runs.run_info import RunInfo
from engine.runs.series_names import series_title
from engine.spec.metric_direction import best_as_shown, lower_is_better, merged_overrides
from engine.system import units
from engine.system.natural_order import natural_key

MOST_RUNS = 60
"""Runs of one report: with more of them, colours and dashes would not tell them apart."""

MOST_PLOTS = 80
_MOST_LAYERS = 400
_MOST_EVENTS = 500
_MOST_SERIES = 12


def write_report(file: Path, infos: Sequence[RunInfo], tick: Tick) -> None:
    """Write the new `file`. Raises OSError and sqlite3.Error."""
    runs, sources = [], []
    try:
        for info in infos:
            sources.append(RunSource(info))
            runs.append(read_run(sources[-1]))
        content = _report(runs, sources, tick)
    finally:
        for source in sources:
            source.close()
    with file.open("x", encoding="utf-8", newline="\n") as opened:
        opened.write(content)


def _report(runs: Sequence[ReportRun], sources: Sequence[RunSource], tick: Tick) -> str:
    now = units.date_and_time(time.time())
    drawn, left_out = _plots(runs, sources, now, tick)
    common = {
        "date": now,
        "drawn": drawn,
        "left_out": left_out,
        "most_events": _MOST_EVENTS,
    }
    if len(runs) > 1:
        return rendered(
            "comparison.html",
            title=f"Comparison of {len(runs)} runs",
            runs=runs,
            summary=_summary(runs),
            settings=_differences([run_tables.setting_cells(run) for run in runs]),
            environment=_differences([run_tables.environment_cells(run) for run in runs]),
            **common,
        )
    (run,) = runs
    facts = run.facts.attempt
    return rendered(
        "run.html",
        title=run.label,
        run=run,
        cards=run_tables.cards(run),
        media=media(run, now),
        figures=run_tables.figures(run),
        imported_from=source_of(run.info.spec),
        environment=list(run_tables.environment(run)),
        packages=list(facts.packages.items()) if facts is not None else [],
        git=list(run_tables.git(run)),
        most_layers=_MOST_LAYERS,
        **common,
    )


class _Row(NamedTuple):
    """A run in the table of runs."""

    run: ReportRun
    colour: str
    values: list[tuple[str, bool]]
    """Of each series, and whether it is the best of these runs."""


class _Summary(NamedTuple):
    """The table of runs."""

    titles: list[str]
    rows: list[_Row]
    has_best: bool


def _summary(runs: Sequence[ReportRun]) -> _Summary:
    series = main_series(runs)[:_MOST_SERIES]
    directions = merged_overrides(run.info.status.metric_directions for run in runs)
    shown = {name: [run_tables.best_or_last(run, name) for run in runs] for name in series}
    best = {
        name: best_as_shown(
            [_best(run, name) for run in runs],
            shown[name],
            lowest=lower_is_better(name, directions),
        )
        for name in series
    }
    rows = [
        _Row(
            run,
            plots.colour_of(place),
            [(shown[name][place], place in best[name]) for name in series],
        )
        for place, run in enumerate(runs)
    ]
    titles = [
        f"{name} ({'last' if all(math.isnan(_best(run, name)) for run in runs) else 'best'})"
        for name in series
    ]
    return _Summary(titles, rows, any(best.values()))


def _best(run: ReportRun, series: str) -> float:
    """Return the best value of a series; NaN: it is of no validation, or was never finite."""
    found = run.figures.get(series)
    return found.best.value if found is not None and found.best is not None else math.nan


class _Differences(NamedTuple):
    """What differs between runs, and what they share."""

    rows: list[tuple[str, list[tuple[str, bool]]]]
    """Name; for each run the value, and whether it is unlike that of most."""

    same: list[tuple[str, str]]


def _differences(columns: Sequence[dict[str, str]]) -> _Differences:
    found = _Differences([], [])
    for name in dict.fromkeys(name for column in columns for name in column):
        values = [column.get(name, "") for column in columns]
        known = {column[name] for column in columns if name in column}
        if len(known) == 1:  # a run without it has nothing that could differ
            found.same.append((name, next(iter(known))))
            continue
        usual = max(known, key=values.count)
        is_usual = values.count(usual) > 1
        cells = [(value, is_usual and value not in ("", usual)) for value in values]
        found.rows.append((name, cells))
    return found


def _plots(
    runs: Sequence[ReportRun], sources: Sequence[RunSource], date: str, tick: Tick
) -> tuple[list[tuple[str, Markup]], str]:
    """Return title and picture of each plot, and what is not drawn, in a sentence."""
    found: list[tuple[str, Markup]] = []
    left_out: list[str] = []
    drawings = _of_one(runs[0]) if len(runs) == 1 else _of_several(runs)
    for title, unit, wanted in drawings:
        if len(found) == MOST_PLOTS:
            left_out.append(title)
            continue
        curves = []
        for place, series, label in wanted:
            reader, figures = sources[place].reader, runs[place].figures[series]
            if reader is not None:
                curves.append(plots.read_curve(reader, series, label, figures.factor, figures.best))
            tick(figures.points)
        colours = {label: place for place, (_, _, label) in enumerate(wanted)}
        if len(runs) > 1:
            colours = {run.label: place for place, run in enumerate(runs)}
        source = runs[wanted[0][0]].label
        if len({place for place, *_ in wanted}) > 1:
            source = f"{len(wanted)} runs"
        figure = plots.figure_of(title, unit, source, date, curves, colours)
        if figure is None:
            left_out.append(title)
        else:
            found.append((title, Markup(svg(figure))))
    if not left_out:
        return found, ""
    names = ", ".join(left_out[:20]) + (" …" if len(left_out) > 20 else "")
    why = f"Not drawn, because they have no finite value or this page has {MOST_PLOTS} plots"
    return found, f"{why}: {names}."


Wanted = tuple[str, str, list[tuple[int, str, str]]]
"""Title and unit of a plot; for each curve the place of its run, series, label."""


def _of_one(run: ReportRun) -> Iterable[Wanted]:
    for place, series in plots.groups_of(list(run.figures)).items():
        curves = [(0, name, each.label) for name, each in series]
        yield place.title, place.unit, curves


def _of_several(runs: Sequence[ReportRun]) -> Iterable[Wanted]:
    """Return one plot for each series: those of devices and ranks mean another one in each run."""
    names = {name for run in runs for name in run.figures if not is_of_machine(name)}
    places = {name: plots.place_of(name) for name in sorted(names)}
    for name in sorted(names, key=lambda name: (places[name].rank, natural_key(name))):
        place = places[name]
        is_ours = name.startswith(("train/", "validation/"))
        title = series_title(name) if is_ours else place.title
        yield (
            title,
            place.unit,
            [(number, name, run.label) for number, run in enumerate(runs) if name in run.figures],
        )
