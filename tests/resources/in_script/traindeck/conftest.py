"""Starts scripts with calls as Traindeck does, against a double of its process of a rank.

A script that imports a framework is forked from a template, unless it is started `cold`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.script_listener import IN_SCRIPT
from tests.support.script_run import ScriptRun, forked

SCRIPTS = Path(__file__).parent / "scripts"

KINDS = {
    "digits.py": "torch",
    "ranks.py": "torch",
    "shapes.py": "torch",
    "keras_fit.py": "tensorflow",
    "tensorflow_loop.py": "tensorflow",
}
"""The template of each script."""

Start = Callable[..., ScriptRun]
Bare = Callable[..., list[str]]


@pytest.fixture
def start(processes: None, tmp_path: Path) -> Iterator[Start]:
    """Start a script of the folder `scripts` in a run."""
    runs: list[ScriptRun] = []

    def begin(
        script: str, *arguments: str, folder: str = "run", cold: bool = False, **options: Any
    ) -> ScriptRun:
        path = tmp_path / script if (tmp_path / script).exists() else SCRIPTS / script
        kind = "" if cold else KINDS.get(script, "")
        run = ScriptRun(path, tmp_path / folder, arguments=arguments, kind=kind, **options)
        runs.append(run)
        return run

    yield begin
    for run in runs:
        run.kill()


@pytest.fixture
def bare(processes: None, tmp_path: Path) -> Bare:
    """Run a script outside of Traindeck, with the calls installed alone, and return its lines."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "traindeck").symlink_to(IN_SCRIPT / "traindeck")

    def run(
        script: Path | str, *arguments: str, python: str = sys.executable, cold: bool = False
    ) -> list[str]:
        if isinstance(script, str) and not cold:
            words = (str(SCRIPTS / script), *arguments)
            log = tmp_path / "alone.txt"
            program = forked(KINDS[script], *words, log=log, variables={}, packages=packages)
            try:
                return program.output().splitlines()
            finally:
                program.kill()
        path = SCRIPTS / script if isinstance(script, str) else script
        done = subprocess.run(
            [python, str(path), *arguments],
            env={"PYTHONPATH": str(packages), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
