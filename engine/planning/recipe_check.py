"""Tries a recipe on one batch: is it imported, trained and validated?"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from engine.planning.own_data_folder import own_data_folder
from engine.planning.results import CheckResult
from engine.planning.short_run import short_run
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.training.loop import ONE_BATCH


def check_recipe(
    spec: RunSpec, seconds: float, is_cancelled: Callable[[], bool] = lambda: False
) -> CheckResult:
    """Import a recipe in workers, build model and data, do one step and one batch of validation.

    It takes at most `seconds`. Raises CannotStart, UnknownName, Cancelled.
    """
    recipe = catalog.recipe_of(spec)
    untried = CheckResult(
        recipe=recipe.path,
        framework=recipe.framework,
        strategy=spec.strategy,
        devices=spec.devices,
        functions=recipe.functions,
        settings={field.name: field.default for field in recipe.fields} | spec.settings,
    )
    with own_data_folder("check", **{ONE_BATCH: "1"}):
        run = short_run(spec, steps=1, seconds=seconds, is_cancelled=is_cancelled)
    problem = run.problem
    if run.is_late:
        problem = f"{problem} `--seconds` gives it more time."
    return replace(
        untried,
        ok=not problem,
        problem=problem,
        where=run.where,
        details=run.details,
        notices=tuple(dict.fromkeys(run.notices)),
        parameters=run.parameters,
        steps_per_epoch=run.steps_per_epoch,
        loss=run.losses[-1] if run.losses else None,
        metrics=run.metrics,
        seconds=run.seconds,
    )
