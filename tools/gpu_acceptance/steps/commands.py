"""Commands of the product that measure, and the tests that are marked `gpu`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

from tools.gpu_acceptance.kit import RECIPES, ROOT, Kit, last_json


def race(kit: Kit) -> None:
    """Strategies and precisions side by side."""
    words = ["race", "--json", "--recipe", "digits", "--devices", kit.device, "--steps", "40"]
    words += ["--batch-size", "256", "--strategies", "single,ddp,fsdp"]
    words += ["--precisions", "fp32,bf16" if kit.on_gpu else "fp32"]
    _tell_result(kit, "race", kit.run_main(*words, seconds=44))


def preflight(kit: Kit) -> None:
    """What a run would meet."""
    words = ["preflight", "--devices", kit.device, "--seconds", "35", "--recipe"]
    if kit.on_gpu and importlib.util.find_spec("torchvision"):
        words += [str(RECIPES / "resnet50.py"), "--batch-size", "128", "--precision", "bf16"]
    else:
        words.append("digits")
    kit.emit("preflight", **kit.run_main(*words, seconds=49))


def batch(kit: Kit) -> None:
    """The largest batch that fits, and the fastest."""
    words = ["batch-size", "--json", "--devices", kit.device, "--epochs", "10", "--recipe"]
    if kit.on_gpu:
        words += [str(RECIPES / "gpt.py"), "--precision", "bf16", "--batch-size", "16"]
        words += ["--set", "samples=512", "--set", "length=512"]
    else:
        words += ["digits", "--batch-size", "64", "--memory-limit", "1500"]
    _tell_result(kit, "batch", kit.run_main(*words, seconds=88))


def pytest(kit: Kit) -> None:
    """The tests of the project that need a GPU; without TensorFlow, where it is not installed."""
    words = ["-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "--dist", "load", "-rA"]
    words += ["tests/engine/test_gpus.py", f"--junitxml={kit.out}/gpu-tests.xml"]
    if importlib.util.find_spec("tensorflow") is None:
        words += ["-k", "not tf and not tensorflow"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ.copy(),
        timeout=kit.seconds - 3,
        stdin=subprocess.DEVNULL,
    )
    kit.emit("pytest", rc=done.returncode, out=done.stdout[-9000:], err=done.stderr[-800:])


def _tell_result(kit: Kit, step: str, found: dict[str, Any]) -> None:
    kit.emit(step, result=last_json(found), **found)
