"""Which plot a series belongs to, and how it is drawn there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.runs.run_state import ENERGY, STEP_SECONDS, THROUGHPUT
from engine.runs.series_names import metric_name
from engine.spec.metric_direction import NO_OVERRIDES, lower_is_better, primary_metric
from engine.system.units import GIB
from gui.style import formatting


class PlotKind(NamedTuple):
    """What a plot shows. Plots are sorted by `rank`, then by title."""

    title: str
    rank: int
    unit: str = ""
    value_format: str = ".4g"
    y_range: tuple[float | None, float | None] | None = None
    per_rank: bool = False
    """Whether every rank has its own curves; the legend then has a line of its own."""

    is_stacked: bool = False
    """Whether each curve is the upper edge of a part, above the parts before it."""

    @property
    def may_be_log(self) -> bool:
        """Whether a logarithmic axis makes sense: not for values with a unit, which begin at 0."""
        return not self.unit


class SeriesStyle(NamedTuple):
    """The plot of a series, and how its curve looks."""

    plot: PlotKind
    label: str
    """Name of the curve in the legend; for the curve of a device, the device's id."""

    colour_index: int | None = None
    """None: the next free colour."""

    factor: float = 1.0
    """Value in the plot's unit = value of the series times this factor."""

    is_share: bool = False
    """Whether that holds only for parts of 1: scripts also log accuracies in percent."""

    smooth: bool = True
    best_sign: int = 0
    """See `Curve`."""

    rank: int | None = None
    """The rank that reports the series, if every rank reports one."""

    @property
    def is_device(self) -> bool:
        """Whether the curve shows a device."""
        return self.plot in DEVICE_PLOTS

    @property
    def marks_gaps(self) -> bool:
        """Whether NaN and infinity are marked and counted. In other series they mean that there was
        nothing to measure."""
        return self.plot.title not in _MEASURED

    @property
    def curve_name(self) -> str:
        """Name of the curve, unique in its plot."""
        return self.label if self.rank is None else f"{self.label} {self.rank}"


LOSS = PlotKind("Loss", 0)
METRIC_RANK = 1
"""Rank of the plots of metrics: plots of a higher rank show how a run trains, not how well."""

LOGGED_RANK = 12
"""Rank of the plots of what a script or a recipe has logged, of which the name alone is known."""

STEP_TIME = PlotKind("Step time", 2, "ms", ".4g", (0.0, None), is_stacked=True)
"""The parts are the mean of all ranks; the upper edge is what a step takes."""

STEP_SHARES = STEP_TIME._replace(unit="%", value_format=".0f", y_range=(0.0, 100.0))
"""In the place of `STEP_TIME` for an old run, whose step time was not recorded."""

DEVICE_MEMORY = PlotKind("Device memory", 3, "GiB", ".1f", (0.0, None))
DEVICE_UTILISATION = PlotKind("Device utilisation", 4, "%", ".0f", (0.0, 100.0))
THROUGHPUT_PLOT = PlotKind("Throughput", 5, "samples/s", ",.0f", (0.0, None))
LEARNING_RATE = PlotKind("Learning rate", 6)
GRADIENT_NORM = PlotKind("Gradient norm", 7)
DEVICE_TEMPERATURE = PlotKind("Device temperature", 9, "°C", ".0f")
DEVICE_POWER = PlotKind("Device power", 10, "W", ".0f", (0.0, None))
STEP_TIME_BY_RANK = PlotKind("Step time by rank", 8, "%", ".0f", (0.0, 100.0), per_rank=True)
WORKER_MEMORY = PlotKind("Worker memory", 11, "GiB", ".2f", (0.0, None), per_rank=True)
ENERGY_PLOT = PlotKind("Energy", 10, "Wh", ".4g", (0.0, None))
"""What the GPUs of the run have used until then, in all attempts."""

DEVICE_PLOTS = (DEVICE_UTILISATION, DEVICE_MEMORY, DEVICE_TEMPERATURE, DEVICE_POWER)
"""Plots with one curve per device, in the colours of `device_labels`."""

_MEASURED = frozenset(
    kind.title
    for kind in (
        *(*DEVICE_PLOTS, STEP_TIME, STEP_TIME_BY_RANK),
        *(WORKER_MEMORY, THROUGHPUT_PLOT, ENERGY_PLOT),
    )
)

TRAIN_LOSS = PlotKind("Train loss", 0)
VALIDATION_LOSS = PlotKind("Val loss", 1)
"""Plots of the comparison, where every series has its own plot."""

_TITLES = {
    kind.title
    for kind in (
        *(LOSS, THROUGHPUT_PLOT, LEARNING_RATE, GRADIENT_NORM, STEP_TIME, WORKER_MEMORY),
        *(STEP_TIME_BY_RANK, ENERGY_PLOT),
        *(TRAIN_LOSS, VALIDATION_LOSS, *DEVICE_PLOTS),
    )
}
"""Titles that the plot of a metric must not have: titles identify plots."""

_RANK_STYLES = {
    "data_share": SeriesStyle(STEP_TIME_BY_RANK, "data", 0, 100.0),
    "compute_share": SeriesStyle(STEP_TIME_BY_RANK, "compute", 1, 100.0),
    "communication_share": SeriesStyle(STEP_TIME_BY_RANK, "comm.", 2, 100.0),
    "memory_allocated": SeriesStyle(WORKER_MEMORY, "alloc.", 0, 1 / GIB, smooth=False),
    "memory_reserved": SeriesStyle(WORKER_MEMORY, "reserved", 1, 1 / GIB, smooth=False),
    "memory_resident": SeriesStyle(WORKER_MEMORY, "resident", 2, 1 / GIB, smooth=False),
}
STEP_PARTS = {
    STEP_SECONDS: ("step", 0),
    "compute_share": ("compute", 0),
    "communication_share": ("comm.", 3),
    "data_share": ("data", 4),
}
"""Label and colour of each part of the stacked step time, or of the whole where there are none."""

_TRAIN, _VAL = "train", "val"
_VALIDATION_GROUPS = ("val", "valid", "eval", "test", "dev")
_MAIN_WORDS = ("loss", "acc", "error", "score", "reward", "return", "perplexity")
"""What a series that is not ours mostly has in its name where it tells how well a model learns."""

_COLOURS_PER_RANK = 3
_DEVICE_STYLES = {
    "utilisation": SeriesStyle(DEVICE_UTILISATION, "", smooth=False),
    "memory": SeriesStyle(DEVICE_MEMORY, "", factor=1 / GIB, smooth=False),
    "process_memory": SeriesStyle(DEVICE_MEMORY, "", factor=1 / GIB, smooth=False),
    "temperature": SeriesStyle(DEVICE_TEMPERATURE, "", smooth=False),
    "power": SeriesStyle(DEVICE_POWER, "", smooth=False),
}


def style_of(
    series: str, metric_directions: Mapping[str, str] = NO_OVERRIDES
) -> SeriesStyle | None:
    """Return the plot and the style of `series`; None if it is not drawn. `metric_directions`: the
    run's `min` or `max` by metric.

    Validation values are not smoothed: there is one per epoch, over the whole validation set.
    """
    group, _, name = series.partition("/")
    match group:
        case "train" if name == "loss":
            return SeriesStyle(LOSS, _TRAIN, 0)
        case "validation" if name == "loss":
            sign = _best_sign(series, metric_directions)
            return SeriesStyle(LOSS, _VAL, 1, smooth=False, best_sign=sign)
        case "train" if series == THROUGHPUT:
            return SeriesStyle(THROUGHPUT_PLOT, _TRAIN, 0)
        case "train" if series == STEP_SECONDS:
            return SeriesStyle(STEP_TIME, "step", 0, 1000.0)
        case "train" if name == "learning_rate":
            return SeriesStyle(LEARNING_RATE, _TRAIN, 0, smooth=False)
        case "train" if name == "gradient_norm":
            return SeriesStyle(GRADIENT_NORM, _TRAIN, 0)
        case "train" if name.startswith(("loss/", "learning_rate/")):  # of several optimizers
            kind = LOSS if name.startswith("loss/") else LEARNING_RATE
            return SeriesStyle(kind, name.partition("/")[2], smooth=kind is LOSS)
        case "train" if name:
            factor, is_share = _factor(name)
            return SeriesStyle(_metric_plot(series), _TRAIN, 0, factor, is_share)
        case "validation" if name:
            sign = _best_sign(series, metric_directions)
            factor, is_share = _factor(name)
            return SeriesStyle(
                _metric_plot(series), _VAL, 1, factor, is_share, smooth=False, best_sign=sign
            )
        case "device" if series == ENERGY:
            return SeriesStyle(ENERGY_PLOT, "GPUs", 0, smooth=False)
        case "device":
            device, _, figure = name.rpartition("/")
            style = _DEVICE_STYLES.get(figure)
            return style._replace(label=device) if style and device else None
        case "rank":
            rank, _, figure = name.partition("/")
            return _rank_style(_RANK_STYLES.get(figure), rank)
        case "train" | "validation" | "":
            return None
        case _:
            return _logger_style(series)


def main_metric(series: Iterable[str], metric_directions: Mapping[str, str] = NO_OVERRIDES) -> str:
    """Return which of `series` is that of the run's main metric; empty if none is one.

    It is the validation metric of the figure cards. In runs of scripts that have names of their
    own, one that they validate counts more, and then one whose higher values are better.
    """
    styles = ((name, style_of(name)) for name in series)
    metrics = [name for name, style in styles if style and style.plot.rank == METRIC_RANK]

    def place(name: str) -> tuple[bool, bool]:
        group = name.rpartition("/")[0].casefold()
        return group not in _VALIDATION_GROUPS, lower_is_better(name, metric_directions)

    return primary_metric(metrics, metric_directions) or min(metrics, key=place, default="")


def is_named_by_script(series: str) -> bool:
    """Whether the name of `series`, or a part of it after ours, comes from a script."""
    ours = ("train/", "validation/", "device/", "rank/")
    several = ("train/loss/", "train/learning_rate/")
    return series.startswith(several) or not series.startswith(ours)


def _logger_style(series: str) -> SeriesStyle:
    """Return the style of a series that a script has logged under a name of its own, such as
    `val/acc` or `episode reward`: nothing is known of it but the name."""
    group, _, name = series.rpartition("/")
    is_validation = group.casefold() in _VALIDATION_GROUPS
    if is_validation and name == "loss":
        return SeriesStyle(LOSS, series, smooth=False)
    title = series
    if title in _TITLES:
        title = f"{title} (metric)"
    is_main = any(word in series.casefold() for word in _MAIN_WORDS)
    kind = PlotKind(title, METRIC_RANK if is_main else LOGGED_RANK)
    return SeriesStyle(kind, name or series, smooth=not is_validation)


def _best_sign(series: str, metric_directions: Mapping[str, str]) -> int:
    return -1 if lower_is_better(series, metric_directions) else 1


def _rank_style(style: SeriesStyle | None, rank: str) -> SeriesStyle | None:
    if style is None or style.colour_index is None or not rank.isdecimal():
        return None
    colour = style.colour_index + _COLOURS_PER_RANK * int(rank)
    return style._replace(rank=int(rank), colour_index=colour)


def _metric_plot(series: str) -> PlotKind:
    """Return the plot that a metric's training and validation series share."""
    title = formatting.capitalized(metric_name(series))
    if title in _TITLES:
        title = f"{title} (metric)"
    return (
        PlotKind(title, METRIC_RANK, "%", ".1f")
        if "accuracy" in series
        else PlotKind(title, METRIC_RANK)
    )


def _factor(name: str) -> tuple[float, bool]:
    """Return the factor of a metric, and whether it is that of parts of 1."""
    is_share = "accuracy" in name
    return (100.0 if is_share else 1.0), is_share
