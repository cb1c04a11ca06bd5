"""What a forked worker draws and sets anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.processes.process import usable_processors
from engine.templates.kinds import KINDS
from tests.support.programs import Program

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_draw_different_random_numbers(kind: str, tmp_path: Path) -> None:
    programs = [
        Program(kind, "tests.support.random_probe", kind, log=tmp_path / name, variables={})
        for name in ("first", "second")
    ]
    first, second = (json.loads(program.output().splitlines()[-1]) for program in programs)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] == second[name]] == []


def test_a_worker_has_the_threads_that_its_environment_says(tmp_path: Path) -> None:
    """And not the one with which the libraries of the template were loaded."""
    variables = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
    program = Program(
        "torch", "tests.support.thread_probe", log=tmp_path / "log", variables=variables
    )
    assert json.loads(program.output().splitlines()[-1]) == {
        "torch": min(2, usable_processors()),
        "openblas": [1],
    }
