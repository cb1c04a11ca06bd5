"""Makes a sweep from what a person asks for; the command line and the form both use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from engine import client
from engine.spec.field_info import FieldInfo, Setting, fields_of
from engine.spec.metric_direction import long_name, lower_is_better, split_series
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.spec_fields import LARGEST
from engine.spec.validation import Problem
from engine.sweeps.ranges import CannotSweep, Choices, Interval, Range, grid_size, parse_setting
from engine.sweeps.sweep import MOST_TRIALS, Pruner, Sampler, Sweep

DEFAULT_TRIALS = 20


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a sweep chooses its runs; the form shows the annotated fields, see OPTIONS."""

    sampler: Annotated[
        Sampler,
        Meta(
            title="Sampler",
            description="How the values of each run are chosen.",
            extra={
                "choices": {
                    "tpe": ("TPE", "near the values that were good so far"),
                    "random": ("Random", "at random"),
                    "grid": ("Grid", "all combinations, once each"),
                }
            },
        ),
    ] = "tpe"
    trials: Annotated[
        int, Meta(title="Runs", description="How many runs.", ge=1, le=MOST_TRIALS)
    ] = DEFAULT_TRIALS
    whole_grid: bool = False
    """Whether a grid has as many runs as combinations, whatever `trials` says."""

    parallel: Annotated[
        int,
        Meta(
            title="At one time",
            description="Runs at one time. They share the devices equally; those of one device "
            "compute side by side.",
            ge=1,
            le=MOST_TRIALS,
        ),
    ] = 1
    pruner: Annotated[
        Pruner,
        Meta(
            title="Pruner",
            description="Which runs end early, because others were better at the same step.",
            extra={
                "choices": {
                    "none": ("None", "all runs train to their end"),
                    "median": ("Median", "those worse than the median, after four whole runs"),
                    "successive-halving": (
                        "Successive halving",
                        "all but the best quarter of each group",
                    ),
                }
            },
        ),
    ] = "none"
    metric: Annotated[
        str,
        Meta(
            title="Metric",
            description="What is to be best, such as accuracy, or novelty:max if the name does "
            "not say which way; train/accuracy is that of the training. The best value of each run "
            "counts.",
            extra={"zero": "validation loss"},
        ),
    ] = ""
    seed: Annotated[
        int,
        Meta(
            title="Sampler seed",
            description="Another seed chooses other values. With one run at a time, equal seeds "
            "give equal values.",
            ge=0,
            le=LARGEST,
        ),
    ] = 0


OPTIONS = fields_of(SweepOptions)


def parse_settings(
    texts: Iterable[str], known: Mapping[str, FieldInfo]
) -> tuple[dict[str, Range], dict[str, Setting]]:
    """Return the ranges, and the single values that all runs have. Raises CannotSweep."""
    ranges: dict[str, Range] = {}
    fixed: dict[str, Setting] = {}
    for text in texts:
        name, value = parse_setting(text, known)
        if name in ranges or name in fixed:
            raise CannotSweep(f"{name} is set twice: name its values once, with commas between.")
        if isinstance(value, Choices | Interval):
            ranges[name] = value
        else:
            fixed[name] = value
    return ranges, fixed


def propose(
    base: RunSpec,
    recipe: RecipeInfo,
    ranges: Mapping[str, Range],
    fixed: Mapping[str, Setting],
    options: SweepOptions,
) -> Sweep:
    """Return the sweep over `ranges`, whose runs are as `base` otherwise, with the `fixed` values.

    Raises CannotSweep. `first_problems` says whether its runs could start.
    """
    own = {info.name: info.default for info in recipe.fields}
    settings = base.settings | {name: each for name, each in fixed.items() if name in own}
    fields = {name: each for name, each in fixed.items() if name not in own}
    settings = {name: each for name, each in settings.items() if own.get(name) != each}
    base = msgspec.structs.replace(base, settings=settings, **fields)
    metric, direction = split_series(options.metric.strip())
    metric = long_name(metric)
    by_name = lower_is_better(metric or "loss", recipe.metric_directions)
    lowest = by_name if direction is None else direction == "min"
    return Sweep(
        base=base,
        ranges=dict(ranges),
        own_settings=tuple(sorted(own.keys() & ranges.keys())),
        trials=_trials(ranges, options),
        sampler=options.sampler,
        pruner=options.pruner,
        metric=metric,
        lowest=lowest,
        parallel=options.parallel,
        seed=options.seed,
    )


def first_problems(sweep: Sweep) -> list[Problem]:
    """Return why runs of `sweep` could not start: those with the first and with the last values."""
    for place in (0, -1):
        values = {name: _end(each, place) for name, each in sweep.ranges.items()}
        if found := client.check(sweep.spec_of(values, 0)):
            return found
    return []


def _trials(ranges: Mapping[str, Range], options: SweepOptions) -> int:
    if options.sampler != "grid" or not ranges:
        return options.trials
    size = grid_size(ranges)
    if not options.whole_grid:
        return min(options.trials, size)
    if size > MOST_TRIALS:
        raise CannotSweep(
            f"This grid has {size:,} combinations: name fewer values, or a number of runs."
        )
    return size


def _end(range_: Range, place: int) -> Setting:
    if isinstance(range_, Choices):
        return range_.values[place]
    end = (range_.low, range_.high)[place]
    return int(end) if range_.whole else end
