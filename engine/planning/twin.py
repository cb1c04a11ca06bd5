"""Twin runs: a Keras recipe under PyTorch and under TensorFlow, in all else the same.

`python -m engine.planning.twin ID` starts the second one for the window, which may be closed.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from engine import client
from engine.facts.run_facts import read_facts
from engine.planning.race import with_strategy
from engine.processes.process import END_SIGNALS, start_module
from engine.runs.run_info import NoSuchRun, RunInfo
from engine.runs.run_notes import RunNotes, UnreadableNotes, read_notes, write_notes
from engine.runs.run_state import TRAINING_LOSS, RunState
from engine.runs.store.store_reader import RunReader
from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.system import paths

INITIAL_WEIGHTS = "initial-weights.npz"
"""In the folder of the first run, which draws and writes them."""

_TAG = "twin-"

_TITLES = (" (PyTorch)", " (TensorFlow)")
"""What follows the name of the first run, and of the second one."""

_NOTE = "Twin: "
"""How the line of the notes on both runs begins that says what becomes of the twin run."""

_LOOK_SECONDS = 0.5

_RANDOM = ("Dropout", "SpatialDropout", "Gaussian", "AlphaDropout", "Random")
"""How the names of Keras layers begin that draw random numbers."""


class NoTwins(Exception):
    """There is no second run, or none of both; the text is a sentence."""


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
        name=spec.name and spec.name + _TITLES[0],
    )


def second_twin(spec: RunSpec, first_id: str) -> RunSpec:
    """Return the run under TensorFlow, which begins with the weights of the run `first_id`."""
    name = "tf/single" if len(spec.devices) == 1 else "tf/mirrored"
    return replace(
        with_strategy(spec, catalog.strategy(name), spec.devices),
        initial_weights=str(paths.run_folder(first_id) / INITIAL_WEIGHTS),
        name=spec.name and spec.name.removesuffix(_TITLES[0]) + _TITLES[1],
    )


def checked_twin(spec: RunSpec, recipe: RecipeInfo) -> RunSpec:
    """Return the first of both runs, if both can run. Raises NoTwins, CannotStart."""
    first = first_twin(spec, recipe)
    if found := client.check(first) or client.check(second_twin(spec, "0")):
        raise client.CannotStart(found)
    return first


def start_twins(spec: RunSpec, recipe: RecipeInfo, tags: Iterable[str] = ()) -> str:
    """Start the first run, and a process that starts the second one; return the id of the first.

    The process outlives this one. It starts the second run once the first has written its weights,
    and writes into the notes on both what has become of it. Raises NoTwins, CannotStart, OSError.
    """
    first_id = client.start(checked_twin(spec, recipe), [*tags, new_tag()])
    _note([first_id], "starts under TensorFlow once this run has written its initial weights.")
    try:
        process = start_module(
            "engine.planning.twin",
            first_id,
            log=paths.run_folder(first_id) / "logs" / "twin.log",
            environment=os.environ,
            own_session=True,
        )
    except OSError as error:
        text = f"its process could not be started ({error.strerror or error})."
        _note([first_id], f"not started: {text}")
        raise NoTwins(f"Run {first_id} trains alone, without a twin: {text}") from error
    threading.Thread(target=process.wait, daemon=True, name="reap").start()
    return first_id


def twin_tag(notes: RunNotes) -> str:
    """Return the tag that a run shares with its twin; empty: it has none."""
    return next((tag for tag in notes.tags if tag.startswith(_TAG)), "")


def told(notes: RunNotes) -> str:
    """Return what the notes on one of both runs say of the twin run; empty: nothing."""
    return next((line for line in notes.note.splitlines() if line.startswith(_NOTE)), "")


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


def verdict(runs: Sequence[RunInfo], found: Twins) -> str:
    """Return in sentences how far the losses of both `runs` differ, and what adds to it."""
    if not found.steps:
        return "There is no step that both runs have done: nothing can be compared."
    text = (
        f"Over {len(found.steps)} steps, both losses differ by at most "
        f"{found.largest_difference:.1e} (at step {found.at_step})."
    )
    if layers := _random_layers(runs[0]):
        text += (
            f" The model has layers that draw random numbers ({', '.join(layers)}). Each framework "
            "draws others, and the losses differ by that too."
        )
    return text


def _random_layers(run: RunInfo) -> list[str]:
    model = read_facts(run.folder).model
    kinds = [layer.kind.partition(" ")[0] for layer in model.layers] if model else []
    return sorted({kind for kind in kinds if kind.startswith(_RANDOM)})


def _losses(run: RunInfo) -> dict[int, float]:
    with RunReader(run.folder) as reader:
        points = reader.history(TRAINING_LOSS)
    return {int(s): float(v) for s, v in zip(points.step, points.value, strict=True)}


def main(first_id: str) -> int:
    """Start the twin of the run `first_id`, wait for the end of both, and note the result."""
    is_ending = threading.Event()
    for number in END_SIGNALS:
        signal.signal(number, lambda *_: is_ending.set())
    ids = [first_id]

    def wait(is_reached: Callable[[], bool]) -> None:
        while not is_reached():
            if is_ending.wait(_LOOK_SECONDS):
                raise NoTwins("nobody waits any more: the process for it was ended.")

    try:
        ids.append(_start_second(first_id, wait))
        _note(ids, f"run {ids[0]} trains under PyTorch and run {ids[1]} under TensorFlow.")
        wait(lambda: all(client.get_run(each).state.is_over for each in ids))
        runs = [client.get_run(each) for each in ids]
        ends = [
            f"Run {run.id} has ended early ({run.state})."
            for run in runs
            if run.state is not RunState.FINISHED
        ]
        result = verdict(runs, compared(*runs))
        _note(ids, " ".join([f"runs {ids[0]} and {ids[1]}.", *ends, result]))
    except (NoTwins, client.CannotStart, NoSuchRun, OSError, sqlite3.Error) as error:
        begin = "not compared" if len(ids) == 2 else "not started"
        _note(ids, f"{begin}: {' '.join(str(error).split())}")
        return 1
    return 0


def _start_second(first_id: str, wait: Callable[[Callable[[], bool]], None]) -> str:
    """Start the run under TensorFlow once the weights are there. Raises what `client` does, and
    NoTwins if there will be none."""
    weights = paths.run_folder(first_id) / INITIAL_WEIGHTS
    wait(lambda: weights.exists() or client.get_run(first_id).state.is_over)
    first = client.get_run(first_id)
    if not weights.exists():
        raise NoTwins(f"run {first_id} ended before it had written its initial weights.")
    return client.start(second_twin(first.spec, first_id), first.notes.tags)


def _note(run_ids: Iterable[str], text: str) -> None:
    """Write `text` into the notes on these runs, in the place of what stood there of the twin."""
    for run_id in run_ids:
        if not paths.is_run(run_id):  # it was deleted
            continue
        try:
            notes = read_notes(paths.run_folder(run_id))
        except UnreadableNotes:
            notes = RunNotes()
        lines = [line for line in notes.note.splitlines() if not line.startswith(_NOTE)]
        note = "\n".join([*lines, f"{_NOTE}{text}"])
        write_notes(paths.run_folder(run_id), replace(notes, note=note))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
