"""The cost of watching an unmodified script: its steps with the watch, compared to those without.

`python -m benchmarks.script_watch [--fours 1000] [--optimizer adamw]` measures it in two ways.

In one process: a watched script of about 2 ms a step takes turns between the hooks and
only PyTorch's own functions: without, with, with, without. Such a four gives one difference of CPU
time of the main thread, and the median over all fours is the cost of the hooks: a machine that is
slower for a while changes both sides alike. The CPU time of the thread that fetches and sends is
counted beside it, as if it never ran while the script computed.

As a whole: the script alone and watched, each in a fresh process, `--scripts` times. That has
everything in it, also the noise of the machine.

The other end of the link reads and drops.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.script_listener import ScriptListener, without_watch

SCRIPT = """
import json, os, time
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(256, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)
)
kind = os.environ["SCRIPT_OPTIMIZER"]
rows = 112
if kind == "sgd":
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01)]
elif kind == "two":
    first, second = [list(part.parameters()) for part in (model[:3], model[3:])]
    optimizers = [torch.optim.SGD(first, lr=0.01), torch.optim.Adam(second, lr=0.001)]
else:
    rows = {"adamw": 84, "adamw-foreach": 84}.get(kind, 92)
    chosen = {"adamw": {}, "adamw-foreach": {"foreach": True}, "adamw-fused": {"fused": True}}
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.001, **chosen[kind])]
inputs = torch.randn(64 * rows, 256)
targets = torch.randint(0, 10, (len(inputs),))

def train(begin, end):
    for step in range(begin, end):
        part = slice(step % 64 * rows, step % 64 * rows + rows)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(inputs[part]), targets[part]).backward()
        for optimizer in optimizers:
            optimizer.step()
"""

WHOLE = """
FIRST, STEPS = 300, int(os.environ["SCRIPT_STEPS"])
marks = []
for begin, end in ((0, FIRST), (FIRST, FIRST + STEPS)):
    train(begin, end)
    marks.append((time.thread_time(), time.process_time(), time.perf_counter()))
with open(os.environ["SCRIPT_RESULT"], "w") as file:
    json.dump([end - begin for begin, end in zip(*marks)], file)
"""

IN_TURN = """
import threading
from torch.optim import Optimizer, optimizer as functions

steps_before = functions._global_optimizer_pre_hooks
steps_after = functions._global_optimizer_post_hooks
places = [(torch.autograd, "backward"), (Optimizer, "zero_grad"), (nn.Module, "zero_grad")]
ours = [getattr(*place) for place in places]
hooks = dict(steps_before), dict(steps_after)

def watch(is_on):
    for (owner, name), own in zip(places, ours):
        setattr(owner, name, own if is_on else own.__wrapped__)
    for there, kept in zip((steps_before, steps_after), hooks):
        there.clear()
        there.update(kept if is_on else {})

def timed(step, is_on):
    watch(is_on)
    begin = time.thread_time()
    train(step, step + 1)
    return time.thread_time() - begin

train(0, 300)
[sender] = [each for each in threading.enumerate() if each.name == "traindeck-watch"]
clock = time.pthread_getcpuclockid(sender.ident)
begin = time.clock_gettime(clock)
fours = [
    [timed(step, is_on) for is_on in (False, True, True, False)]
    for step in range(int(os.environ["SCRIPT_FOURS"]))
]
sending = time.clock_gettime(clock) - begin
with open(os.environ["SCRIPT_RESULT"], "w") as file:
    json.dump([fours, sending], file)
"""
KINDS = ("main-thread CPU", "process CPU", "wall time")
OPTIMIZERS = ("sgd", "adamw", "adamw-foreach", "adamw-fused", "two")


def run(
    code: str, optimizer: str, folder: Path, listener: ScriptListener | None, **size: int
) -> Any:
    """Run the script with this ending, watched if there is a listener; return what it measured.

    `size`: how many `steps` it does, or how many `fours` of them.
    """
    script, result = folder / "train.py", folder / "result.json"
    script.write_text(SCRIPT + code)
    variables = {
        "SCRIPT_RESULT": str(result),
        "SCRIPT_OPTIMIZER": optimizer,
        "OMP_NUM_THREADS": "1",
        **{f"SCRIPT_{name.upper()}": str(count) for name, count in size.items()},
    }
    watched = listener.environment if listener is not None else {}
    environment = without_watch() | watched | variables
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
    return json.loads(result.read_text())


def in_turn(optimizer: str, fours: int, folder: Path) -> None:
    """Alternate within one process, and print what a step costs more."""
    folder.mkdir()
    with ScriptListener(folder) as listener:
        found, sending = run(IN_TURN, optimizer, folder, listener, fours=fours)
        if listener.of_kind("points")[-1]["step"] < 2 * fours:
            raise SystemExit("the steps were not seen")
    added = sorted((a + b - before - after) / 2 for before, a, b, after in found)
    hooks = statistics.median(added)
    low, _, high = statistics.quantiles(added, n=4)
    doubt = 1.25 * (high - low) / 1.35 / fours**0.5  # standard error of the median
    bare = statistics.median(time for four in found for time in (four[0], four[-1]))
    thread = sending / (2 * fours)
    print(
        f"{optimizer:14} bare step {bare * 1e3:.2f} ms | hooks {hooks * 1e6:.1f} us "
        f"(+- {doubt * 1e6:.1f}), sending {thread * 1e6:.1f} us | "
        f"{hooks / bare:.2%} of a step, with the sending {(hooks + thread) / bare:.2%}",
        flush=True,
    )


def whole_scripts(optimizer: str, scripts: int, count: int, folder: Path) -> None:
    """Alternate between whole scripts of `count` steps, and print the ratios."""
    ratios: list[list[float]] = [[] for _ in KINDS]
    steps: list[float] = []
    for pair in range(scripts):
        found: dict[bool, list[float]] = {}
        for watched in (True, False) if pair % 2 else (False, True):
            ends = folder / f"{pair}{watched}"
            ends.mkdir(parents=True)
            with ScriptListener(ends) as listener:
                watching = listener if watched else None
                found[watched] = run(WHOLE, optimizer, ends, watching, steps=count)
                if watched and listener.of_kind("points")[-1]["step"] < count:
                    raise SystemExit("the steps were not seen")
        steps.append(found[False][-1] / count * 1000)
        for kind, both in enumerate(zip(found[True], found[False], strict=True)):
            ratios[kind].append(both[0] / both[1])
    print(f"whole scripts: bare step {statistics.median(steps):.2f} ms (median of {scripts} pairs)")
    for kind, name in enumerate(KINDS):
        each = ratios[kind]
        print(
            f"{name:16} watched / bare: min {min(each):.3f}  "
            f"median {statistics.median(each):.3f}  max {max(each):.3f}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--fours", type=int, default=1000, help="four steps each, in one process")
    parser.add_argument("--scripts", type=int, default=3, help="pairs of whole scripts")
    parser.add_argument("--steps", type=int, default=2000, help="of a whole script")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, help="one of them instead of each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for optimizer in [options.optimizer] if options.optimizer else OPTIMIZERS:
            in_turn(optimizer, options.fours, folder / optimizer)
        if options.scripts:
            optimizer = options.optimizer or OPTIMIZERS[0]
            whole_scripts(optimizer, options.scripts, options.steps, folder / "whole")


if __name__ == "__main__":
    main()
