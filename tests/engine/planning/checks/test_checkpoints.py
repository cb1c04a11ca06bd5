"""What is said of disk and checkpoints."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.planning.checks.checkpoints import (
    RESERVE,
    DiskFacts,
    automatic_saves,
    checkpoint_bytes,
    checkpoints_findings,
    disk_finding,
)
from tests.engine.planning.checks.conftest import Make
from tests.support.sentences import sentence

MIB, GIB = 2**20, 2**30
DISK = DiskFacts(folder=Path("/data/runs"), free=100 * GIB, total=200 * GIB, bytes_per_second=500e6)


def with_free(free: int) -> DiskFacts:
    return msgspec.structs.replace(DISK, free=free + RESERVE)


def test_a_disk_with_room_is_fine() -> None:
    found = disk_finding(DISK)
    assert (found.level, found.text) == (
        "ok",
        sentence("gib-of-gib-are-free"),
    )


def test_a_disk_that_cannot_be_written_is_an_error() -> None:
    found = disk_finding(msgspec.structs.replace(DISK, problem="read-only file system"))
    assert found.level == "error"
    assert sentence("folder-of-runs-cannot-be-written") in found.text
    assert "TRAINDECK_HOME" in found.advice


def test_a_full_disk_is_an_error() -> None:
    found = disk_finding(msgspec.structs.replace(DISK, free=MIB))
    assert (found.level, "too little for a run" in found.text) == ("error", True)


def test_without_a_checkpoint_its_size_is_estimated(made: Make) -> None:
    assert checkpoint_bytes(made(checkpoint_bytes=5)) == 5
    assert checkpoint_bytes(made()) == 12_000_000
    (found,) = checkpoints_findings(made(), DISK, 0)
    assert found.text.startswith(sentence("checkpoint-has-about-mib-and-takes"))


@pytest.mark.parametrize(
    ("fields", "saves"),
    [
        ({"checkpoint_minutes": 10.0}, 6),
        ({"checkpoint_minutes": 0.0, "checkpoint_steps": 100}, 70),
        ({"checkpoint_minutes": 0.0, "checkpoint_epochs": 2}, 3),
        ({"checkpoint_minutes": 0.0}, 0),
    ],
)
def test_automatic_checkpoints_are_counted(
    made: Make, fields: dict[str, object], saves: int
) -> None:
    assert automatic_saves(made(fields).spec, 3600.0, 7000, 7.0) == saves


@pytest.mark.parametrize(
    ("free", "level", "keep"),
    [
        (5 * GIB, "ok", None),  # three kept, the last one, and one that is being written
        (4 * GIB, "warning", 2),
        (3 * GIB, "warning", 1),
        (2 * GIB, "error", None),
        (0, "error", None),
    ],
)
def test_the_checkpoints_that_are_kept_must_fit(
    made: Make, free: int, level: str, keep: int | None
) -> None:
    (found,) = checkpoints_findings(made(checkpoint_bytes=GIB, step_seconds=0), with_free(free), 9)
    assert found.level == level
    assert (found.change and found.change.fields) == (keep and {"keep_checkpoints": keep})


def test_a_short_run_keeps_only_its_last_checkpoint(made: Make) -> None:
    (found,) = checkpoints_findings(made(checkpoint_bytes=GIB), with_free(GIB), 0)
    assert (found.level, "room for 1, 1.0 GiB" in found.text) == ("ok", True)


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"checkpoint_steps": 10}, {"checkpoint_steps": 1000}),
        ({"checkpoint_minutes": 0.1}, {"checkpoint_minutes": 1.7}),
    ],
)
def test_checkpoints_that_take_much_time_become_rarer(
    made: Make, fields: dict[str, object], change: dict[str, object]
) -> None:
    run = made(fields, checkpoint_bytes=1_000_000_000)  # 2 s, and a step takes 0.1 s
    _, found = checkpoints_findings(run, DISK, 0)
    assert found.level == "warning"
    assert sentence("takes-about-to-write") in found.text
    assert found.change is not None
    assert found.change.fields == change


def test_no_checkpoint_can_be_written_to_a_disk_that_is_full(made: Make) -> None:
    full = msgspec.structs.replace(DISK, problem="no space left on device")
    (found,) = checkpoints_findings(made(checkpoint_bytes=GIB), full, 1)
    assert (found.level, found.text) == (
        "error",
        sentence("no-checkpoint-can-be-written"),
    )
