"""Checkpoints on disk: complete under their final name, or not there."""

from __future__ import annotations

import json
import math
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.runs.checkpoints import checkpoint_files
from engine.runs.checkpoints.checkpoint_files import CheckpointDamaged, CheckpointInfo, Position
from tests.support.sentences import sentence


def save(run: Path, step: int, content: bytes = b"weights") -> CheckpointInfo:
    folder = checkpoint_files.begin(run, step)
    (folder / "model.pt").write_bytes(content)
    (folder / "parts").mkdir()
    (folder / "parts" / "rank0.pt").write_bytes(b"random state")
    return checkpoint_files.publish(
        run,
        Position(epoch=1, batch=2, step=step),
        strategy="torch/ddp",
        replicas=2,
        batch_size=8,
        parameters=1,
    )


def steps(run: Path) -> list[int]:
    return [info.manifest.position.step for info in checkpoint_files.checkpoints(run)]


def test_a_published_checkpoint_is_listed_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    saved = save(tmp_path, 12)
    assert checkpoint_files.checkpoints(tmp_path) == [saved]
    assert saved.folder == tmp_path / "checkpoints" / "step-00000012"
    assert saved.manifest.position == Position(epoch=1, batch=2, step=12)
    assert (saved.manifest.strategy, saved.manifest.replicas) == ("torch/ddp", 2)
    assert saved.manifest.bytes == len(b"weights") + len(b"random state")
    assert checkpoint_files.verify(saved.folder) == saved.manifest


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path: Path) -> None:
    for step in (100_000_000, 5, 99_999_999):
        save(tmp_path, step)
    assert steps(tmp_path) == [5, 99_999_999, 100_000_000]


def test_a_run_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert checkpoint_files.checkpoints(tmp_path) == []


def test_a_half_written_checkpoint_is_not_listed(tmp_path: Path) -> None:
    folder = checkpoint_files.begin(tmp_path, 3)
    (folder / "model.pt").write_bytes(b"half")
    assert checkpoint_files.checkpoints(tmp_path) == []


def test_what_an_interrupted_save_left_is_not_part_of_the_next(tmp_path: Path) -> None:
    (checkpoint_files.begin(tmp_path, 3) / "stale.pt").write_bytes(b"half")
    saved = save(tmp_path, 3)
    assert not (saved.folder / "stale.pt").exists()
    assert set(saved.manifest.files) == {"model.pt", "parts/rank0.pt"}


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"files": {}}'], ids=repr)
def test_a_checkpoint_without_a_readable_manifest_is_not_listed(
    content: bytes | None, tmp_path: Path
) -> None:
    manifest = save(tmp_path, 3).folder / checkpoint_files.MANIFEST
    manifest.unlink() if content is None else manifest.write_bytes(content)
    assert checkpoint_files.checkpoints(tmp_path) == []
    with pytest.raises(CheckpointDamaged, match=sentence("is-damaged-it-has-no-readable").pattern):
        checkpoint_files.verify(manifest.parent)


@pytest.mark.parametrize("name", ["model.pt", "parts/rank0.pt"])
@pytest.mark.parametrize("damage", ["truncated", "bit flipped", "missing"])
def test_damage_is_found_before_anything_is_loaded(name: str, damage: str, tmp_path: Path) -> None:
    folder = save(tmp_path, 3).folder
    content = bytearray((folder / name).read_bytes())
    match damage:
        case "truncated":
            (folder / name).write_bytes(content[:-1])
        case "bit flipped":
            content[2] ^= 1
            (folder / name).write_bytes(content)
        case "missing":
            (folder / name).unlink()
    with pytest.raises(CheckpointDamaged, match=f"is damaged: {name} is missing or is not"):
        checkpoint_files.verify(folder)


def test_what_lies_beyond_a_step_is_set_aside_and_kept(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        save(tmp_path, step)
    checkpoint_files.rename_after(tmp_path, 5, attempt=2)
    assert steps(tmp_path) == [5]
    kept = tmp_path / "checkpoints" / "step-00000015.before-2"
    assert checkpoint_files.verify(kept).position.step == 15


def test_a_damaged_checkpoint_beyond_the_step_does_not_stay_in_the_way(tmp_path: Path) -> None:
    save(tmp_path, 5)
    (save(tmp_path, 10).folder / checkpoint_files.MANIFEST).unlink()
    checkpoint_files.rename_after(tmp_path, 5, attempt=2)
    save(tmp_path, 10, b"new weights")
    assert steps(tmp_path) == [5, 10]


def test_kinds_are_in_one_order_and_metrics_finite(tmp_path: Path) -> None:
    checkpoint_files.begin(tmp_path, 3)
    info = checkpoint_files.publish(
        tmp_path,
        Position(step=3),
        strategy="s",
        replicas=1,
        batch_size=8,
        parameters=1,
        kinds={"last", "request"},
        metrics={"validation/loss": math.nan, "validation/accuracy": 0.5},
    )
    assert info.manifest.kinds == ("request", "last")
    assert info.manifest.metrics == {"validation/accuracy": 0.5}
    assert checkpoint_files.read_manifest(info.folder) == info.manifest


def test_a_manifest_from_before_there_were_kinds_is_read(tmp_path: Path) -> None:
    path = save(tmp_path, 3).folder / checkpoint_files.MANIFEST
    document = json.loads(path.read_text())
    del document["kinds"], document["metrics"]
    path.write_text(json.dumps(document))
    [info] = checkpoint_files.checkpoints(tmp_path)
    assert (info.manifest.kinds, info.manifest.metrics) == ((), {})


def test_a_checkpoint_gains_and_loses_kinds_and_stays_intact(tmp_path: Path) -> None:
    saved = save(tmp_path, 3)
    gained = checkpoint_files.add_kinds(saved.folder, {"best", "steps"}, {"validation/loss": 0.1})
    assert gained.manifest.kinds == ("steps", "best")
    again = checkpoint_files.add_kinds(saved.folder, {"request"}, {"validation/loss": math.inf})
    assert again.manifest.kinds == ("request", "steps", "best")
    assert again.manifest.metrics == {"validation/loss": 0.1}
    lost = checkpoint_files.set_kinds(again, {"request"})
    assert checkpoint_files.verify(saved.folder) == lost.manifest
    assert lost.manifest.kinds == ("request",)
    assert lost.manifest.files == saved.manifest.files


def test_what_is_removed_is_gone(tmp_path: Path) -> None:
    save(tmp_path, 3)
    checkpoint_files.remove(save(tmp_path, 5).folder)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000003"]


def test_removing_that_is_interrupted_leaves_nothing_under_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path, 3).folder
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files.shutil, "rmtree", lambda *_, **__: None)
        checkpoint_files.remove(folder)
    assert checkpoint_files.folders(tmp_path) == {}
    checkpoint_files.begin(tmp_path, 7)
    save(tmp_path, 5)
    checkpoint_files.remove_unfinished(tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000005"]


def test_the_newest_intact_one_before_another_is_found(tmp_path: Path) -> None:
    for step in (9, 99_999_999, 100_000_000, 100_000_001):
        save(tmp_path, step)
    folders = checkpoint_files.folders(tmp_path)
    assert checkpoint_files.newest_intact_before(folders[100_000_001]) == folders[100_000_000]
    (folders[100_000_000] / checkpoint_files.MANIFEST).unlink()
    (folders[99_999_999] / "model.pt").write_bytes(b"w")
    assert checkpoint_files.newest_intact_before(folders[100_000_001]) == folders[9]
    assert checkpoint_files.newest_intact_before(folders[9]) is None
    run = folders[9].parent.parent
    assert checkpoint_files.newest_intact(run, 10) == (9, folders[9])
    assert checkpoint_files.newest_intact(run, 9) is None


def test_the_disk_begins_before_the_checksums_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    begin, record = checkpoint_files.begin_sync, checkpoint_files._record

    def begins(path: Path) -> None:
        begin(path)
        seen.append("begin")

    def records(path: Path, count: Any) -> Any:
        seen.append("record")
        return record(path, count)

    monkeypatch.setattr(checkpoint_files, "begin_sync", begins)
    monkeypatch.setattr(checkpoint_files, "_record", records)
    save(tmp_path, 1)
    assert seen == sorted(seen)
    assert seen.count("begin") == seen.count("record") > 0


def test_how_long_a_training_is_from_any_of_its_boundaries() -> None:
    """Three epochs of four steps, the first of which had five."""
    boundaries = [Position(1, 0, 5), Position(1, 3, 8), Position(1, 4, 9), Position(2, 0, 9)]
    assert [here.total_steps(4, 3) for here in boundaries] == [13] * 4
    assert Position(3, 0, 13).total_steps(4, 3) == 13


@pytest.mark.parametrize(
    ("batch", "saved_size", "size", "now"),
    [
        (6, 16, 32, 3),
        (6, 16, 8, 12),
        (5, 16, 32, 2),  # 16 samples come twice
        (1, 16, 96, 0),
        (7, 16, 96, 1),  # all 97 samples are done, the last of them in a batch of one
        (7, 16, 4, 25),
        (7, 16, 16, 7),
    ],
)
def test_the_same_place_in_batches_of_another_size(
    batch: int, saved_size: int, size: int, now: int
) -> None:
    there = Position(2, batch, 40)
    moved = there.in_batches_of(size, saved_size, steps_per_epoch=-(-97 // size))
    assert moved == Position(2, now, 40)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """What the folder of the checkpoints held at each of its syncs: a power cut leaves that."""
    found: list[set[str]] = []

    def sync(path: Path, *_: object) -> None:
        if path.name == checkpoint_files.FOLDER:
            found.append({entry.name for entry in path.iterdir()})

    monkeypatch.setattr(checkpoint_files, "sync_to_disk", sync)
    return found


def test_after_a_power_cut_a_half_deleted_checkpoint_has_no_final_name(
    tmp_path: Path, synced: list[set[str]]
) -> None:
    save(tmp_path, 1)
    second = save(tmp_path, 2)
    synced.clear()
    checkpoint_files.remove(second.folder)
    assert synced == [{"step-00000001", "step-00000002.deleted.tmp"}], "before the files were gone"


def test_after_a_power_cut_no_checkpoint_stands_after_the_one_that_was_resumed(
    tmp_path: Path, synced: list[set[str]]
) -> None:
    """The points between them are deleted next, and a resume from the later one would lack them."""
    save(tmp_path, 1)
    save(tmp_path, 2)
    synced.clear()
    checkpoint_files.rename_after(tmp_path, 1, attempt=2)
    assert synced == [{"step-00000001", "step-00000002.before-2"}]
    checkpoint_files.rename_after(tmp_path, 1, attempt=3)
    assert len(synced) == 1, "there was nothing to rename"


def test_an_unfinished_change_of_a_manifest_is_deleted_with_the_unfinished_checkpoints(
    tmp_path: Path,
) -> None:
    saved = save(tmp_path, 1)
    (saved.folder / ".manifest.json.0a1b2c.tmp").write_text("{")
    checkpoint_files.remove_unfinished(tmp_path)
    assert not list(saved.folder.glob(".*"))
    assert checkpoint_files.verify(saved.folder) == saved.manifest


def test_the_size_of_a_checkpoint_is_told_while_folders_in_it_come_and_go(tmp_path: Path) -> None:
    """TensorFlow deletes its temporary folder while it saves."""
    folder = checkpoint_files.begin(tmp_path, 1)
    (folder / "shard").write_bytes(bytes(100))
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            (folder / "state_temp" / "part").mkdir(parents=True)
            shutil.rmtree(folder / "state_temp")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert {checkpoint_files.save_progress(tmp_path)[0] for _ in range(2000)} == {100}
    finally:
        ended.set()
        thread.join()
