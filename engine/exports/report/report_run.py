"""All that a report says of one run, read at one time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from engine.exports import run_source
from engine.exports.report.plots import place_of
from engine.exports.run_source import Histogram, Image, RunSource
from engine.facts.history import History, Mark, MarkKind, Span
from engine.facts.run_facts import RunFacts, read_facts
from engine.facts.settings import Described, SettingRow, setting_rows
from engine.messages.events import Notice
from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import RunInfo
from engine.spec import catalog, recipe_copy
from engine.spec.metric_direction import primary_metric
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import UnreadableSpec, read_spec, stored_environment
from engine.system import paths
from engine.system.units import LARGEST_SHARE


class SeriesFigures(NamedTuple):
    """The figures of one series."""

    points: int
    last: float
    best: BestFigure | None
    factor: float
    """Value in the unit that it is shown in = value of the series times this factor."""


class Happening(NamedTuple):
    """A line of the table of events."""

    time: float
    kind: str
    text: str


class ReportRun(NamedTuple):
    """One run, but for its curves."""

    info: RunInfo
    label: str
    """Its name and number, in legends and heads of tables."""

    settings: list[SettingRow]
    parent: str
    """The number of the run that it goes on from; empty: it has none."""

    facts: RunFacts
    environment: dict[str, str]
    """What is known of Python and packages without facts."""

    figures: dict[str, SeriesFigures]
    spans: list[Span]
    happened: list[Happening]
    seconds: float
    media: list[Image | Histogram]
    """What a script has logged and no rewind has taken back, oldest first."""

    @property
    def primary(self) -> str:
        """The series that summarises the run; empty: it has no metric of a validation."""
        return primary_metric(self.figures, self.info.status.metric_directions)


def read_run(source: RunSource) -> ReportRun:
    """Read a run. Raises sqlite3.Error."""
    info = source.info
    facts = read_facts(info.folder)
    now = time.time()
    counts, last, best = source.counts(), source.last(), source.best()
    events = source.events()
    history = History()
    history.add(events)
    happened = [_happening(mark) for mark in history.marks]
    happened += [
        Happening(each.time, "notice", each.event.text)
        for each in events
        if isinstance(each.event, Notice)
    ]
    names = {}
    if facts.attempt is not None:
        found = ((each.id, f"{each.label} {each.name}".strip()) for each in facts.attempt.devices)
        names = {device: name for device, name in found if name}
    own = Described(info.spec, _recipe(info, info.spec), names)
    parent = facts.parent.run if facts.parent is not None else ""
    return ReportRun(
        info=info,
        label=f"{info.name} #{info.id}",
        settings=setting_rows(own, _described(info, parent, names)),
        parent=parent,
        facts=facts,
        environment=_environment(info),
        figures={
            name: SeriesFigures(
                count, last.get(name, math.nan), best.get(name), _factor(source, name)
            )
            for name, count in counts.items()
        },
        spans=history.spans(None if history.is_over else now),
        happened=sorted(happened, key=lambda each: each.time),
        seconds=run_source.seconds_of(info, now),
        media=run_source.media(events),
    )


def main_series(runs: Sequence[ReportRun]) -> list[str]:
    """Return the series that a table of runs shows: the metrics of the validations, and the loss of
    the training; of runs that have neither, all but those of the machine."""
    names = sorted({name for run in runs for name in run.figures})
    validation = [name for name in names if name.startswith("validation/")]
    own = [*validation, *(name for name in names if name == "train/loss")]
    return own or [name for name in names if not is_of_machine(name)]


def is_of_machine(series: str) -> bool:
    """Whether a series belongs to a device or a rank: its name differs from run to run."""
    return series.startswith(("device/", "rank/"))


def _factor(source: RunSource, series: str) -> float:
    place = place_of(series)
    if "accuracy" in series and source.reader is not None:
        highest = source.reader.best(series, lowest=False)
        if highest is not None and highest[0] > LARGEST_SHARE:
            return 1.0  # it was logged in percent
    return place.factor


def _happening(mark: Mark) -> Happening:
    kind = "best value" if mark.kind is MarkKind.BEST else str(mark.kind)
    return Happening(mark.time, kind, mark.text)


def _described(info: RunInfo, run_id: str, names: dict[str, str]) -> Described | None:
    if not run_id or not run_id.isdecimal():
        return None
    try:
        spec = read_spec(paths.run_folder(run_id))
    except (UnreadableSpec, OSError):
        return None
    return Described(spec, _recipe(info, spec), names)


def _recipe(info: RunInfo, spec: RunSpec) -> RecipeInfo | None:
    if spec.is_imported:
        return None
    try:
        return recipe_copy.recipe_of_run(info.folder, spec)
    except (catalog.UnknownName, OSError, ValueError):
        return None


def _environment(info: RunInfo) -> dict[str, str]:
    if info.spec.is_imported:
        return {}  # what was stored is the program that imported it
    stored = stored_environment(info.folder)
    found = {"Python": str(stored.get("python", "")), "System": str(stored.get("platform", ""))}
    packages = stored.get("packages")
    if isinstance(packages, dict):
        found |= {str(name): str(version) for name, version in packages.items()}
    return {name: value for name, value in found.items() if value}
