"""What is said of the limits of the machine."""

from __future__ import annotations

import pytest

from engine.doctor.finding import Finding
from engine.planning.checks.machine import (
    ClockFacts,
    LimitFacts,
    clock_finding,
    limits_finding,
    of_problems,
    shared_memory_finding,
)
from tests.engine.planning.checks.conftest import Make
from tests.support.sentences import sentence

MIB = 2**20
GOOD = Finding("shared memory", "ok", "There is enough.")
SMALL = Finding("shared memory", "error", "It is small.", "Start it with more.")


@pytest.mark.parametrize(
    ("files", "most", "workers", "level", "advice"),
    [
        (-1, -1, 4, "ok", ""),
        (1024, -1, 0, "ok", ""),
        (256, 4096, 0, "warning", sentence("say-in-shell-that-starts-traindeck")),
        (1024, 1024, 16, "warning", sentence("administrator-must-raise-limit")),
    ],
)
def test_open_files(
    made: Make, files: int, most: int, workers: int, level: str, advice: str
) -> None:
    spec = made({"loader_workers": workers}).spec
    found = limits_finding(spec, LimitFacts(open_files=files, most_open_files=most))
    assert found.level == level
    assert advice in found.advice


def test_locked_memory_matters_to_gpus(made: Make) -> None:
    facts = LimitFacts(locked_memory=8 * MIB)
    assert limits_finding(made().spec, facts).level == "ok"
    found = limits_finding(made({"devices": ("GPU-a", "GPU-b")}).spec, facts)
    assert (found.level, "lock 8.0 MiB" in found.text) == ("hint", True)


def test_shared_memory_is_compared_with_the_batches_of_the_loader_workers(made: Make) -> None:
    run = made({"loader_workers": 4}, measured={"rank/0/loading/batch_bytes": 10.0 * MIB})
    assert shared_memory_finding(run, GOOD, 240 * MIB).level == "ok"
    found = shared_memory_finding(run, GOOD, 100 * MIB)
    assert found.level == "error"
    assert sentence("ranks-with-loader-workers-keep-about") in found.text
    assert found.change is not None
    assert found.change.fields == {"loader_workers": 1}


def test_what_the_doctor_says_of_it_matters_with_loader_workers(made: Make) -> None:
    assert shared_memory_finding(made(), SMALL, -1).level == "hint"
    found = shared_memory_finding(made({"loader_workers": 1}), SMALL, -1)
    assert (found.level, found.advice) == ("warning", "Start it with more.")


@pytest.mark.parametrize(
    ("jump", "is_kept", "level", "phrase"),
    [
        (0.0, True, "ok", "evenly and is kept right"),
        (0.0, None, "ok", "The clock goes evenly."),
        (0.0, False, "hint", "no time service"),
        (-90.0, True, "warning", "was set by -90.0 s"),
    ],
)
def test_the_clock(jump: float, is_kept: bool | None, level: str, phrase: str) -> None:
    found = clock_finding(ClockFacts(jump=jump, is_synchronised=is_kept))
    assert found.level == level
    assert phrase in found.text


def test_only_problems_of_the_doctor_are_told() -> None:
    checks = [Finding("driver", "ok", "It works."), Finding("cuDNN", "unknown", "Not here."), SMALL]
    assert [finding.name for finding in of_problems(checks)] == ["shared memory"]
