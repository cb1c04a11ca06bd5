"""A folder that was renamed is found, and its old path is valid until it is closed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.system.open_folder import OpenFolder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is found")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "3"
    made.mkdir(parents=True)
    (made / "data").write_text("x")
    return made


@pytest.fixture
def opened(folder: Path) -> Iterator[OpenFolder]:
    with closing(OpenFolder(folder)) as made:
        yield made


def test_its_old_path_leads_to_the_new_one_until_it_is_closed(
    opened: OpenFolder, folder: Path, tmp_path: Path
) -> None:
    new = folder.rename(tmp_path / "kept")
    assert opened.link_back() == new
    assert (folder / "data").read_text() == "x"
    opened.close()
    assert not folder.is_symlink()
    assert (new / "data").read_text() == "x"


def test_a_folder_above_it_was_renamed(opened: OpenFolder, folder: Path) -> None:
    above = folder.parent
    new = above.rename(above.with_name("other"))
    assert opened.link_back() == new / "3"
    assert above.is_symlink()
    assert (folder / "data").read_text() == "x"


def test_a_folder_that_was_deleted_is_not_found(opened: OpenFolder, folder: Path) -> None:
    (folder / "data").unlink()
    folder.rmdir()
    assert opened.link_back() is None


def test_what_has_its_path_now_stays(opened: OpenFolder, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "kept")
    folder.mkdir()
    assert opened.link_back() is None
    opened.close()
    assert folder.is_dir()
