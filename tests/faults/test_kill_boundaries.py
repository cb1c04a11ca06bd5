"""A kill at any moment loses nothing acknowledged, and leaves no incomplete checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.faults.kills import Outcome

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(os.name != "posix", reason="it forks, and kills with SIGKILL")
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.nightly)])
def test_kills_at_random_and_one_at_every_change_of_the_disk(count: int) -> None:
    """In a process of its own: forks of a process with threads and Qt may hang."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.kills", "--count", str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=500,
        check=False,
    )
    found = {
        name: msgspec.json.decode(report, type=Outcome)
        for name, _, report in (line.partition(": ") for line in done.stdout.splitlines()[:2])
    }
    at_random, at_changes = found["at random"], found["at every change"]
    assert at_random.faults == at_changes.faults == []
    assert done.returncode == 0
    assert at_random.kills == count
    assert at_random.acknowledged > count / 2, "the writers did write"
    assert at_random.incomplete > count / 20, "checkpoints were hit in the middle"
    assert at_changes.kills > 10
