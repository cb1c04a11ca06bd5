"""The rows of the comparison table: the metrics of the runs, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from engine.runs.best_metrics import BestFigure
from engine.runs.run_info import RunInfo
from engine.runs.series_names import series_title
from engine.runs.table.columns import own_settings, setting_value
from engine.spec.device_names import all_on_cpu, is_logical_cpu
from engine.spec.metric_direction import best_as_shown, lower_is_better, merged_overrides
from engine.spec.run_spec import FIELDS
from engine.system import units
from gui.run_list.filter_sort import duration
from gui.style import formatting
from gui.style.state_style import state_name, state_text

NOTHING = "–"


class ComparisonRow(NamedTuple):
    """One row of the table."""

    label: str
    values: tuple[str, ...]
    """One for each run."""

    best: frozenset[int] = frozenset()
    """Indices of the best values."""

    tip: str = ""


def setting_rows(
    infos: Sequence[RunInfo], device_names: Mapping[str, str] | None = None
) -> list[ComparisonRow]:
    """Return the settings in which the runs differ, in the order of the form, then the recipe's
    settings. `device_names`: names of this machine's devices by id."""
    labels = device_names or {}
    rows = [
        _text_row("Recipe", infos, lambda info: info.spec.recipe),
        _text_row("Strategy", infos, lambda info: info.spec.strategy),
        _text_row("Devices", infos, lambda info: _devices(info, labels)),
    ]
    for name, field in FIELDS.items():
        values = [setting_value(name, info) for info in infos]
        rows.append(ComparisonRow(field.title, tuple(map(_format_setting, values)), tip=field.doc))
    own = [own_settings(info) for info in infos]
    for name in sorted({name for settings in own for name in settings}):
        rows.append(
            ComparisonRow(name, tuple(_format_setting(settings.get(name)) for settings in own))
        )
    return [row for row in rows if len(set(row.values)) > 1]


def figure_rows(
    infos: Sequence[RunInfo], best: Mapping[str, Mapping[str, BestFigure]]
) -> list[ComparisonRow]:
    """Return state, time and speed of the runs, and the last and the best value of each metric;
    `best` is by run, then by metric."""
    rows = [
        _text_row("State", infos, _state),
        _text_row("Epoch", infos, _epochs),
        _text_row("Step", infos, lambda info: f"{info.status.step:,}"),
        _text_row(
            "Duration",
            infos,
            lambda info: units.steady_duration(seconds) if (seconds := duration(info)) else "",
        ),
        _number_row(
            "Throughput (samples/s)",
            [info.status.samples_per_second or math.nan for info in infos],
            lambda value: f"{value:,.0f}",
            less=False,
        ),
        _number_row(
            "Step time",
            [info.status.step_seconds or math.nan for info in infos],
            formatting.step_time,
            less=True,
        ),
        _text_row(
            "Energy",
            infos,
            lambda info: f"{info.status.energy:.4g} Wh" if info.status.energy else "",
        ),
        _text_row("Parameters", infos, lambda info: f"{info.status.parameters:,}"),
    ]
    if len(set(rows[-1].values)) == 1:
        rows.pop()
    rows = [row for row in rows if set(row.values) != {NOTHING}]
    for metric in sorted({name for info in infos for name in info.status.metrics}):
        rows += _metric_rows(metric, infos, best)
    return rows


def _metric_rows(
    metric: str, infos: Sequence[RunInfo], best: Mapping[str, Mapping[str, BestFigure]]
) -> list[ComparisonRow]:
    directions = merged_overrides(info.status.metric_directions for info in infos)
    less = lower_is_better(metric, directions)
    label = series_title(metric)
    last = [info.status.metrics.get(metric, math.nan) for info in infos]

    def format_value(value: float) -> str:
        return formatting.metric(metric, value)

    rows = [_number_row(f"{label}, last", last, format_value, less=less)]
    figures = [best.get(info.id, {}).get(metric) for info in infos]
    if any(figures):
        values = [figure.value if figure else math.nan for figure in figures]
        row = _number_row(f"{label}, best", values, format_value, less=less)
        texts = [
            f"{text} @ {figure.step:,}" if figure else text
            for text, figure in zip(row.values, figures, strict=True)
        ]
        rows.append(row._replace(values=tuple(texts), tip="The best figure, and its step"))
    return rows


def _text_row(
    label: str, infos: Sequence[RunInfo], text: Callable[[RunInfo], str]
) -> ComparisonRow:
    return ComparisonRow(label, tuple(text(info) or NOTHING for info in infos))


def _number_row(
    label: str, values: Sequence[float], format_value: Callable[[float], str], *, less: bool
) -> ComparisonRow:
    texts = tuple(NOTHING if math.isnan(value) else format_value(value) for value in values)
    return ComparisonRow(label, texts, best_as_shown(values, texts, lowest=less))


def _format_setting(value: object) -> str:
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def _state(info: RunInfo) -> str:
    return state_text(info) if info.spec.is_imported else state_name(info.state)


def _epochs(info: RunInfo) -> str:
    status = info.status
    if info.epochs:
        return f"{status.epoch} of {info.epochs}"
    return str(status.epoch) if status.epoch or info.spec.steps else NOTHING


def _devices(info: RunInfo, labels: Mapping[str, str]) -> str:
    devices = info.spec.devices
    if all_on_cpu(devices):
        if len(devices) == 1:
            return "1 CPU worker"
        return f"{len(devices)} CPU workers"
    return ", ".join(
        device if is_logical_cpu(device) else labels.get(device, device[:12]) for device in devices
    )
