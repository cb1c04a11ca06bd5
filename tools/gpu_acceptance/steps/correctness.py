"""Whether the card computes what a CPU computes, and the same after a resume."""

from __future__ import annotations

import itertools
import json
import time
from functools import partial
from typing import Any

from engine import client
from tests.ghost.allowed import PER_STEP, expected
from tests.ghost.trials import Trial
from tools.gpu_acceptance.kit import CPU, RESULT, Kit, error_text, read_result
from tools.gpu_acceptance.product import (
    compared,
    curve,
    is_over,
    notices,
    outcome,
    spec,
    start,
    stop,
    train,
    wait,
)

COMPARED: dict[str, Any] = {"batch_size": 64, "steps": 60, "settings": {"dropout": 0.0}}
"""What runs have in common whose curves are compared: CPU and card draw other dropout masks."""

RECIPES = {"digits": "torch/single", "digits_keras": "torch/keras_ddp"}
"""The strategy of a recipe's curve on the CPU."""

STRATEGIES = (
    "single",
    "ddp",
    "fsdp",
    "data_parallel",
    "model_parallel",
    "keras_ddp",
    "pipeline",
)

WAITS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("single", "fp32", {}),
    ("single", "fp16", {"optimizer": "adam"}),
    ("single", "fp16", {"optimizer": "rmsprop"}),
    ("ddp", "bf16", {"clip_norm": 1.0}),
    ("fsdp", "fp16", {"optimizer": "adam"}),
    ("single", "fp32", {"on_nan": "skip"}),
    ("single", "bf16", {"on_oom": "shrink"}),
)


def reference(kit: Kit) -> None:
    """Curves of the CPU, without dropout, for all strategies."""
    found = {}
    for recipe, strategy in RECIPES.items():
        info = train(kit, spec(kit, recipe, strategy, **COMPARED, devices=(CPU,)))
        found[recipe] = curve(info)
        kit.emit("reference", recipe=recipe, **outcome(info), steps=len(found[recipe]))
    new = kit.work / "reference.new"
    new.write_text(json.dumps(found))
    new.rename(kit.work / "reference.json")


def matrix(kit: Kit) -> None:
    """Every strategy of PyTorch on one card, in every precision, against the CPU's curve."""
    precisions = ("fp32", "tf32", "bf16", "fp16") if kit.on_gpu else ("fp32", "bf16")
    pairs = itertools.product(precisions, STRATEGIES)
    calls = [partial(_train_and_compare, kit, kind, precision) for precision, kind in pairs]
    calls += [
        partial(_train_and_compare, kit, "ddp", "fp32", workers_per_device=2),
        partial(_train_and_compare, kit, "single", "bf16", clip_norm=1.0, accumulation=2),
    ]
    if kit.on_gpu:  # fp16 takes minutes on a CPU
        calls.append(partial(_train_and_compare, kit, "fsdp", "fp16", clip_norm=1.0))
    kit.side_by_side(5, calls)


def resume(kit: Kit) -> None:
    """Stop in the middle and resume, with Deterministic: equal to a run that was never stopped."""
    length = 1200 if kit.on_gpu else 150
    for precision in ("fp32", "bf16") if kit.on_gpu else ("fp32",):
        wanted = spec(
            kit,
            "digits",
            steps=length,
            deterministic=True,
            precision=precision,
            learning_rate=1e-4,
        )
        whole, again = curve(train(kit, wanted)), curve(train(kit, wanted))
        run_id = start(wanted)
        wait(kit, run_id, lambda info: info.status.step > length / 5)
        stopped = stop(kit, run_id)
        name = client.resume(run_id)
        info = wait(kit, run_id, is_over)
        kit.emit(
            "resume",
            precision=precision,
            stopped_at=stopped.status.step,
            resumed_from=name,
            **outcome(info),
            resumed=compared(curve(info), whole),
            twice=compared(again, whole),
        )
    plain = spec(kit, "digits", steps=length // 4, learning_rate=1e-3)
    one, two = (curve(train(kit, plain)) for _ in range(2))
    kit.emit("resume", without_deterministic=compared(one, two))


def waits(kit: Kit) -> None:
    """Where the host waits for the GPU in 40 steps, against tests/ghost/allowed.py."""
    calls = [partial(_count_waits, kit, kind, of, more) for kind, of, more in WAITS]
    kit.side_by_side(4, calls)


def compiled(kit: Kit) -> None:
    """torch.compile in forked workers: graphs that were made, the curve, the first step."""
    for kind, own in (("single", False), ("ddp", False), ("ddp", True), ("fsdp", False)):
        result = kit.work / f"compiled-{kind}-{own}.json"
        more = COMPARED | {"settings": {"dropout": 0.0, "own_class": own}}
        wanted = spec(kit, "compiled", f"torch/{kind}", **more, compile=True, hang_minutes=10.0)
        begin = time.monotonic()
        run_id = start(wanted, {RESULT: str(result)})
        wait(kit, run_id, lambda info: info.status.step > 0 or info.state.is_over, 100)
        first_step = round(time.monotonic() - begin, 1)
        info = wait(kit, run_id, is_over, 60)
        kit.emit(
            "compile",
            strategy=kind,
            own_class=own,
            first_step_seconds=first_step,
            counters=read_result(result),
            **outcome(info),
            against_cpu=compared(curve(info), _curve_of_cpu(kit, "digits")),
            notices=notices(info)[:4],
        )


def _train_and_compare(kit: Kit, kind: str, precision: str, **more: Any) -> None:
    recipe = "digits_keras" if kind == "keras_ddp" else "digits"
    wanted = spec(kit, recipe, f"torch/{kind}", **COMPARED, precision=precision, **more)
    name = {"strategy": kind, "precision": precision, **more}
    if problems := client.check(wanted):
        kit.emit("matrix", **name, refused=[problem.text for problem in problems])
        return
    begin = time.monotonic()
    try:
        info = train(kit, wanted, 60)
    except (RuntimeError, TimeoutError) as error:
        kit.emit("matrix", **name, error=error_text(error))
        return
    kit.emit(
        "matrix",
        **name,
        took=round(time.monotonic() - begin, 1),
        **outcome(info),
        against_cpu=compared(curve(info), _curve_of_cpu(kit, recipe)),
        notices=notices(info)[:6],
    )


def _curve_of_cpu(kit: Kit, recipe: str, seconds: float = 60.0) -> list[float]:
    """Return what `reference` has found; empty: nothing yet, after `seconds`."""
    deadline = time.monotonic() + kit.slow * seconds
    file = kit.work / "reference.json"
    while not file.exists():
        if time.monotonic() > deadline:
            return []
        time.sleep(0.2)
    return list(json.loads(file.read_text())[recipe])


def _count_waits(kit: Kit, kind: str, precision: str, more: dict[str, Any]) -> None:
    result = kit.work / f"waits-{kind}-{precision}-{'-'.join(more)}.json"
    fields = {"batch_size": 8, "steps": 140, "precision": precision, "settings": {"dropout": 0.1}}
    wanted = spec(kit, "waits", f"torch/{kind}", **fields, **more)
    info = train(kit, wanted, 60, {RESULT: str(result)})
    trial = Trial(
        strategy=f"torch/{kind}",
        precision=precision,
        clip_norm=int(more.get("clip_norm", 0)),
        fields=more,
    )
    kit.emit(
        "waits",
        strategy=kind,
        precision=precision,
        more=more,
        steps=40,
        allowed_per_step=expected(PER_STEP, trial),
        **outcome(info),
        **read_result(result),
    )
