"""Rules about a few real steps: their speed, their losses, and whether the ranks go along."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence

from engine.doctor.finding import Change, Finding, Level
from engine.planning.checks.figures import milliseconds
from engine.planning.short_run import SHARES, ShortRun
from engine.spec.run_spec import RunSpec, batch_arithmetic

STEPS, RANKS, WEIGHTS, MEMORY = "steps", "ranks", "equal weights", "memory"
STRAGGLES = 0.2
"""Part of a step that a rank computes longer than the others, from which on it is said."""

PATIENCE = 25.0
"""Seconds to the first step, after which the recipe hangs; before, it is a slow start."""

OTHER_BATCH = re.compile(r"choose (\d+) for the run \(")
"""Data that come in batches refuse those of another size with these words (`training_data.py`,
`batch_stream.py`)."""

MORE_TIME = "`traindeck preflight --seconds 120` gives it more time."

LEAST_STEPS = 10
"""Fewer do not show which rank is slow."""


def step_seconds(run: ShortRun) -> float:
    """Return the seconds of a step; 0: not known."""
    if run.step_seconds:
        return run.step_seconds
    return run.spec.batch_size / run.samples_per_second if run.samples_per_second else 0.0


def steps_finding(run: ShortRun) -> Finding:
    """Return what a few steps have shown, or why there were none."""
    if run.is_late and (run.seconds < PATIENCE or not run.where):
        advice = f"{MORE_TIME} A machine that is busy needs more."
        text = f"There was too little time: {run.problem}"
        return Finding(name=STEPS, level="warning", text=text, advice=advice)
    if run.problem:
        where = f" ({run.where})" if run.where else ""
        text = f"It did not train: {run.problem}{where}"
        if found := OTHER_BATCH.search(run.problem):
            change = Change(f"Use the batch size {found[1]}", {"batch_size": int(found[1])})
            advice = "Use the batch size of the data."
            return Finding(name=STEPS, level="error", text=text, advice=advice, change=change)
        return Finding(name=STEPS, level="error", text=text)
    if bad := next((n for n, loss in enumerate(run.losses, 1) if not math.isfinite(loss)), 0):
        return Finding(
            name=STEPS,
            level="error",
            text=f"The loss of step {bad} is not a finite number.",
            advice="Try a smaller learning rate, warm-up steps or gradient clipping, and look at "
            "the data.",
            change=Change(
                f"Use the learning rate {run.spec.learning_rate / 10:g}",
                {"learning_rate": run.spec.learning_rate / 10},
            ),
        )
    seconds = step_seconds(run)
    text = (
        f"{run.steps} step{'s were' if run.steps > 1 else ' was'} trained on "
        f"{len(run.spec.devices)} "
        f"device{'s' * (len(run.spec.devices) > 1)}, the first one "
        f"{run.first_step_seconds:.1f} s after the start"
    )
    if seconds:
        rate = (run.samples_per_step or run.spec.batch_size) / seconds
        text += f": {milliseconds(seconds)} for a step, {rate:,.0f} samples/s"
    if run.shares:
        parts = [f"{run.shares.get(name, 0.0):.0%} {name}" for name in SHARES]
        text += f" ({', '.join(parts)})"
    return Finding(name=STEPS, level="ok", text=f"{text}.")


def ranks_finding(run: ShortRun) -> Finding | None:
    """Return whether the ranks take equally long; None: there is one, or too little is known."""
    own = {rank: 1 - shares["communication"] for rank, shares in run.rank_shares.items()}
    if len(own) < 2 or run.steps < LEAST_STEPS:
        return None
    slowest = max(own, key=lambda rank: own[rank])
    others = statistics.median(value for rank, value in own.items() if rank != slowest)
    if own[slowest] - others < STRAGGLES:
        text = f"All {len(own)} ranks take about equally long for their part of a step."
        return Finding(name=RANKS, level="ok", text=text)
    shares = run.rank_shares[slowest]
    what = "loads samples" if shares["data"] > shares["compute"] else "computes"
    slots = run.spec.slots
    place = f" on {slots[slowest]}" if slowest < len(slots) else ""
    return Finding(
        name=RANKS,
        level="warning",
        text=f"Rank {slowest}{place} straggles: it {what} for {own[slowest]:.0%} of a step, the "
        f"others for {others:.0%}, and then they wait for it.",
        advice="Look at what else uses its device, or train without it.",
    )


def weights_finding(run: ShortRun) -> Finding | None:
    """Return whether all ranks have the same weights after the steps; None: they need not."""
    sums = {
        name: value
        for name, value in run.measured.items()
        if name.startswith("rank/") and name.endswith("/weights")
    }
    if len(sums) < 2:
        return None
    if len(set(sums.values())) == 1:
        text = f"After {run.steps} steps, all {len(sums)} ranks have the same weights, to the bit."
        return Finding(name=WEIGHTS, level="ok", text=text)
    return Finding(
        name=WEIGHTS,
        level="error",
        text=f"After {run.steps} steps, the weights of the {len(sums)} ranks differ: they do not "
        "train one model.",
        advice="Do not change parameters outside the optimizer, and look whether `doctor` finds a "
        "wrong sum over the GPUs.",
    )


def memory_finding(
    spec: RunSpec,
    problem: str,
    too_large: Sequence[RunSpec],
    smaller: RunSpec | None,
    replicas: int,
    *,
    has_trained: bool,
) -> Finding:
    """Return what is said of a batch for which the memory is too small, as were `too_large`.

    `smaller`: settings that need less memory; None: there are none. `has_trained`: whether they
    were tried, and trained.
    """
    level: Level = "error"
    if spec.on_oom == "shrink" and smaller is not None:
        level = "warning"  # the run would go on by itself
    text = f"The batch is too large: {problem}"
    if too_large:
        what = ", ".join(_parts_text(each, replicas) for each in too_large)
        text += f" Nor was there room with {what}."
    if smaller is None:
        advice = "Choose a smaller model, precision bf16, or a strategy that divides the model."
        return Finding(name=MEMORY, level=level, text=text, advice=advice)
    fields: dict[str, bool | int | float | str | list[str]]
    if smaller.accumulation > spec.accumulation:
        use = f"{smaller.accumulation} accumulation steps"
        fields = {"accumulation": smaller.accumulation}
        batch = max(1, spec.batch_size * spec.accumulation // smaller.accumulation)
        more = f", which give the same result; so the batch size {batch} should fit too."
    else:
        use, more = f"the batch size {smaller.batch_size}", "."
        fields = {"batch_size": smaller.batch_size}
    advice = f"It trained with {use}{more}"
    if not has_trained:
        advice = f"There was no time to try {use}, which may fit: it needs about half of that."
    return Finding(
        name=MEMORY, level=level, text=text, advice=advice, change=Change(f"Use {use}", fields)
    )


def _parts_text(spec: RunSpec, replicas: int) -> str:
    return batch_arithmetic(spec.batch_size, max(1, replicas), spec.accumulation)
