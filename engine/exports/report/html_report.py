"""Writes the report of one run, or of the comparison of several."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from engine.drawing.svg import svg
from engine.exports.report import plots, run_tables
from engine.exports.report.markup import (
    Html,
    cell,
    details,
    element,
    joined,
    page,
    row_title,
    said,
    section,
    table,
    text,
)
from engine.exports.report.media import media
from engine.exports.report.report_run import (
    ReportRun,
    is_of_machine,
    main_series,
    read_run,
)
from engine.exports.run_source import RunSource
from engine.exports.tables import Tick
from engine.runs.run_info import RunInfo
from engine.runs.series_names import series_title
from engine.spec.metric_direction import best_as_shown, lower_is_better, merged_overrides
from engine.system import units

MOST_RUNS = 60
"""Runs of one report: with more of them, colours and dashes would not tell them apart."""

MOST_PLOTS = 80


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


def _report(runs: Sequence[ReportRun], sources: Sequence[RunSource], tick: Tick) -> Html:
    now = units.date_and_time(time.time())
    single = runs[0] if len(runs) == 1 else None
    title = single.label if single else f"Comparison of {len(runs)} runs"
    drawn = _plots(runs, sources, now, tick)
    parts = _one(single, drawn, media(single, now)) if single else _several(runs, drawn)
    made = f"Made by Traindeck on {now}. Times are those of the machine that made this page."
    return page(title, joined((*parts, element("footer", said("p", made)))))


def _one(run: ReportRun, drawn: Html, logged: Html) -> Iterable[Html]:
    yield run_tables.head(run)
    yield run_tables.cards(run)
    yield section("Plots", drawn)
    yield section("Images and histograms", logged)
    yield section("Figures", run_tables.figures(run))
    yield section("Settings", run_tables.settings(run))
    yield section("Environment", run_tables.environment(run))
    yield section("Code", run_tables.git(run))
    yield section("Model", run_tables.model(run))
    yield section("Events", run_tables.events(run))


def _several(runs: Sequence[ReportRun], drawn: Html) -> Iterable[Html]:
    yield said("h1", f"Comparison of {len(runs)} runs")
    yield section("Runs", _table_of_runs(runs))
    yield section("Plots", drawn)
    yield section("Settings", _differing(runs, run_tables.setting_cells, "settings"))
    yield section("Environment", _differing(runs, run_tables.environment_cells, "facts"))
    yield section("Events", *(details(run.label, run_tables.events(run)) for run in runs))


def _table_of_runs(runs: Sequence[ReportRun]) -> Html:
    series = main_series(runs)[:12]
    directions = merged_overrides(run.info.status.metric_directions for run in runs)
    best = {
        name: best_as_shown(
            [_best(run, name) for run in runs],
            [run_tables.best_or_last(run, name) for run in runs],
            lowest=lower_is_better(name, directions),
        )
        for name in series
    }
    rows = []
    for place, run in enumerate(runs):
        dot = element("span", class_="dot", style=f"background:{plots.colour_of(place)}")
        status = run.info.status
        row = [
            element("th", dot, text(run.label), scope="row"),
            element("td", run_tables.state(run)),
        ]
        for name in series:
            value = run_tables.best_or_last(run, name)
            star = said("span", " ★", class_="best") if place in best[name] else Html("")
            row.append(cell(value, number=True, more=star))
        epochs = f"{status.epoch}/{status.epochs}" if status.epochs else ""
        row += [
            cell(epochs, number=True),
            cell(f"{status.step:,}", number=True),
            cell(units.duration(run.seconds), number=True),
            cell(", ".join(run.info.notes.tags)),
        ]
        rows.append(row)
    titles = [
        f"{name} ({'last' if all(math.isnan(_best(run, name)) for run in runs) else 'best'})"
        for name in series
    ]
    note = said("p", "★ is the best of these runs; equal figures share it.", class_="muted")
    head = ("Run", "State", *titles, "Epoch", "Step", "Duration", "Tags")
    return joined((table(head, rows), note if any(best.values()) else Html("")))


def _best(run: ReportRun, series: str) -> float:
    """Return the best value of a series; NaN: it is of no validation, or was never finite."""
    found = run.figures.get(series)
    return found.best.value if found is not None and found.best is not None else math.nan


def _differing(
    runs: Sequence[ReportRun], cells_of: Callable[[ReportRun], dict[str, str]], what: str
) -> Html:
    """Return what differs between the runs as a table, and what they share, folded."""
    columns = [cells_of(run) for run in runs]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows, same = [], []
    for name in names:
        values = [column.get(name, "") for column in columns]
        known = {column[name] for column in columns if name in column}
        if len(known) == 1:  # a run without it has nothing that could differ
            same.append([row_title(name), cell(*known)])
        else:
            usual = max(known, key=values.count)
            is_usual = values.count(usual) > 1
            rows.append(
                [
                    row_title(name),
                    *(
                        cell(value or "–", differs=is_usual and value not in ("", usual))
                        for value in values
                    ),
                ]
            )
    differing = table(["", *(run.label for run in runs)], rows)
    if names and not rows:
        differing = said("p", f"All {what} are the same.", class_="muted")
    return joined((differing, details(f"{len(same)} {what} that are the same", table((), same))))


def _plots(runs: Sequence[ReportRun], sources: Sequence[RunSource], date: str, tick: Tick) -> Html:
    found: list[Html] = []
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
            found.append(element("figure", Html(svg(figure)), role="img", aria_label=title))
    if not found and not left_out:
        return said("p", "There are no curves.", class_="muted")
    note = Html("")
    if left_out:
        names = ", ".join(left_out[:20]) + (" …" if len(left_out) > 20 else "")
        why = f"Not drawn, because they have no finite value or this page has {MOST_PLOTS} plots"
        note = said("p", f"{why}: {names}.", class_="muted")
    star = "★: the best value. A short red mark at the lower edge: a value that is not finite."
    drawn = [element("div", *found, class_="plots"), said("p", star, class_="muted")]
    return joined((*(drawn if found else ()), note))


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
    for name in sorted(names, key=lambda name: (places[name].rank, name)):
        place = places[name]
        is_ours = name.startswith(("train/", "validation/"))
        title = series_title(name) if is_ours else place.title
        yield (
            title,
            place.unit,
            [(number, name, run.label) for number, run in enumerate(runs) if name in run.figures],
        )
