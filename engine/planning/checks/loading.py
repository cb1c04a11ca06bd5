"""Rules about sample loading: whether steps wait for it, and how many loader workers end that."""

from __future__ import annotations

from engine.doctor.finding import Change, Finding
from engine.planning.checks.figures import by_rank_and_number, milliseconds
from engine.planning.checks.training import step_seconds
from engine.planning.short_run import ShortRun

NAME = "sample loading"
WAITS = 0.1
"""Share of a step that it waits for samples, from which on the loader is its limit."""

GAIN = 1.1
"""A change is proposed if it makes steps faster by this factor."""


def loading_finding(run: ShortRun, refusal: str, confirmed: ShortRun | None = None) -> Finding:
    """Return whether steps wait for samples, and which number of loader workers ends that.

    `refusal`: why the number cannot be chosen; empty: it can. `confirmed`: a run with the number
    that this function has proposed.
    """
    if refusal:
        return Finding(name=NAME, level="ok", text=refusal)
    if run.measured.get("loading/is_needed") == 0.0:
        text = "The samples are rows of arrays, which need no loader workers."
        return Finding(name=NAME, level="ok", text=text)
    step = step_seconds(run)
    waits = max((shares["data"] for shares in run.rank_shares.values()), default=0.0)
    table = loading_seconds(run)
    measured = ", ".join(
        f"{milliseconds(seconds)} with {n}" for n, seconds in sorted(table.items())
    )
    measured = f" Loading a rank's part of a batch takes {measured} loader workers."
    if not table:
        measured = " There was no time to load with other numbers of loader workers."
    if waits < WAITS or not step:
        text = f"Steps wait for samples {waits:.0%} of their time: the loader is not the limit."
        return Finding(name=NAME, level="ok", text=text + (measured if table else ""))
    text = f"Steps wait for samples {waits:.0%} of their time.{measured}"
    best = best_number(run)
    now = used_number(run)
    if best is None or best == now:
        return Finding(
            name=NAME,
            level="warning",
            text=text,
            advice="Make the loading itself quicker: prepare the samples once, in a form that is "
            "read as it is.",
        )
    expected = _predicted(run, table)[best]
    is_enough = table[best] <= GAIN * _busy(run)
    text += (
        f" With {best}, samples come as fast as the step needs them."
        if is_enough
        else f" {best} is the best of these, and steps still wait."
    )
    use = f"Use {best} loader worker{'s' if best != 1 else ''}"
    advice = f"{use}: a step then takes about {milliseconds(expected)} in place of "
    advice += f"{milliseconds(step)}."
    if confirmed is not None and confirmed.ok and confirmed.samples_per_second:
        advice = (
            f"{use}: tried, it gave {confirmed.samples_per_second:,.0f} samples/s in place of "
            f"{run.samples_per_second:,.0f}."
        )
    change = Change(use, {"loader_workers": best})
    return Finding(name=NAME, level="warning", text=text, advice=advice, change=change)


def used_number(run: ShortRun) -> int:
    """Return the number of loader workers of `run`, chosen or the recipe's own."""
    return run.spec.loader_workers or int(run.measured.get("loading/own_workers", 0))


def loading_seconds(run: ShortRun) -> dict[int, float]:
    """Return the seconds in which the slowest rank loads its part of a batch, by the number of
    loader workers."""
    found = by_rank_and_number(run, "loading")
    own = int(run.measured.get("loading/own_workers", 0))
    return {number or own: seconds for number, seconds in found.items()}


def best_number(run: ShortRun) -> int | None:
    """Return the smallest number of loader workers that is as good as the best one; None: none
    makes steps faster than now, or nothing was measured."""
    predicted = _predicted(run, loading_seconds(run))
    step = step_seconds(run)
    if not predicted or not step:
        return None
    least = min(predicted.values())
    best = min(n for n, seconds in predicted.items() if seconds <= GAIN * least)
    return best if predicted[best] * GAIN < step else None


def _predicted(run: ShortRun, table: dict[int, float]) -> dict[int, float]:
    """Return the seconds of a step by the number of loader workers: they load while the step is
    computed, and without any the step loads first."""
    busy = _busy(run)
    return {n: max(busy, seconds) if n else busy + seconds for n, seconds in table.items()}


def _busy(run: ShortRun) -> float:
    """Return the seconds of a step without its wait for samples."""
    waits = max((shares["data"] for shares in run.rank_shares.values()), default=0.0)
    return step_seconds(run) * (1 - waits)
