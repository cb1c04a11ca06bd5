"""Each benchmark runs in its smallest size and prints its figures; what they are is not asked."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from engine.processes.process import PROJECT
from tests.support import slow_link, ssh_server

SMALLEST = {
    "cluster_replay": ("--machines 2 --gpus 2 --seconds 1 --loads 1", "head .* cores"),
    "comparison": ("--runs 20 --points 10", "means of groups .* ms"),
    "floods": ("--seconds 1 --pairs 1", "flood / quiet, wall time: .*"),
    "history": ("--runs 20", "index in an open window .* ms"),
    "idle": ("--runs 20 --seconds 2", "window: .* of one core"),
    "memory_estimate": ("digits torch/single", "digits .* MiB"),
    "overhead": ("--pairs 1 --steps 20", "tiny: a bare step takes .*"),
    "plots": ("--points 10000 --frames 5", "smoothing slider .* ms"),
    "remote": ("--points 1000 --seconds 2", "curves shown after .* s"),
    "remote_floods": ("--seconds 1 calm runs", "runs .* ms .* MiB"),
    "remote_sweeps": ("--runs 2 --trials 10", "one more trial after .* s"),
    "remote_window": ("--points 1000 --seconds 2", "while it trains at .* kB/s"),
    "runs_table": ("--runs 50", "a page further .* ms"),
    "script_watch": (
        "--fours 2 --scripts 1 --steps 20 --optimizer sgd",
        "wall time .* median .*",
    ),
    "start": ("--rounds 1 --only torch/single", "warm / .*"),
    "telemetry": ("--gpus 1 --seconds 2", "nobody looks .* of one core"),
    "tensorflow_loop": ("--rounds 1 --width 8", "fit / ours .*"),
    "window": ("--rounds 1 --runs 2", "painted / bare .*"),
}
"""By module: its options, and what a line with a figure looks like; `.*` has a digit."""

NOT_ALONE = {"overhead_recipe", "start_keras", "start_torch"}
"""Modules that others train."""

WITH_A_LINK = {"remote", "remote_sweeps", "remote_window"}


def test_every_benchmark_has_a_smallest_size() -> None:
    modules = {path.stem for path in (PROJECT / "benchmarks").glob("[!_]*.py")}
    assert SMALLEST.keys() | NOT_ALONE == modules


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_prints_its_figures(name: str) -> None:
    if name in WITH_A_LINK and (why := ssh_server.MISSING or slow_link.missing()):
        pytest.skip(why)
    options, line = SMALLEST[name]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options.split()],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(line.replace(".*", r"[^\n]*\d[^\n]*"), done.stdout), done.stdout
