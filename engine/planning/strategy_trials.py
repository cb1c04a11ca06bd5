"""Trains each strategy for a few steps, and resumes it, to see whether this machine can."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from engine import client
from engine.client import CannotStart
from engine.doctor.examination import Pythons
from engine.doctor.finding import Finding
from engine.messages import commands
from engine.planning.own_data_folder import own_data_folder
from engine.planning.results import Doing, News, StrategyTrial, StrategyTrials, TriedStrategy
from engine.planning.short_run import LOOK_SECONDS
from engine.runs.run_info import failure_of
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from engine.system.cancelled import Cancelled

STEPS, MORE_STEPS = 40, 60
TRIAL_SECONDS = 240.0
"""Time for one attempt, with the import of its framework and the first use of a card."""

END_SECONDS = 30.0
_RECIPES = {"torch": "digits", "keras": "digits_keras"}
_PRECISIONS: tuple[Literal["fp32", "bf16"], ...] = ("fp32", "bf16")


def try_strategies(
    gpus: Sequence[str],
    pythons: Pythons,
    tell: Callable[[News], None],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> StrategyTrials:
    """Train each strategy in each precision on two of `gpus`, or on the CPU if there are none, with
    one of `pythons`; nothing is kept of the runs.

    Raises Cancelled.
    """
    found = []
    with own_data_folder("doctor"):
        for trial in _trials(gpus, pythons, tell, is_cancelled):
            found.append(trial)
            tell(TriedStrategy(trial))
    return StrategyTrials(tuple(found))


def _trials(
    gpus: Sequence[str],
    pythons: Pythons,
    tell: Callable[[News], None],
    is_cancelled: Callable[[], bool],
) -> Iterator[StrategyTrial]:
    for strategy in catalog.recipe_strategies():
        devices = _devices(strategy, gpus)
        if not devices:
            name = f"strategy {strategy.name}"
            reason = " ".join(strategy.problems(tuple(gpus[:2]) or ("cpu:0", "cpu:1")))
            yield StrategyTrial(Finding(name, "unknown", f"Not tried: {reason}"))
            continue
        for precision in _PRECISIONS:
            recipe = _RECIPES[min(strategy.recipe_frameworks)]
            spec = RunSpec(
                recipe=recipe,
                strategy=strategy.name,
                devices=devices,
                interpreter=pythons.tensorflow if strategy.framework == "tf" else pythons.torch,
                steps=STEPS,
                batch_size=64,
                precision=precision,
                queue="never",
                max_restarts=0,
            )
            if strategy.refusal("precision", spec) and precision != "fp32":
                continue
            tell(Doing(f"{strategy.name} in {precision}"))
            yield _try(spec, is_cancelled, resumes=precision == "fp32")


def _devices(strategy: Strategy, gpus: Sequence[str]) -> tuple[str, ...]:
    """Return as many devices as the strategy takes, two at most; none if it takes none of them."""
    known = tuple(gpus[:2]) or ("cpu:0", "cpu:1")
    for devices in (known, known[:1]):
        if not strategy.problems(devices):
            return devices
    return ()


def _try(spec: RunSpec, is_cancelled: Callable[[], bool], *, resumes: bool) -> StrategyTrial:
    count = len(spec.devices)
    name = f"strategy {spec.strategy}, {spec.precision}"
    where = f"{count} device{'s' if count > 1 else ''}"
    begun = time.monotonic()
    try:
        run_id = client.start(spec)
        problem = _end_of(run_id, 1, is_cancelled)
        done = f"{STEPS} steps on {where}"
        if resumes and not problem:
            client.resume(run_id, spec=replace(spec, steps=MORE_STEPS))
            problem = _end_of(run_id, 2, is_cancelled)
            problem = f"its resume: {problem}" if problem else ""
            done += ", saved and resumed"
    except CannotStart as error:
        return StrategyTrial(Finding(name, "error", f"It cannot start: {error}"))
    if problem:
        check = Finding(name, "error", f"It failed on {where}: {problem}")
        return StrategyTrial(check, _logs(run_id))
    loss = client.get_run(run_id).status.metrics.get("train/loss")
    shown = f"; loss {loss:.3g}" if loss is not None else ""
    text = f"{done}, in {time.monotonic() - begun:.1f} s{shown}."
    return StrategyTrial(Finding(name, "ok", text))


def _end_of(run_id: str, attempt: int, is_cancelled: Callable[[], bool]) -> str:
    """Follow a run to its end; return why it did not finish, or an empty string."""
    begun, is_stopped = time.monotonic(), False
    while True:
        run = client.get_run(run_id)
        late = time.monotonic() - begun - TRIAL_SECONDS
        if run.state.is_over and run.status.attempt >= attempt:
            break
        if not is_stopped and (is_cancelled() or late > 0):
            is_stopped = True
            with contextlib.suppress(client.CommandFailed):  # it has just ended by itself
                client.send(run_id, commands.Stop(now=True))
        elif late > END_SECONDS:
            break
        time.sleep(LOOK_SECONDS)
    if is_cancelled():
        raise Cancelled
    if is_stopped:
        return f"it took longer than {TRIAL_SECONDS:.0f} s."
    if run.state is RunState.FINISHED:
        return ""
    failure = failure_of(run)
    return failure.message if failure else run.reason or f"it is {run.state}."


def _logs(run_id: str) -> str:
    parts = []
    for log in sorted((client.get_run(run_id).folder / "logs").glob("*.log")):
        lines = log.read_text("utf-8", "replace").splitlines()
        parts.append("\n".join((f"[{log.name}]", *lines[-40:])))
    return "\n".join(parts)
