"""`train` and `resume`: start a run, then follow it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine import client
from engine.cli.commands.script import interpreter_given, variables_of
from engine.cli.devices import default_devices, resolve_devices
from engine.cli.follow import CtrlC, VerificationView, follow_started_run, print_detached
from engine.cli.options import RECIPE_DEFAULTS
from engine.cli.output import Exit, Refused, err, out
from engine.cli.watch import last_seq, newest_attempt, wait_for_event
from engine.client import RunInfo
from engine.environments.needs import package_of
from engine.environments.registry import default_interpreter
from engine.facts.equivalent_command import DEFAULT_STRATEGY
from engine.messages import commands
from engine.messages.events import RecipeVersion, Resumed
from engine.planning import kept
from engine.repair.take_over import take_over
from engine.runs import checkpoint_files
from engine.runs.checkpoint_files import BEGINNING, OWN
from engine.runs.run_notes import tags_of
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.recipe_copy import recipe_of_run
from engine.spec.recipe_file import RecipeInfo, no_recipe
from engine.spec.run_spec import RunSpec

_ANSWERS = {
    text: version
    for number, version in enumerate(RecipeVersion, 1)
    for text in (str(number), str(version))
}


class RunOptions(NamedTuple):
    """The options of `train` and `resume`. None: the default, or the present value of the run."""

    strategy: str | None
    devices: str | None
    name: str | None
    settings: Sequence[str]
    """Such as `width=64`."""

    fields: Mapping[str, Setting]
    """The given fields of `engine.spec.run_spec.FIELDS`."""

    variables: Sequence[str] = ()
    """Of a script, such as `WANDB_MODE=offline`."""

    resume_with: str | None = None
    tags: Sequence[str] = ()
    """Of a new run; one text may hold several, separated by commas."""

    environment: str | None = None
    """A name or a path, as `engine.scripts.interpreters.interpreter_of` takes it."""


def train(
    recipe: str, options: RunOptions, *, planned: int | None, detach: bool, json: bool
) -> Exit:
    """Start a run and follow it to its end. Raises CannotStart, UnknownName, Refused.

    `planned`: the number of what was measured before, of which the run keeps a copy.
    """
    spec = make_spec(catalog.recipe(recipe), options)
    try:
        planning = None if planned is None else kept.planned(planned)
    except kept.NoSuchResult as error:
        raise Refused(str(error)) from error
    with CtrlC() as ctrl_c:
        run_id = client.start(spec, tags_of(",".join(options.tags)), planning)
        if detach:
            return print_detached(run_id, json=json)
        return follow_started_run(run_id, ctrl_c, after=0, attempt=1, json=json)


def resume(
    run_id: str,
    options: RunOptions,
    *,
    checkpoint: str | None,
    as_new: bool,
    recipe: str | None,
    takes_over: bool,
    detach: bool,
    json: bool,
) -> Exit:
    """Resume a paused run; or continue a run that is over from a checkpoint, and follow it.

    With `as_new`, continue it as a new run. `checkpoint` None: the newest; without any, from the
    beginning. `recipe`: the RecipeVersion to go on with if the recipe has changed; None: ask, where
    there is a terminal. `takes_over`: also if it was on another machine, which is gone. Raises
    NoSuchRun, CannotStart, CannotTakeOver, CommandFailed, UnknownName, Refused, NoAnswer.
    """
    if takes_over:
        take_over(run_id)
    info = client.get_run(run_id)
    if info.state is RunState.PAUSED:
        return _resume_paused(info, options, checkpoint, recipe, as_new)
    version = _recipe_version(info, recipe)
    folder = None
    if checkpoint is not None:
        folder = info.folder / checkpoint_files.FOLDER / checkpoint
    spec = _changed_spec(info, options, version)
    attempt, after = info.status.attempt + 1, last_seq(info.folder)
    with CtrlC() as ctrl_c:
        with VerificationView(run_id, ctrl_c) as view:
            how = client.resume_meaning(info, spec) if spec.is_script and checkpoint is None else ""
            if as_new:
                run_id = client.resume_as_new(run_id, folder, spec, view.show, version)
            else:
                name = client.resume(run_id, folder, spec, view.show, version)
                if name == BEGINNING:
                    err().print(f"Run {run_id} starts again from the beginning.", soft_wrap=True)
                elif name == OWN:
                    err().print(how, soft_wrap=True)
        if as_new:
            attempt, after = newest_attempt(client.get_run(run_id).folder)
        if detach:
            return print_detached(run_id, json=json)
        return follow_started_run(run_id, ctrl_c, after=after, attempt=attempt, json=json)


def make_spec(recipe: RecipeInfo, options: RunOptions) -> RunSpec:
    """Return the settings of a run of `recipe` with `options`. Raises Refused, UnknownName."""
    if problem := recipe.problem or no_recipe(recipe):
        raise Refused(problem)
    defaults: dict[str, Any] = {name: getattr(recipe, name) for name in RECIPE_DEFAULTS}
    given = dict(options.fields)
    if "epochs" in given and "steps" not in given:
        given["steps"] = 0  # the recipe's own number of steps would go before them
    name = DEFAULT_STRATEGY if options.strategy is None else options.strategy
    strategy = catalog.strategy(name, recipe)
    if options.environment is None:
        interpreter = default_interpreter(package_of(strategy.framework))
    else:
        interpreter = interpreter_given(options.environment, Path.cwd())
    return RunSpec(
        recipe=recipe.reference,
        strategy=strategy.name,
        devices=default_devices() if options.devices is None else resolve_devices(options.devices),
        settings=dict(_setting(text, recipe) for text in options.settings),
        name=options.name or "",
        interpreter=interpreter,
        **defaults | given,
    )


def _recipe_version(info: RunInfo, given: str | None) -> RecipeVersion:
    """Return with which recipe the run goes on; ask if it has changed and none is `given`."""
    if given is not None:
        return RecipeVersion(given)
    changes = client.recipe_changes(info) if info.state.is_over else ""
    if not changes:
        return RecipeVersion.AS_IT_WAS
    was, now = RecipeVersion
    say = partial(err().print, soft_wrap=True)
    if info.spec.is_script:
        say(f"The script has changed since the run's start ({changes}): it runs as it is now.")
        return now
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say(
            f"The recipe has changed since the run's start ({changes}): it goes on with the recipe "
            f"{was}, as kept with the run; `--recipe {now}` takes the changed one."
        )
        return was
    say(f"The recipe has changed since the run's start ({changes}).")
    while True:
        say(f"Go on with it [1] {was} or [2] {now}? ", end="")
        answer = sys.stdin.readline()
        if not answer:
            raise Refused(f"No recipe was chosen: say --recipe {was} or --recipe {now}.")
        if (chosen := answer.strip()) in _ANSWERS:
            return _ANSWERS[chosen]


def _changed_spec(info: RunInfo, options: RunOptions, version: RecipeVersion) -> RunSpec:
    before = info.spec
    changes: dict[str, Any] = dict(options.fields)
    if options.devices is not None:
        changes["devices"] = resolve_devices(options.devices)
    if options.name is not None:
        changes["name"] = options.name
    if options.environment is not None:
        changes["interpreter"] = interpreter_given(options.environment, Path.cwd())
    if (options.variables or options.resume_with is not None) and not before.is_script:
        raise Refused(f"--var and --resume-with are for scripts: run {info.id} trains a recipe.")
    if options.variables:
        changes["variables"] = before.variables | variables_of(options.variables)
    if options.resume_with is not None:
        changes["resume_arguments"] = options.resume_with
    if options.strategy is not None or options.settings:
        recipe = recipe_of_run(info.folder, before)
        if version is RecipeVersion.AS_IT_IS_NOW:
            recipe = catalog.recipe_of(before)
        if options.strategy is not None:
            changes["strategy"] = catalog.strategy(options.strategy, recipe).name
        given = dict(_setting(text, recipe) for text in options.settings)
        defaults = {field.name: field.default for field in recipe.fields}
        # A spec holds only the settings that differ from the defaults of the recipe.
        reset = {name for name in given if name in defaults and given[name] == defaults[name]}
        settings = before.settings | given
        changes["settings"] = {name: settings[name] for name in settings if name not in reset}
    return msgspec.structs.replace(before, **changes)


def _setting(text: str, recipe: RecipeInfo) -> tuple[str, Setting]:
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise Refused(f"--set takes name=value, not {text!r}.")
    for field in recipe.fields:
        if field.name == name:
            try:
                return name, field.parse(value)
            except ValueError as error:
                raise Refused(str(error)) from None
    return name, value  # `engine.spec.validation` refuses it


def _resume_paused(
    info: RunInfo, options: RunOptions, checkpoint: str | None, recipe: str | None, as_new: bool
) -> Exit:
    given = options._asdict() | {"checkpoint": checkpoint, "recipe": recipe}
    names = ("checkpoint", "recipe", "strategy", "devices", "name", "resume_with", "environment")
    flags = [name for name in names if given[name] is not None]
    flags += [*options.fields, *["set"] * bool(options.settings), *["as-new-run"] * as_new]
    flags += ["var"] * bool(options.variables)
    if flags:
        raise Refused(
            f"Run {info.id} is paused and goes on where it is: leave out "
            f"--{flags[0].replace('_', '-')}, or stop the run first."
        )
    seq = client.send(info.id, commands.Resume())
    step = wait_for_event(info.id, Resumed, after=seq).step
    out().print(f"Run {info.id} goes on after step {step}.", soft_wrap=True)
    return Exit.DONE
