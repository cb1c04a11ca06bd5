"""The packed folder of a recipe: what is in it, its limits, and what is not unpacked."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from engine.supervisor.machines import recipe_folder
from engine.supervisor.machines.recipe_folder import Packed, UnfitFolder, pack, unpack
from tests.support.sentences import sentence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "data" / "deep").mkdir(parents=True)
    (made / "mine.py").write_text("x = 1")
    (made / "data" / "deep" / "points.csv").write_bytes(b"\0\xff")
    return made


def unpacked(packed: bytes, target: Path) -> dict[str, bytes]:
    unpack(packed, target)
    files = (each for each in target.rglob("*") if each.is_file())
    return {each.relative_to(target).as_posix(): each.read_bytes() for each in files}


def test_files_arrive_as_they_are(folder: Path, tmp_path: Path) -> None:
    packed = pack(folder)
    assert unpacked(packed, tmp_path / "copy") == {
        "mine.py": b"x = 1",
        "data/deep/points.csv": b"\0\xff",
    }


def test_what_is_made_again_or_secret_stays(folder: Path, tmp_path: Path) -> None:
    for name in (".git/HEAD", ".env", "__pycache__/mine.pyc", "checkpoints/weights", "mine.pyc"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    environment = folder / "env"
    environment.mkdir()
    (environment / "pyvenv.cfg").touch()
    (environment / "library.py").touch()
    os.mkfifo(folder / "pipe")
    (folder / "lost").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder)
    (folder / "linked.csv").symlink_to(folder / "data" / "deep" / "points.csv")
    found = unpacked(pack(folder), tmp_path / "copy")
    assert sorted(found) == ["data/deep/points.csv", "linked.csv", "mine.py"]


def test_too_many_or_too_large_files_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_folder, "MOST_FILES", 1)
    with pytest.raises(UnfitFolder, match="it has more than 1 files"):
        pack(folder)
    with (folder / "large").open("wb") as file:
        file.truncate(recipe_folder.MOST_BYTES + 1)
    monkeypatch.setattr(recipe_folder, "MOST_FILES", 9)
    with pytest.raises(UnfitFolder, match=sentence("files-have-more-than-mib").pattern):
        pack(folder)


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnfitFolder, match=r"it cannot be read: .*gone: no such file or directory"):
        pack(tmp_path / "gone")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", ""])
def test_a_name_that_leaves_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    packed = msgspec.msgpack.encode(Packed({name: b"evil"}))
    with pytest.raises(ValueError, match=sentence("names-that-are-none-of-files").pattern):
        unpack(packed, tmp_path / "copy")
    assert not list(tmp_path.iterdir())
