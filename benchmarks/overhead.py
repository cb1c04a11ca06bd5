"""The cost of monitoring: a recorded run compared to the bare loop of the same model.

`python -m benchmarks.overhead [--pairs 7] [--steps 2000]` alternates between a plain PyTorch loop
in a fresh process and a run with supervisor, store and telemetry. Both do the same steps of about
2 ms.
It prints the ratios of the time between two steps: main thread's CPU time, and wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import overhead_recipe as recipe
from engine import client
from engine.spec.run_spec import RunSpec
from engine.system import paths


def bare_loop() -> None:
    """A loop written by hand, without any monitoring."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = recipe.model()
    model.train()
    (inputs, targets), _ = recipe.datasets()
    optimizer = recipe.optimizer(list(model.parameters()), 0.01)
    order = torch.randperm(len(inputs))
    for start in range(0, len(inputs), recipe.BATCH_SIZE):
        chosen = order[start : start + recipe.BATCH_SIZE]
        optimizer.zero_grad(set_to_none=True)
        recipe.loss(model(inputs[chosen]), targets[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def measure_bare(result: Path) -> dict[str, float]:
    """Seconds that the steps took in the bare loop, by kind of time."""
    subprocess.run([sys.executable, "-m", "benchmarks.overhead", "--bare"], check=True)
    return dict(json.loads(result.read_text()))


def measure_recorded(result: Path) -> dict[str, float]:
    """Seconds that the steps took in a run of ours, by kind of time."""
    spec = RunSpec(
        recipe=str(Path(recipe.__file__)),
        strategy="torch/single",
        devices=("cpu:0",),
        batch_size=recipe.BATCH_SIZE,
        epochs=1,
        learning_rate=0.01,
    )
    run_id = client.start(spec)
    while not (info := client.get_run(run_id)).state.is_over:
        time.sleep(0.2)
    if info.state != "finished":
        raise SystemExit(info.reason)
    return dict(json.loads(result.read_text()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        bare_loop()
        return
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        os.environ |= {
            paths.HOME_VARIABLE: folder,
            "OVERHEAD_RESULT": str(result),
            "OVERHEAD_STEPS": str(options.steps),
            "OMP_NUM_THREADS": "1",
        }
        ratios: dict[str, list[float]] = {"cpu": [], "wall": []}
        steps: list[float] = []
        for pair in range(options.pairs):
            order = (measure_bare, measure_recorded)
            first, second = (measure(result) for measure in (order if pair % 2 else order[::-1]))
            bare, recorded = (first, second) if pair % 2 else (second, first)
            steps.append(bare["wall"] / options.steps * 1000)
            for kind, found in ratios.items():
                found.append(recorded[kind] / bare[kind])
    print(f"bare step: {statistics.median(steps):.2f} ms (median of {options.pairs} pairs)")
    for kind, name in (("cpu", "main-thread CPU"), ("wall", "wall time")):
        found = ratios[kind]
        print(
            f"{name:16} recorded / bare: min {min(found):.3f}  "
            f"median {statistics.median(found):.3f}  max {max(found):.3f}"
        )


if __name__ == "__main__":
    main()
