"""A listener finds a folder with a short path, for its user only."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import closing
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from engine.system import listener

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sockets have paths on POSIX only")


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, with a path that is too long for a socket."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return folder


def test_the_socket_is_in_a_private_folder_elsewhere(long: Path) -> None:
    with closing(listener.open_listener(backlog=4)) as opened:
        address = Path(str(opened.address))
        assert len(os.fsencode(address)) <= listener.LONGEST_PATH
        assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
        Client(str(address)).close()
    assert list(long.iterdir()) == []


def test_the_folder_of_the_login_session_is_taken_before_tmp(
    long: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tempfile.mkdtemp(dir="/tmp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", session)
    with closing(listener.open_listener(backlog=4)) as opened:
        assert str(opened.address).startswith(session)


def test_where_every_path_is_too_long_the_folder_and_the_limit_are_named(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_parents", lambda: iter([str(long)]))
    with pytest.raises(OSError, match=r"x, is too long for a socket, .* 103 bytes: set TMPDIR"):
        listener.open_listener(backlog=4)
