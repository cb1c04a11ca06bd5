"""A data folder is used by one machine at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from engine.processes.machine import Machine, this_machine
from engine.processes.process import ON_LINUX, PROJECT
from engine.system import folder_claim, paths
from engine.system.folder_claim import FORGET_SECONDS, PREFIX, claim
from tests.support.sentences import sentence

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="other systems tell no machine")

HOLDER = "import sys; from engine.system.folder_claim import claim; from pathlib import Path; "
HOLDER += "print(claim(Path(sys.argv[1])), flush=True); sys.stdin.read()"


def be_another(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    other: Machine = msgspec.structs.replace(this_machine(), **changes)
    monkeypatch.setattr(folder_claim, "this_machine", lambda: other)


@pytest.mark.parametrize("changes", [{"boot": "7"}, {"processes": "pid:[7]"}])
def test_another_machine_or_container_is_refused_while_this_one_uses_the_folder(
    changes: dict[str, str],
    processes: None,
    traindeck_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths.prepare_home()
    command = [sys.executable, "-c", HOLDER, str(traindeck_home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "\n", "a second process of one machine is welcome"
        be_another(monkeypatch, **changes)
        with pytest.raises(paths.UnusableHome) as refused:
            paths.prepare_home()
        folder, host = traindeck_home, this_machine().host
        assert str(refused.value) == sentence("data-folder-is-in-use-on", folder=folder, host=host)
    monkeypatch.undo()
    monkeypatch.setenv(paths.HOME_VARIABLE, str(traindeck_home))
    be_another(monkeypatch, **changes)
    paths.prepare_home()


def test_a_process_that_goes_to_another_folder_leaves_the_first(tmp_path: Path) -> None:
    for name in ("a", "b", "a"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        assert claim(folder) == ""
        assert [held.parent for held in folder_claim._held] == [folder]


def test_files_of_machines_that_are_gone_are_deleted_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / f"{PREFIX}1-gone", tmp_path / f"{PREFIX}2-gone"
    for file in (old, new):
        file.touch()
    long_ago = old.stat().st_mtime - FORGET_SECONDS - 1
    os.utime(old, (long_ago, long_ago))
    assert claim(tmp_path) == ""
    assert (old.exists(), new.exists()) == (False, True)


def test_a_folder_that_cannot_be_written_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> int:
        raise PermissionError

    monkeypatch.setattr(folder_claim.presence, "hold", refuse)
    assert claim(tmp_path) == ""
