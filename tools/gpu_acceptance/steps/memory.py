"""Predicted against measured peaks of memory: the allocator's, and nvidia-smi's."""

from __future__ import annotations

import importlib.util
import time
from typing import Any, NamedTuple

import msgspec

from engine.planning.memory.memory_estimate import available_memory, measure
from engine.planning.own_data_folder import own_data_folder
from engine.planning.short_run import short_run
from engine.spec import catalog
from engine.training.probes.memory_record import MEASURE_MEMORY
from tools.gpu_acceptance.kit import Kit
from tools.gpu_acceptance.nvidia_smi import Load, used_mib
from tools.gpu_acceptance.product import spec

PARTS = ("weights", "gradients", "optimizer", "activations", "other")

STEPS = 8
"""Of the run whose peak is measured."""


class Case(NamedTuple):
    """A model and its batch."""

    recipe: str
    strategy: str
    batch: int
    precision: str = "fp32"
    settings: dict[str, Any] = {}


GPT: dict[str, Any] = {"size": "small", "length": 1024, "samples": 256}
WIDE = GPT | {"size": "wide"}

CASES = (
    Case("digits", "torch/single", 4096),
    Case("gpt", "torch/single", 16, "bf16", GPT),
    Case("resnet50", "torch/single", 256, "fp32", {"samples": 512}),
    Case("gpt", "torch/single", 8, "bf16", WIDE),
    Case("gpt", "torch/fsdp", 8, "bf16", WIDE),
)

ON_CPU = (Case("digits", "torch/single", 256),)


def memory(kit: Kit) -> None:
    """Predict and measure each case."""
    for case in CASES if kit.on_gpu else ON_CPU:
        if case.recipe == "resnet50" and importlib.util.find_spec("torchvision") is None:
            kit.emit("memory", **case._asdict(), skipped="needs torchvision")
            continue
        _predict_and_measure(kit, case)


def _predict_and_measure(kit: Kit, case: Case) -> None:
    wanted = spec(
        kit,
        case.recipe,
        case.strategy,
        batch_size=case.batch,
        epochs=100,
        precision=case.precision,
        settings=case.settings,
    )
    reference = catalog.recipe(wanted.recipe).reference
    wanted = msgspec.structs.replace(wanted, recipe=reference)
    begin = time.monotonic()
    model, run = measure(wanted, lambda news: None, lambda: False)
    if model is None:
        kit.emit("memory", **case._asdict(), problem=run.problem)
        return
    (found,) = model.devices(case.batch, available_memory(wanted, 0))
    took, idle = time.monotonic() - begin, used_mib(kit)
    with Load(kit) as load, own_data_folder("memory", **{MEASURE_MEMORY: "peak"}):
        run = short_run(wanted, steps=STEPS, seconds=60)
    held = run.memory.get(found.device, 0.0)
    record = run.ranks[0].devices.get(found.device) if run.ranks else None
    kit.emit(
        "memory",
        **case._asdict(),
        parameters=run.parameters,
        predicted_mib=round(found.total / 2**20),
        measured_mib=round(held / 2**20),
        error_percent=round(100 * (found.total / held - 1), 2) if held else None,
        measured_up_to=model.measured,
        exact=model.is_exact,
        seconds=round(took, 1),
        smi_mib=[idle, load.most("memory.used")],
        worker=msgspec.to_builtins(record),
        parts={part: round(getattr(found, part) / 2**20) for part in PARTS},
        problem=run.problem,
    )
