"""Gives a replayed run the facts that a supervisor and a worker would have recorded."""

from __future__ import annotations

import os

from engine.facts.git_state import GitState
from engine.facts.run_facts import (
    AttemptFacts,
    DeviceFacts,
    Layer,
    ModelFacts,
    write_attempt,
    write_model,
)
from engine.spec.spec_file import read_spec
from tools.screenshots.replayed_run import ReplayedRun

_DIFF = """diff --git a/recipes/cifar.py b/recipes/cifar.py
--- a/recipes/cifar.py
+++ b/recipes/cifar.py
@@ -41,7 +41,7 @@ def optimizer(parameters, learning_rate):
-    return SGD(parameters, learning_rate)
+    return AdamW(parameters, learning_rate, weight_decay=0.05)
"""

_BLOCKS = (("layer1", 64, 148_000), ("layer2", 128, 526_000), ("layer3", 256, 2_100_000))


def add_facts(run: ReplayedRun) -> None:
    """Write the facts of the first attempt of the run."""
    devices = tuple(
        DeviceFacts(id=device, name="NVIDIA H100 80GB HBM3", label=f"GPU {n}", memory=80 * 2**30)
        for n, device in enumerate(read_spec(run.folder).devices)
    )
    facts = AttemptFacts(
        attempt=1,
        recorded=run.since,
        python="3.13.5",
        platform="Linux-6.8.0-x86_64",
        host="node-7",
        processor="AMD EPYC 9654",
        cores=96,
        threads=192,
        usable_threads=192,
        memory=256 * 2**30,
        driver="580.95.05",
        devices=devices,
        packages={"numpy": "2.4.6", "torch": "2.13.0", "torchvision": "0.28.0"},
        folder="~/vision",
        git=GitState(
            folder="~/vision",
            commit="4f19c2e8a07d5b3c9e6f1a2b4c8d0e7f3a5b9c1d",
            branch="main",
            message="Mixup only after warm-up",
            committed=run.since - 7200,
            remote="https://example.org/ada/vision.git",
            changed=("recipes/cifar.py", "augment.py"),
            changed_files=2,
            untracked_files=0,
            added=31,
            removed=8,
            diff_bytes=len(_DIFF),
        ),
    )
    write_attempt(run.folder, facts, _DIFF)
    versions = {"torch": "2.13.0+cu130", "CUDA": "13.0", "cuDNN": "9.15.1", "NCCL": "2.28.3"}
    write_model(run.folder, ModelFacts(attempt=1, layers=_layers(), versions=versions))


def hide_place(run: ReplayedRun) -> None:
    """Let the settings name the recipe without the folders of this machine."""
    spec = read_spec(run.folder)
    recipe = os.path.relpath(spec.recipe)  # as the user would write it in this folder
    file = run.folder / "spec.toml"
    file.write_text(file.read_text(encoding="utf-8").replace(spec.recipe, recipe), "utf-8")


def _layers() -> tuple[Layer, ...]:
    rows = [Layer("conv1", 1, "Conv2d 3→64", 1_728, 1_728, 6_912)]
    for name, width, count in (*_BLOCKS, ("layer4", 512, 8_390_000)):
        rows.append(Layer(name, 1, "2 × BasicBlock", count, count, 4 * count))
        for number in range(2):
            half = count // 2
            rows.append(Layer(f"{name}.{number}", 2, f"BasicBlock {width}", half, half, 4 * half))
    rows.append(Layer("fc", 1, "Linear 512→10", 5_130, 5_130, 20_520))
    total = sum(row.parameters for row in rows if row.depth == 1)
    return (Layer("", 0, "ResNet", total, total, 4 * total), *rows)
