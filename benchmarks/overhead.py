"""The cost of monitoring: the steps of a recorded run beside bare steps of the same model.

`python -m benchmarks.overhead [--pairs 15] [--steps 200] [--only tiny] [--gradient-norm]` trains
two models with supervisor, store and telemetry: one of about 2 ms a step, one of almost nothing.
Between blocks of its steps the process of the run does blocks of bare steps, in the same thread and
within a second: what else the machine does meets both alike. It prints what a step costs more,
and the ratio, in CPU time of the main thread and in wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import overhead_recipe as recipe
from engine import client
from engine.spec.run_spec import RunSpec
from engine.system import paths

Seconds = tuple[float, float]
"""Of a step: CPU time of the main thread, and wall time."""


def measured(name: str, *, gradient_norm: bool) -> list[dict[str, Seconds]]:
    """Train a model; return the seconds of a step of each pair of blocks, recorded and bare."""
    os.environ["OVERHEAD_MODEL"] = name
    spec = RunSpec(
        recipe=str(Path(recipe.__file__)),
        strategy="torch/single",
        devices=("cpu:0",),
        batch_size=recipe.SHAPES[name].batch_size,
        epochs=1,
        learning_rate=0.01,
        gradient_norm=gradient_norm,
    )
    run_id = client.start(spec)
    while not (info := client.get_run(run_id)).state.is_over:
        time.sleep(0.2)
    if info.state != "finished":
        raise SystemExit(info.reason)
    return list(json.loads(Path(os.environ["OVERHEAD_RESULT"]).read_text()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--steps", type=int, default=0, help="steps of a block")
    parser.add_argument("--only", choices=recipe.SHAPES)
    parser.add_argument("--gradient-norm", action="store_true", help="the run records it")
    options = parser.parse_args()
    # The supervisor of the last run may still be writing when its figures are there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {
            paths.HOME_VARIABLE: folder,
            "OVERHEAD_RESULT": str(Path(folder) / "result.json"),
            "OVERHEAD_PAIRS": str(options.pairs),
            "OVERHEAD_STEPS": str(options.steps or ""),
            "OMP_NUM_THREADS": "1",
        }
        for name in [options.only] if options.only else recipe.SHAPES:
            print_figures(name, measured(name, gradient_norm=options.gradient_norm))


def print_figures(name: str, pairs: list[dict[str, Seconds]]) -> None:
    """Print medians over the pairs of blocks, with the quarter that lies lowest and highest."""
    bare = statistics.median(pair["bare"][1] for pair in pairs)
    print(f"{name}: a bare step takes {bare * 1000:.2f} ms (median of {len(pairs)} pairs)")
    for kind, label in enumerate(("main-thread CPU", "wall time")):
        more = sorted(1e6 * (pair["recorded"][kind] - pair["bare"][kind]) for pair in pairs)
        ratio = statistics.median(pair["recorded"][kind] / pair["bare"][kind] for pair in pairs)
        quarter = len(more) // 4
        print(
            f"  {label:16} a recorded step takes more: median {statistics.median(more):.0f} us "
            f"({more[quarter]:.0f} to {more[-1 - quarter]:.0f}), recorded / bare {ratio:.3f}"
        )


if __name__ == "__main__":
    main()
