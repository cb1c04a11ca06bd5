"""`python -m benchmarks.memory_estimate [PART]`: predicted against measured peak memory on CPUs.

The measured peak is the kernel's (`VmHWM` without pages of files) in a run of STEPS steps with the
batch in question; the prediction comes from short runs with smaller batches. PART chooses lines.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from engine.planning.memory.memory_estimate import available_memory, measure
from engine.planning.own_data_folder import own_data_folder
from engine.planning.short_run import short_run
from engine.spec import catalog
from engine.spec.run_spec import RunSpec

STEPS = 6
ONE, TWO = ("cpu:0",), ("cpu:0", "cpu:1")
OWN = Path(__file__).parent / "memory_recipes"
CNN, TRANSFORMER = str(OWN / "cnn.py"), str(OWN / "transformer.py")
READS_SAMPLES = str(OWN / "reads_samples.py")

COMBINATIONS: tuple[tuple[str, str, tuple[str, ...], int, dict[str, Any]], ...] = (
    ("digits", "torch/single", ONE, 64, {}),
    ("digits", "torch/ddp", TWO, 512, {}),
    ("digits", "torch/fsdp", TWO, 1024, {}),
    ("digits_keras", "tf/single", ONE, 512, {}),
    ("digits_keras", "tf/mirrored", TWO, 1024, {}),
    ("digits_keras", "torch/keras_ddp", TWO, 512, {}),
    (CNN, "torch/single", ONE, 512, {}),
    (CNN, "torch/ddp", TWO, 256, {}),
    (CNN, "torch/pipeline", TWO, 512, {}),
    (TRANSFORMER, "torch/single", ONE, 128, {}),
    (TRANSFORMER, "torch/single", ONE, 128, {"precision": "bf16", "accumulation": 2}),
    (TRANSFORMER, "torch/fsdp", TWO, 128, {}),
    (READS_SAMPLES, "torch/single", ONE, 256, {}),
)


def main(part: str) -> None:
    """Print a line for each combination whose text has `part`."""
    print("| recipe | strategy | batch | measured up to | predicted | measured | error | time |")
    print("|---|---|---|---|---|---|---|---|")
    for recipe, strategy, devices, batch, more in COMBINATIONS:
        words = " ".join([strategy, *(f"{name} {value}" for name, value in more.items())])
        name = Path(recipe).stem
        if part not in f"{name} {words}":
            continue
        path = catalog.recipe(recipe).reference
        spec = RunSpec(
            recipe=path, strategy=strategy, devices=devices, batch_size=batch, epochs=100, **more
        )
        begin = time.monotonic()
        model, run = measure(spec, lambda news: None, lambda: False)
        if model is None:
            print(f"| {name} | {words} | {batch} | | | | {run.problem} | |", flush=True)
            continue
        (found,) = model.devices(batch, available_memory(spec, 0))
        seconds = time.monotonic() - begin
        with own_data_folder("memory"):
            run = short_run(spec, steps=STEPS, seconds=300)
        held = run.memory.get(found.device, 0.0)
        error = f"{100 * (found.total / held - 1):+.1f} %" if held else run.problem
        print(
            f"| {name} | {words} | {batch} | {model.measured} | {found.total / 2**20:.0f} MiB "
            f"| {held / 2**20:.0f} MiB | {error} | {seconds:.0f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
