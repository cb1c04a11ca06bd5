"""`check`: tries a recipe on one batch, and says what is found; no run is stored."""

from __future__ import annotations

import math
import time

import msgspec

from engine import client
from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.follow import CtrlC
from engine.cli.output import Exit, Interrupted, err, format_number, out, print_json
from engine.cli.watch import updates
from engine.messages import commands
from engine.messages.events import Notice, TrainingStarted
from engine.planning.own_data_folder import own_data_folder
from engine.planning.recipe_check import CheckResult
from engine.runs.run_info import failure_of
from engine.runs.run_state import TRAINING_LOSS, RunState
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.training.loop import ONE_BATCH

END_SECONDS = 20.0
"""Time for the workers to end once they were told to."""


def check(recipe: str, options: RunOptions, *, seconds: float, json: bool) -> Exit:
    """Import the recipe in workers, build model and data, do one step and one batch of validation.

    It takes at most `seconds`. Raises CannotStart, UnknownName, Refused, Interrupted.
    """
    info = catalog.recipe(recipe)
    spec = make_spec(info, options)
    asked = msgspec.structs.replace(spec, steps=1, max_restarts=0, on_disk_full="stop")
    untried = CheckResult(
        recipe=info.path,
        framework=info.framework,
        strategy=spec.strategy,
        devices=spec.devices,
        functions=info.functions,
        settings={field.name: field.default for field in info.fields} | spec.settings,
    )
    with CtrlC() as ctrl_c, own_data_folder("check", **{ONE_BATCH: "1"}):
        found = _try(asked, untried, ctrl_c, seconds)
    if json:
        print_json(found)
    else:
        _print(info, spec, found)
    return Exit.DONE if found.ok else Exit.FAILED


def _try(spec: RunSpec, untried: CheckResult, ctrl_c: CtrlC, seconds: float) -> CheckResult:
    """Return `untried` with what was found. Raises CannotStart, Interrupted."""
    begun = time.monotonic()
    run_id = client.start(spec)
    stopped = ""
    notices: list[str] = []
    training: TrainingStarted | None = None
    for update in updates(run_id, after=0, attempt=1):
        for stored in update.events:
            match stored.event:
                case Notice(text) if text not in notices:
                    notices.append(text)
                case TrainingStarted():
                    training = stored.event
        if update.state.is_over:
            break
        late = time.monotonic() - begun - seconds
        if not stopped and (ctrl_c.count or late > 0):
            stopped = "interrupted" if ctrl_c.count else "late"
            client.send(run_id, commands.Stop(now=True))
        elif late > END_SECONDS:
            break
    taken = time.monotonic() - begun
    if stopped == "interrupted":
        raise Interrupted("The check was interrupted.")
    run = client.get_run(run_id)
    failure = None if stopped else failure_of(run)
    problem = ""
    if stopped:
        problem = (
            f"It was not done with one batch within {seconds:.0f} s: `--seconds` gives it more "
            "time."
        )
    elif failure:
        problem = failure.message
    elif run.state is not RunState.FINISHED:
        problem = run.reason
    return msgspec.structs.replace(
        untried,
        ok=not problem,
        problem=problem,
        where=failure.where if failure else "",
        details=failure.details if failure else "",
        notices=tuple(notices),
        parameters=training.parameters if training else 0,
        steps_per_epoch=training.steps_per_epoch if training else 0,
        loss=run.status.metrics.get(TRAINING_LOSS),
        metrics=tuple(sorted(run.status.metrics.keys() - {TRAINING_LOSS})),
        seconds=taken,
    )


def _print(info: RecipeInfo, spec: RunSpec, found: CheckResult) -> None:
    console = out()
    what = {"torch": "PyTorch", "keras": "Keras"}.get(info.framework, info.framework)
    names = ", ".join(f"{name}()" for name in found.functions)
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
