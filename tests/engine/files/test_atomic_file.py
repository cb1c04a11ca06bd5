"""A file is replaced whole or not at all, and belongs to its owner where that was asked for."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.files import atomic_file
from engine.files.atomic_file import (
    create_folders,
    open_to_append,
    remove_leftovers,
    sync_to_disk,
    sync_tree,
    write_atomically,
)


@pytest.mark.parametrize(("data", "content"), [(b"\xff", b"\xff"), ("é\n", "é\n".encode())])
def test_bytes_and_text_replace_what_was_there(
    tmp_path: Path, data: bytes | str, content: bytes
) -> None:
    file = tmp_path / "control.json"
    file.write_text("a longer text from before")
    write_atomically(file, data)
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_pieces_are_joined(tmp_path: Path) -> None:
    write_atomically(tmp_path / "out.csv", (f"{k}\n" for k in range(3)))
    assert (tmp_path / "out.csv").read_text() == "0\n1\n2\n"


def test_an_error_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("old")

    def pieces() -> Iterator[str]:
        yield "new"
        raise LookupError

    with pytest.raises(LookupError):
        write_atomically(file, pieces(), sync=True)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "notes.toml"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(folder, "text", sync=True)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.skipif(os.name != "posix", reason="the permissions of POSIX")
def test_the_mode_is_the_one_that_was_asked_for_whatever_the_old_file_had(tmp_path: Path) -> None:
    for mode, name in ((0o600, "private"), (0o644, "shared")):
        file = tmp_path / name
        file.touch(0o666)
        write_atomically(file, "text", mode=mode, sync=True)
        assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.skipif(os.name != "posix", reason="links that any user may make")
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("not ours")
    link = tmp_path / "link"
    link.symlink_to(other)
    write_atomically(link, "text")
    assert (other.read_text(), link.read_text()) == ("not ours", "text")
    assert not link.is_symlink()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that were synced, in order."""
    found: list[Path] = []

    def fsync(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the links of /proc")
def test_a_tree_is_synced_whole_with_its_name_and_without_what_links_lead_to(
    tmp_path: Path, synced: list[Path]
) -> None:
    run = tmp_path / "runs" / "7"
    (run / "modules" / "own").mkdir(parents=True)
    (run / "modules" / "own" / "model.py").touch()
    (run / "spec.toml").touch()
    (tmp_path / "elsewhere").mkdir()
    (run / "link").symlink_to(tmp_path / "elsewhere")
    sync_tree(run)
    inside = [path for path in run.rglob("*") if path.name != "link"]
    assert sorted(synced) == sorted([*inside, run, run.parent])
    assert synced[-2:] == [run, run.parent]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the links of /proc")
def test_created_folders_are_private_and_their_names_are_synced(
    tmp_path: Path, synced: list[Path]
) -> None:
    folder = tmp_path / "share" / "traindeck" / "runs"
    create_folders(folder)
    assert synced == [tmp_path, tmp_path / "share", tmp_path / "share" / "traindeck"]
    created = [folder, *folder.parents][:3]
    assert {stat.S_IMODE(each.stat().st_mode) for each in created} == {0o700}
    create_folders(folder)
    assert len(synced) == 3, "there was nothing to create"


def test_old_temporary_files_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    kept = {"queue.json", ".queue.json.tmp", ".hidden", ".notes.toml.abcdef.tmp"}
    for name in kept | {".spec.toml.012def.tmp"}:
        (tmp_path / name).touch()
        old = time.time() - 3600
        os.utime(tmp_path / name, (old, old))
    os.utime(tmp_path / ".notes.toml.abcdef.tmp")  # another process writes it now
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept
    remove_leftovers(tmp_path, older_than=0.0)
    assert {path.name for path in tmp_path.iterdir()} == kept - {".notes.toml.abcdef.tmp"}


def test_what_is_appended_goes_to_a_file_of_our_own_only(tmp_path: Path) -> None:
    old = tmp_path / "old.log"
    old.write_text("before\n")
    old.chmod(0o644)
    with open_to_append(old) as file:
        file.write(b"after\n")
    assert old.read_text() == "before\nafter\n"
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
def test_links_pipes_and_devices_are_not_appended_to(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path, problem in ((link, "is a link"), (pipe, "is a pipe"), (Path("/dev/null"), "regular")):
        with pytest.raises(OSError, match=problem):
            open_to_append(path)
    assert not target.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems sync a file in one piece")
def test_the_sync_of_a_large_file_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_file, "SYNCED_AT_ONCE", 1000)
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(bytes(2500))
    small.write_bytes(bytes(1000))
    counted: list[int] = []
    sync_to_disk(small, counted.append)
    sync_to_disk(tmp_path, counted.append)
    assert counted == []
    sync_to_disk(large, counted.append)
    assert counted == [1000] * 3
