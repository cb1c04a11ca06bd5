"""A file is replaced whole or not at all, and belongs to its owner where that was asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.system.atomic_file import write_atomically


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
