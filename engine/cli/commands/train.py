"""`train` and `resume`: start a run, then follow it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from engine.cli.commands.script import variable_changes
from engine.cli.devices import resolve_devices
from engine.cli.follow import CtrlC, VerificationView, follow_started_run, print_detached
from engine.cli.output import Exit, Refused, err, out
from engine.cli.transfers import tell_sent
from engine.cli.watch import wait_for_event
from engine.environments.needs import package_of
from engine.facts.equivalent_command import DEFAULT_STRATEGY
from engine.facts.settings import RECIPE_DEFAULTS
from engine.interface.engine import Engine
from engine.interface.recipes import recipe_of, send_recipe
from engine.messages import commands
from engine.messages.events import RecipeVersion, Resumed
from engine.runs.checkpoints.checkpoint_files import BEGINNING, OWN
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import tags_of
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.recipe_file import RecipeInfo, no_recipe
from engine.spec.run_spec import RunSpec

_ANSWERS = {
    text: version
    for number, version in enumerate(RecipeVersion, 1)
    for text in (str(number), str(version))
}


class RunOptions(NamedTuple):
    """The options of `train` and `resume`. None: the default, or the present value of the run."""

    strategy: str | None = None
    devices: str | None = None
    name: str | None = None
    settings: Sequence[str] = ()
    """Such as `width=64`."""

    fields: Mapping[str, Setting] = MappingProxyType({})
    """The given fields of `engine.spec.run_spec.FIELDS`."""

    variables: Sequence[str] = ()
    stored_variables: Sequence[str] = ()
    """Of a script, such as `WANDB_MODE=offline`."""

    resume_with: str | None = None
    tags: Sequence[str] = ()
    """Of a new run; one text may hold several, separated by commas."""

    environment: str | None = None
    """A name or a path, as `engine.scripts.interpreters.interpreter_of` takes it."""


def train(
    engine: Engine,
    recipe: str,
    options: RunOptions,
    *,
    planned: int | None,
    detach: bool,
    json: bool,
) -> Exit:
    """Start a run and follow it to its end. Raises CannotStart, UnknownName, Refused.

    `planned`: the number of what was measured before, of which the run keeps a copy.
    """
    spec = send(engine, make_spec(engine, catalog.recipe(recipe), options))
    with CtrlC() as ctrl_c:
        run_id = engine.start(spec, tags_of(",".join(options.tags)), planned)
        if detach:
            return print_detached(engine, run_id, json=json)
        return follow_started_run(engine, run_id, ctrl_c, after=0, attempt=1, json=json)


def resume(
    engine: Engine,
    run_id: str,
    options: RunOptions,
    *,
    checkpoint: str | None,
    as_new: bool,
    recipe: str | None,
    detach: bool,
    json: bool,
) -> Exit:
    """Resume a paused run; or continue a run that is over from a checkpoint, and follow it.

    With `as_new`, continue it as a new run. `checkpoint` None: the newest; without any, from the
    beginning. `recipe`: the RecipeVersion to go on with if the recipe has changed; None: ask, where
    there is a terminal. Raises NoSuchRun, CannotStart, CommandFailed, UnknownName, Refused,
    Unanswered.
    """
    info = engine.get_run(run_id)
    if info.state is RunState.PAUSED:
        return _resume_paused(engine, info, options, checkpoint, recipe, as_new)
    version = _recipe_version(engine, info, recipe)
    spec = _changed_spec(engine, info, options, version)
    with CtrlC() as ctrl_c:
        with VerificationView(run_id, ctrl_c) as view:
            is_own = spec.is_script and checkpoint is None
            meaning = engine.explain_resume(run_id, spec) if is_own else ""
            resumed = engine.resume(
                run_id, checkpoint or "", spec, version, view.show, as_new=as_new
            )
        if resumed.checkpoint == BEGINNING:
            err().print(f"Run {run_id} starts again from the beginning.", soft_wrap=True)
        elif resumed.checkpoint == OWN:
            err().print(meaning, soft_wrap=True)
        if detach:
            return print_detached(engine, resumed.run, json=json)
        return follow_started_run(
            engine, resumed.run, ctrl_c, after=resumed.after, attempt=resumed.attempt, json=json
        )


def send(engine: Engine, spec: RunSpec) -> RunSpec:
    """Send the recipe or script of `spec`, if the engine is of another machine, and say so.

    Return the settings with which it runs there. Raises CannotStart.
    """
    there, _ = send_recipe(engine, spec, partial(tell_sent, engine.machine))
    return there


def make_spec(engine: Engine, recipe: RecipeInfo, options: RunOptions) -> RunSpec:
    """Return the settings of a run of `recipe` with `options`. Raises Refused, UnknownName."""
    if problem := recipe.problem or no_recipe(recipe):
        on_machine = f"run --on {engine.machine} -- " if engine.machine else "run -- "
        raise Refused(problem.replace("run -- ", on_machine))
    defaults: dict[str, Any] = {name: getattr(recipe, name) for name in RECIPE_DEFAULTS}
    given = dict(options.fields)
    if "epochs" in given and "steps" not in given:
        given["steps"] = 0  # the recipe's own number of steps would go before them
    name = DEFAULT_STRATEGY if options.strategy is None else options.strategy
    strategy = catalog.strategy(name, recipe)
    package = package_of(strategy.framework)
    interpreter = _find_interpreter(engine, options.environment, package)
    return RunSpec(
        recipe=recipe.reference,
        strategy=strategy.name,
        devices=resolve_devices(engine, options.devices),
        settings=dict(_setting(text, recipe) for text in options.settings),
        name=options.name or "",
        interpreter=interpreter,
        **defaults | given,
    )


def _find_interpreter(engine: Engine, name: str | None, framework: str = "") -> str:
    """Return the Python that `--env` names; without it, the one that trains the framework.

    Empty: Traindeck's own. A path is one of the engine's machine. Raises NoInterpreter.
    """
    return engine.find_interpreter(name or "", framework, "" if engine.machine else str(Path.cwd()))


def _recipe_version(engine: Engine, info: RunInfo, given: str | None) -> RecipeVersion:
    """Return with which recipe the run goes on; ask if it has changed and none is `given`."""
    if given is not None:
        return RecipeVersion(given)
    changes = engine.find_recipe_changes(info.id)
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


def _changed_spec(
    engine: Engine, info: RunInfo, options: RunOptions, version: RecipeVersion
) -> RunSpec:
    before = info.spec
    changes: dict[str, Any] = dict(options.fields)
    if options.devices is not None:
        changes["devices"] = resolve_devices(engine, options.devices)
    if options.name is not None:
        changes["name"] = options.name
    if options.environment is not None:
        changes["interpreter"] = _find_interpreter(engine, options.environment)
    variables = [*options.variables, *options.stored_variables]
    if (variables or options.resume_with is not None) and not before.is_script:
        raise Refused(f"--var and --resume-with are for scripts: run {info.id} trains a recipe.")
    changes |= variable_changes(before, options.variables, options.stored_variables)
    if options.resume_with is not None:
        changes["resume_arguments"] = options.resume_with
    if options.strategy is not None or options.settings:
        recipe = recipe_of(engine, info.id, before)
        if version is RecipeVersion.AS_IT_IS_NOW and not engine.machine:
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
    engine: Engine,
    info: RunInfo,
    options: RunOptions,
    checkpoint: str | None,
    recipe: str | None,
    as_new: bool,
) -> Exit:
    given = options._asdict() | {"checkpoint": checkpoint, "recipe": recipe}
    names = ("checkpoint", "recipe", "strategy", "devices", "name", "resume_with", "environment")
    flags = [name for name in names if given[name] is not None]
    flags += [*options.fields, *["set"] * bool(options.settings), *["as-new-run"] * as_new]
    flags += ["var"] * bool(options.variables or options.stored_variables)
    if flags:
        raise Refused(
            f"Run {info.id} is paused and goes on where it is: leave out "
            f"--{flags[0].replace('_', '-')}, or stop the run first."
        )
    seq = engine.send(info.id, commands.Resume())
    step = wait_for_event(engine, info.id, Resumed, after=seq).step
    out().print(f"Run {info.id} goes on after step {step}.", soft_wrap=True)
    return Exit.DONE
