"""Twin runs: a Keras recipe under PyTorch and under TensorFlow, in all else the same."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from engine.planning.race import with_strategy
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import UnreadableNotes, read_notes
from engine.runs.run_state import TRAINING_LOSS
from engine.runs.store.store_reader import RunReader
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.system import paths

INITIAL_WEIGHTS = "initial-weights.npz"
"""In the folder of the first run, which draws and writes them."""

_TAG = "twin-"


class NoTwins(Exception):
    """The recipe cannot train under both frameworks; the text is a sentence."""


class Twins(msgspec.Struct, frozen=True, kw_only=True):
    """The training losses of both runs at the steps that both have done."""

    steps: tuple[int, ...] = ()
    losses: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    largest_difference: float = 0.0
    """The largest absolute difference of both losses at one step."""

    at_step: int = 0
    """That step."""


def first_twin(spec: RunSpec, recipe: RecipeInfo) -> RunSpec:
    """Return the run under PyTorch, which writes its initial weights. Raises NoTwins."""
    if recipe.framework != "keras":
        raise NoTwins(
            f"Twin runs need a recipe that both frameworks train, and {recipe.name} is a "
            f"{recipe.framework or 'damaged'} recipe: write it for Keras."
        )
    strategy = catalog.strategy("torch/keras_ddp")
    return replace(
        with_strategy(spec, strategy, spec.devices),
        initial_weights=INITIAL_WEIGHTS,
        name=spec.name and f"{spec.name} (PyTorch)",
    )


def second_twin(spec: RunSpec, first_id: str) -> RunSpec:
    """Return the run under TensorFlow, which begins with the weights of the run `first_id`."""
    name = "tf/single" if len(spec.devices) == 1 else "tf/mirrored"
    return replace(
        with_strategy(spec, catalog.strategy(name), spec.devices),
        initial_weights=str(paths.run_folder(first_id) / INITIAL_WEIGHTS),
        name=spec.name and f"{spec.name} (TensorFlow)",
    )


def new_tag() -> str:
    """Return the tag of two new twin runs, such as `twin-3`."""
    taken = [0]
    for run_id in paths.run_ids():
        try:
            tags = read_notes(paths.run_folder(run_id)).tags
        except UnreadableNotes:
            continue
        numbers = (tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG))
        taken += [int(number) for number in numbers if number.isdecimal()]
    return f"{_TAG}{max(taken) + 1}"


def compared(first: RunInfo, second: RunInfo) -> Twins:
    """Return both training losses, step by step. Raises sqlite3.Error."""
    one, two = _losses(first), _losses(second)
    steps = tuple(step for step in one if step in two)
    if not steps:
        return Twins()
    at_step = max(steps, key=lambda step: abs(one[step] - two[step]))
    return Twins(
        steps=steps,
        losses=(tuple(one[step] for step in steps), tuple(two[step] for step in steps)),
        largest_difference=abs(one[at_step] - two[at_step]),
        at_step=at_step,
    )


def _losses(run: RunInfo) -> dict[int, float]:
    with RunReader(run.folder) as reader:
        points = reader.history(TRAINING_LOSS)
    return {int(s): float(v) for s, v in zip(points.step, points.value, strict=True)}
