"""`train` and `resume`: start a run, then follow it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from engine import client
from engine.cli.devices import default_devices, resolve_devices
from engine.cli.follow import CtrlC, follow_own
from engine.cli.options import RECIPES_OWN
from engine.cli.output import Exit, Refused, err, out, print_json, run_object
from engine.cli.watch import answer, last_seq, newest_attempt
from engine.client import RunInfo
from engine.messages import commands
from engine.messages.events import Resumed
from engine.runs import checkpoint_files
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec


class TrainOptions(NamedTuple):
    """What the command line says about a new run; None stands for the recipe's own default."""

    recipe: str
    strategy: str
    devices: str | None
    name: str
    settings: list[str]
    """Such as `width=64`."""

    options: dict[str, Setting]
    """Of `engine.spec.run_spec.FIELDS`, those that were given."""


class From(NamedTuple):
    """What the command line says about resuming; None stands for: as before."""

    checkpoint: str | None = None
    strategy: str | None = None
    devices: str | None = None
    name: str | None = None
    settings: tuple[str, ...] = ()
    """Such as `dropout=0.2`."""

    options: Mapping[str, Setting] = MappingProxyType({})
    """Of `engine.spec.run_spec.FIELDS`, those that were given."""

    as_new: bool = False
    """As a new run: the other stays as it is."""


def train(train_options: TrainOptions, *, detach: bool, json: bool) -> Exit:
    """Start a run and follow it to its end. Raises CannotStart, UnknownName, Refused."""
    spec = make_spec(train_options)
    with CtrlC() as ctrl_c:
        run_id = client.start(spec)
        if detach:
            return _leave(run_id, json=json)
        return follow_own(run_id, ctrl_c, after=0, attempt=1, json=json)


def resume(run_id: str, start: From, *, detach: bool, json: bool) -> Exit:
    """Let a paused run go on, or continue one that is over from a checkpoint and follow it."""
    info = client.get_run(run_id)
    if info.state is RunState.PAUSED:
        return _unpause(info, start)
    folder = None
    if start.checkpoint is not None:
        folder = info.folder / checkpoint_files.FOLDER / start.checkpoint
    spec = changed_spec(info.spec, start)
    attempt, after = info.status.attempt + 1, last_seq(info.folder)
    with CtrlC() as ctrl_c:
        if start.as_new:
            run_id = client.resume_as_new(run_id, folder, spec)
            attempt, after = newest_attempt(client.get_run(run_id).folder)
        else:
            client.resume(run_id, folder, spec)
        if detach:
            return _leave(run_id, json=json)
        return follow_own(run_id, ctrl_c, after=after, attempt=attempt, json=json)


def make_spec(train_options: TrainOptions) -> RunSpec:
    """The spec of a new run. Raises UnknownName or Refused."""
    recipe = catalog.recipe(train_options.recipe)
    if recipe.problem:
        raise Refused(recipe.problem)
    own = {name: getattr(recipe, name) for name in RECIPES_OWN}
    options: dict[str, Any] = own | train_options.options
    return RunSpec(
        recipe=recipe.reference,
        strategy=catalog.strategy(train_options.strategy, recipe).name,
        devices=default_devices()
        if train_options.devices is None
        else resolve_devices(train_options.devices),
        settings=dict(_setting(text, recipe) for text in train_options.settings),
        name=train_options.name,
        **options,
    )


def changed_spec(before: RunSpec, start: From) -> RunSpec:
    """As what a run goes on that was `before`. Raises UnknownName or Refused."""
    changes: dict[str, Any] = dict(start.options)
    if start.devices is not None:
        changes["devices"] = resolve_devices(start.devices)
    if start.name is not None:
        changes["name"] = start.name
    if start.strategy is not None or start.settings:
        recipe = catalog.recipe(before.recipe)
        if start.strategy is not None:
            changes["strategy"] = catalog.strategy(start.strategy, recipe).name
        own = dict(_setting(text, recipe) for text in start.settings)
        defaults = {field.name: field.default for field in recipe.fields}
        back = {name for name, value in own.items() if name in defaults and value == defaults[name]}
        settings = before.settings | own
        changes["settings"] = {name: settings[name] for name in settings if name not in back}
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
    return name, value  # `engine.spec.validation` says which settings there are


def _leave(run_id: str, *, json: bool) -> Exit:
    if json:
        print_json(run_object(client.get_run(run_id)))
    else:
        out().print(run_id)
    hint = f"Run {run_id} has started: `python main.py attach {run_id}` follows it."
    err().print(hint, soft_wrap=True)
    return Exit.DONE


def _unpause(info: RunInfo, start: From) -> Exit:
    words = ("checkpoint", "strategy", "devices", "name")
    flags = [name for name in words if getattr(start, name) is not None]
    flags += start.options
    if start.settings:
        flags.append("set")
    if start.as_new:
        flags.append("as-new-run")
    if flags:
        raise Refused(
            f"Run {info.id} is paused and goes on where it is: leave out "
            f"--{flags[0].replace('_', '-')}, or stop the run first."
        )
    seq = client.send(info.id, commands.Resume())
    step = answer(info.id, Resumed, after=seq).step
    out().print(f"Run {info.id} goes on after step {step}.", soft_wrap=True)
    return Exit.DONE
