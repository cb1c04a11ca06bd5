"""A forked worker finds the same environment as one that was started as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.processes.confinement import own_confinement
from engine.processes.process import PROJECT, module_environment
from engine.templates.client import fork_workers
from engine.templates.forked_process import ForkedProcess
from engine.templates.kinds import KINDS, SHARED_ENVIRONMENT
from engine.templates.protocol import Fork

pytestmark = pytest.mark.usefixtures("processes")

BELOW_REALTIME = (1 << 31) - 1
"""The C library uses the first realtime signals itself, once a process has had two threads."""

SKLEARN_VARIABLES = {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"}
"""scikit-learn sets them for Intel's OpenMP, and a template has imported it."""

THREADS = [
    ("torch", {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}),
    pytest.param(
        "keras-torch",
        {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "1"},
        marks=pytest.mark.nightly,
    ),
    pytest.param(
        "tensorflow",
        {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"},
        marks=pytest.mark.nightly,
    ),
]


def probe(
    kind: str, folder: Path, variables: dict[str, str], *options: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts that a forked and a started worker find."""
    subprocess.run(
        [sys.executable, "-m", "tests.support.probe_starter", kind, str(folder), *options],
        check=True,
        cwd=PROJECT,
        env={**os.environ, **variables},
    )
    forked, started = (
        json.loads((folder / f"{name}.log").read_text().splitlines()[-1])
        for name in ("forked", "started")
    )
    return forked, started


def assert_equal(forked: dict[str, Any], started: dict[str, Any]) -> None:
    """Fail if a worker could notice the difference, except for what more has been imported."""
    libraries = forked["libraries"]
    more = [pool for pool in started["libraries"]["pools"] if pool not in libraries["pools"]]
    assert more == []
    libraries["pools"] = started["libraries"]["pools"]
    assert libraries == started["libraries"]
    for when in ("process before", "process"):
        facts, expected = forked[when], started[when]
        sockets = [name for name, link in facts["descriptors"].items() if link == "socket:"]
        assert len(sockets) == 1, "the connection to its supervisor and its template"
        del facts["descriptors"][sockets[0]]
        for each in (facts, expected):
            each["SigCgt"] = int(each["SigCgt"], 16) & BELOW_REALTIME
        _leave_out_more(facts["getenv"], expected["getenv"], SKLEARN_VARIABLES)
        if when == "process before":  # the imports are still to come
            facts["getenv"] = {name: facts["getenv"].get(name) for name in expected["getenv"]}
        assert facts == expected
    facts, expected = forked["python"], started["python"]
    _leave_out_more(facts["environment"], expected["environment"], SKLEARN_VARIABLES)
    assert set(expected["warnings"]) <= set(facts["warnings"])
    facts["warnings"] = expected["warnings"]
    _leave_out_more(facts["loggers"], expected["loggers"], facts["loggers"])
    assert facts == expected


def _leave_out_more(found: dict[str, Any], expected: dict[str, Any], allowed: Any) -> None:
    for name in found.keys() - expected.keys():
        if name in allowed:
            del found[name]


@pytest.mark.nightly
def test_the_environment_is_that_of_a_started_worker(tmp_path: Path) -> None:
    """Also if the user asks for more threads than there are processors."""
    forked, started = probe("torch", tmp_path, {"OMP_NUM_THREADS": "64"})
    assert_equal(forked, started)


@pytest.mark.parametrize(("kind", "variables"), THREADS, ids=KINDS)
def test_limits_priority_signals_and_threads_of_the_user_hold(
    kind: str, variables: dict[str, str], tmp_path: Path
) -> None:
    forked, started = probe(kind, tmp_path, variables, "confined")
    process = started["process"]
    assert process["nice"] == 5
    assert process["Umask"] == "0027"
    assert "Max open files            900" in process["limits"]
    assert_equal(forked, started)


def request(kind: str, module: str, log: Path, arguments: list[str]) -> Fork:
    variables = {"CUDA_VISIBLE_DEVICES": "", "KERAS_TORCH_DEVICE": "cpu"}
    environment = os.environ | SHARED_ENVIRONMENT | KINDS[kind].environment | variables
    return Fork(
        module,
        arguments,
        module_environment(environment),
        str(log.parent),
        str(log),
        own_confinement(),
    )


def run(kind: str, requests: list[Fork]) -> list[str]:
    """Fork a worker for each of `requests`, and return what they printed."""
    workers = list(fork_workers(KINDS[kind], requests))
    texts = []
    for worker, asked in zip(workers, requests, strict=True):
        assert isinstance(worker, ForkedProcess), worker
        code = worker.wait()
        texts.append(Path(asked.log).read_text())
        assert code == 0, texts[-1]
    return texts


@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_draw_different_random_numbers(kind: str, tmp_path: Path) -> None:
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    texts = run(kind, [request(kind, "tests.support.random_probe", log, [kind]) for log in logs])
    first, second = (json.loads(text.splitlines()[-1]) for text in texts)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] == second[name]] == []
