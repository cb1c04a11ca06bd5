"""`check`: tries a recipe on one batch, and says what is found; no run is stored."""

from __future__ import annotations

import math
from functools import partial

import msgspec

from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Interrupted, err, format_number, out, print_json
from engine.cli.transfers import tell_sent
from engine.interface.engine import Engine
from engine.interface.recipes import try_recipe
from engine.planning.results import CheckResult
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec


def check(engine: Engine, recipe: str, options: RunOptions, *, seconds: float, json: bool) -> Exit:
    """Import the recipe in workers, build model and data, do one step and one batch of validation.

    It takes at most `seconds`. Raises CannotStart, UnknownName, Refused, Interrupted.
    """
    info = catalog.recipe(recipe)
    spec = make_spec(engine, info, options)
    with CtrlC() as ctrl_c:
        sent = partial(tell_sent, engine.machine)
        found = try_recipe(engine, spec, ctrl_c.event, seconds, sent)
    if ctrl_c.count:
        raise Interrupted("The check was interrupted.")
    if json:
        print_json(msgspec.structs.asdict(found))
    else:
        _print(info, spec, found)
    return Exit.DONE if found.ok else Exit.FAILED


def _print(info: RecipeInfo, spec: RunSpec, found: CheckResult) -> None:
    console = out()
    what = {"torch": "PyTorch", "keras": "Keras"}.get(info.framework, info.framework)
    names = ", ".join(f"{name}()" for name in info.functions)
    console.print(f"{info.path}: a {what} recipe with {names}.", soft_wrap=True)
    if found.settings:
        settings = ", ".join(f"{name}={value!r}" for name, value in found.settings.items())
        console.print(f"Settings: {settings}.", soft_wrap=True)
    if found.parameters:
        text = f"The model has {found.parameters:,} trainable parameters"
        if found.steps_per_epoch:
            text += f", and an epoch {found.steps_per_epoch:,} steps of {spec.batch_size} samples"
        console.print(f"{text}.", soft_wrap=True)
    if found.loss is not None:
        text = f"The loss of the first batch is {format_number(found.loss)}"
        if found.metrics:
            text += f"; the validation gives {', '.join(found.metrics)}"
        console.print(f"{text}.", soft_wrap=True)
        if not math.isfinite(found.loss):
            console.print("Such a loss trains nothing.", style="red")
    for notice in found.notices:
        console.print(notice, style="yellow", soft_wrap=True)
    if found.ok:
        where = f"{spec.strategy} on {', '.join(spec.devices)}"
        text = f"One batch was trained with {where}, in {found.seconds:.1f} s. No run was stored."
        console.print(text, style="green", soft_wrap=True)
        return
    err().print(found.problem, style="red", soft_wrap=True)
    for line in found.details.splitlines():
        err().print(f"  {line}", soft_wrap=True)
    if found.where:
        err().print(f"  at {found.where}", soft_wrap=True)
