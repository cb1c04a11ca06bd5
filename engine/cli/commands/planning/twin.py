"""`twin`: a Keras recipe under PyTorch and TensorFlow, and how far both losses differ."""

from __future__ import annotations

import math

from rich.table import Table

from engine import client
from engine.cli.commands.train import RunOptions, make_spec
from engine.cli.follow import CtrlC, exit_code, follow_to_end
from engine.cli.output import Exit, Refused, err, out, print_json, run_as_json
from engine.cli.summary import print_failure
from engine.client import RunInfo
from engine.planning.twin import (
    NoTwins,
    Twins,
    checked_twin,
    compared,
    new_tag,
    second_twin,
    verdict,
)
from engine.runs.run_notes import tags_of
from engine.spec import catalog
from engine.system.program import call

MOST_ROWS = 20
"""Steps that are printed; `--json` has all."""


def twin(recipe: str, options: RunOptions, *, json: bool) -> Exit:
    """Train twin runs, one after the other, and compare them step by step.

    Ctrl-C ends the run that trains, as it does with `train`, and starts no other one. Raises
    CannotStart, UnknownName, Refused.
    """
    info = catalog.recipe(recipe)
    spec = make_spec(info, options._replace(strategy="torch/keras_ddp"))
    try:
        first = checked_twin(spec, info)  # before hours of the first one
    except NoTwins as error:
        raise Refused(str(error)) from error
    tag = new_tag()
    tags = [*tags_of(",".join(options.tags)), tag]
    runs: list[RunInfo] = []
    with CtrlC() as ctrl_c:
        for number in range(2):
            wanted = second_twin(spec, runs[0].id) if number else first
            run_id = client.start(wanted, tags)
            err().print(f"Run {run_id} trains with {wanted.strategy}.", soft_wrap=True)
            follow_to_end(run_id, ctrl_c)
            runs.append(client.get_run(run_id))
            if (code := exit_code(runs[-1])) is not Exit.DONE or ctrl_c.count:
                break
    found_twins = compared(*runs) if len(runs) == 2 else Twins()
    if json:
        print_json(
            {
                "tag": tag,
                "runs": [run_as_json(run) | {"strategy": run.spec.strategy} for run in runs],
                "steps": found_twins.steps,
                "losses": found_twins.losses,
                "largest_difference": found_twins.largest_difference,
                "at_step": found_twins.at_step,
            }
        )
    elif found_twins.steps:
        _print(runs, found_twins, tag)
    for run in runs:
        print_failure(err(), run)
    if ctrl_c.count and (len(runs) < 2 or code is not Exit.DONE):
        err().print("The twin runs were interrupted: they are not compared to their end.")
        return Exit.INTERRUPTED
    return code


def _print(runs: list[RunInfo], found: Twins, tag: str) -> None:
    console = out()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("step", *(run.spec.strategy for run in runs), "difference"):
        table.add_column(column, justify="right")
    rows = list(zip(found.steps, *found.losses, strict=True))
    every = math.ceil(len(rows) / MOST_ROWS)
    for step, one, two in rows[every - 1 :: every]:
        table.add_row(str(step), f"{one:.6f}", f"{two:.6f}", f"{abs(one - two):.1e}")
    console.print(table)
    console.print(verdict(runs, found), soft_wrap=True)
    ids = " and ".join(run.id for run in runs)
    export = call(f"export {' '.join(run.id for run in runs)} --format html")
    console.print(
        f"Runs {ids} have the tag {tag}; `{export}` draws their curves over each other, and so "
        "does the comparison in the window.",
        soft_wrap=True,
    )
