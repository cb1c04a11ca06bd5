"""Runs that a session trains once: tests of all xdist workers read them, or change copies."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from engine import client
from engine.client import RunInfo
from engine.runs.run_state import RunState
from engine.spec.run_spec import RunSpec
from engine.system import paths
from tests.support.runs import end_runs, logs, wait_for_end, wait_until_gone

FOLDER_VARIABLE = "TRAINDECK_TEST_RUNS"
"""The environment variable with the session's folder of trained runs."""


def finish(run_id: str) -> None:
    """Wait until the run has done all that its spec asks for."""
    info = wait_for_end(run_id)
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"


def trained(wanted: RunSpec, carry_out: Callable[[str], None] = finish) -> RunInfo:
    """Return the ended run of a spec, for reading only; the first who asks trains it.

    `carry_out` is called with the id of the started run, and ends it. What it raises fails all
    tests that ask for this run.
    """
    name = hashlib.sha256(f"{carry_out.__name__} {wanted!r}".encode()).hexdigest()
    home = Path(os.environ[FOLDER_VARIABLE]) / name[:16]
    verdict = home / "verdict"
    with FileLock(f"{home}.lock"), pytest.MonkeyPatch.context() as patch:
        patch.setenv(paths.HOME_VARIABLE, str(home))
        if not verdict.exists():
            shutil.rmtree(home, ignore_errors=True)  # of a process that was killed meanwhile
            try:
                run_id = client.start(wanted)
                carry_out(run_id)
                wait_until_gone(client.get_run(run_id))
            except BaseException as problem:
                home.mkdir(parents=True, exist_ok=True)
                verdict.write_text(f"{type(problem).__name__}: {problem}")
                end_runs()
                raise
            verdict.touch()
        if problem_before := verdict.read_text():
            pytest.fail(f"This run was trained for another test before. {problem_before}")
        [info] = client.runs()
        return info


def own_copy(info: RunInfo) -> RunInfo:
    """Copy a run into this test's `$TRAINDECK_HOME`, for a test that changes it."""
    folder = paths.create_run_folder()
    shutil.copytree(info.folder, folder, dirs_exist_ok=True)
    return client.get_run(folder.name)
