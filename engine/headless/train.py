"""`train` and `resume`: start a run, then follow it."""

from __future__ import annotations

from typing import NamedTuple

from engine import catalog, client, commands
from engine.client import RunInfo
from engine.events import Resumed
from engine.field_info import Setting
from engine.headless.follow import CtrlC, follow_own
from engine.headless.machine import default_devices, resolve_devices
from engine.headless.output import Exit, Refused, err, out, print_json, run_object
from engine.headless.watch import answer, last_seq
from engine.recipe_file import RecipeInfo
from engine.run_state import RunState
from engine.spec import RunSpec


class Wishes(NamedTuple):
    """What the command line says about a new run; None stands for the recipe's own default."""

    recipe: str
    strategy: str
    devices: str | None
    batch_size: int | None
    epochs: int | None
    learning_rate: float | None
    seed: int
    name: str
    settings: list[str]
    """Such as `width=64`."""


def train(wishes: Wishes, *, detach: bool, json: bool) -> Exit:
    """Start a run and follow it to its end. Raises CannotStart, UnknownName, Refused."""
    spec = make_spec(wishes)
    with CtrlC() as ctrl_c:
        run_id = client.start(spec)
        if detach:
            return _leave(run_id, json=json)
        return follow_own(run_id, ctrl_c, after=0, attempt=1, json=json)


def resume(run_id: str, checkpoint: str | None, *, detach: bool, json: bool) -> Exit:
    """Let a paused run go on, or continue one that is over from a checkpoint and follow it."""
    info = client.look(run_id)
    if info.state is RunState.PAUSED:
        return _unpause(info, checkpoint)
    folder = info.folder / "checkpoints" / checkpoint if checkpoint else None
    after = last_seq(info.folder)
    with CtrlC() as ctrl_c:
        client.resume(run_id, folder)
        if detach:
            return _leave(run_id, json=json)
        attempt = info.status.attempt + 1
        return follow_own(run_id, ctrl_c, after=after, attempt=attempt, json=json)


def make_spec(wishes: Wishes) -> RunSpec:
    """The spec of a new run. Raises UnknownName or Refused."""
    recipe = catalog.recipe(wishes.recipe)
    if recipe.problem:
        raise Refused(recipe.problem)
    return RunSpec(
        recipe=recipe.reference,
        strategy=catalog.strategy(wishes.strategy, recipe).name,
        devices=default_devices() if wishes.devices is None else resolve_devices(wishes.devices),
        batch_size=recipe.batch_size if wishes.batch_size is None else wishes.batch_size,
        epochs=recipe.epochs if wishes.epochs is None else wishes.epochs,
        learning_rate=(
            recipe.learning_rate if wishes.learning_rate is None else wishes.learning_rate
        ),
        seed=wishes.seed,
        settings=dict(_setting(text, recipe) for text in wishes.settings),
        name=wishes.name,
    )


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
    return name, value  # `engine.spec.problems` says which settings there are


def _leave(run_id: str, *, json: bool) -> Exit:
    if json:
        print_json(run_object(client.look(run_id)))
    else:
        out().print(run_id)
    hint = f"Run {run_id} has started: `python main.py attach {run_id}` follows it."
    err().print(hint, soft_wrap=True)
    return Exit.DONE


def _unpause(info: RunInfo, checkpoint: str | None) -> Exit:
    if checkpoint is not None:
        raise Refused(
            f"Run {info.id} is paused and goes on where it is: leave out --checkpoint, "
            "or stop the run first."
        )
    seq = client.send(info.id, commands.Resume())
    step = answer(info.id, Resumed, after=seq).step
    out().print(f"Run {info.id} goes on after step {step}.", soft_wrap=True)
    return Exit.DONE
