"""Finds the line that a rank executes, of a run that takes too long."""

from __future__ import annotations

import contextlib
import time

from engine.diagnosis.stack_dumps import WorkerLocation, locate_worker, working_threads
from engine.processes.process import ask_for_stacks
from engine.runs.run_info import RunInfo
from engine.spec import catalog
from engine.spec.recipe_copy import recipe_of_run
from engine.system.paths import stacks_file

STACKS_SECONDS = 0.5


def whereabouts(run: RunInfo) -> WorkerLocation | None:
    """Return where the first rank is that executes the recipe, or else the first that answers.

    None: no rank has come so far that it can be asked.
    """
    asked = []
    for rank, pid in enumerate(run.status.worker_pids):
        file = stacks_file(run.folder, rank)
        with contextlib.suppress(OSError):  # without the file, the signal would end the worker
            asked.append((rank, file, file.stat().st_size))
            ask_for_stacks(pid)
    if not asked:
        return None
    time.sleep(STACKS_SECONDS)
    recipe = recipe_of_run(run.folder, run.spec)
    plans = catalog.strategy(run.spec.strategy).pool(run.spec.slots)
    found = []
    for rank, file, size in asked:
        with contextlib.suppress(OSError):
            text = file.read_bytes()[size:].decode(errors="replace")
            if threads := working_threads(text):
                found.append(locate_worker(plans[rank], threads, recipe))
    in_recipe = [each for each in found if each.where]
    return next(iter(in_recipe or found), None)
