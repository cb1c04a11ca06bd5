"""Small files are read only if they are what they should be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.regular_file import UnfitFile, read_json, read_regular, read_toml
from tests.support.sentences import sentence


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(50 * 2**30)


UNFIT: dict[str, Callable[[Path], object]] = {
    "is not a regular file": os.mkfifo,
    "is a link": lambda path: path.symlink_to("/etc/passwd"),
    "larger than 64": lambda path: path.write_bytes(b"a" * 65),
}


@pytest.mark.parametrize("reason", UNFIT)
def test_another_kind_of_file_is_refused_at_once(tmp_path: Path, reason: str) -> None:
    UNFIT[reason](tmp_path / "spec.toml")
    with pytest.raises(UnfitFile, match=reason):
        read_regular(tmp_path / "spec.toml", 64)


def test_a_folder_a_device_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        read_regular(tmp_path, 64)
    with pytest.raises(UnfitFile, match=sentence("zero-is-not-regular-file").pattern):
        read_regular(Path("/dev/zero"), 64, follow_links=True)
    _sparse(tmp_path / "huge")
    with pytest.raises(UnfitFile, match="huge is larger than"):
        read_toml(tmp_path / "huge")


def test_a_file_that_the_user_chose_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "preset.toml").write_text("a = 1")
    (tmp_path / "link.toml").symlink_to(tmp_path / "preset.toml")
    assert read_toml(tmp_path / "link.toml", follow_links=True) == {"a": 1}
    with pytest.raises(UnfitFile, match="is a link"):
        read_toml(tmp_path / "link.toml")


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "{a=" * 5000 + "1" + "}" * 5000,
    ],
)
def test_a_document_that_is_nested_too_deeply_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_toml(tmp_path / "spec.toml")


def test_json_that_is_nested_too_deeply_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "control.json").write_text("[" * 50_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "control.json")
