"""Attacks by another user of the machine, or by the sender of a checkpoint, are refused."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import main
from engine import client
from engine.messages.commands import Stop
from engine.runs import run_info, trash
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunState
from engine.spec import catalog
from engine.system import logs, paths
from tests.support.contract import plain
from tests.support.recorded_runs import RecordedRun
from tests.support.runs import is_training, spec, wait_for, wait_for_end
from tests.support.sentences import sentence
from tests.support.trained_runs import own_copy

pytestmark = pytest.mark.usefixtures("processes")

NOBODY = 65534

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can start a process of another user",
)


@pytest.fixture
def open_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder that all users may read and write, as with a careless umask."""
    home = Path(tempfile.mkdtemp(prefix="traindeck-"))
    home.chmod(0o777)
    (home / "runs").mkdir()
    (home / "runs").chmod(0o777)
    monkeypatch.setenv(paths.HOME_VARIABLE, str(home))
    yield home
    shutil.rmtree(home, ignore_errors=True)


def as_stranger(attempts: dict[str, Callable[[], object]]) -> dict[str, str]:
    """Let a process of another user make `attempts`; return its error or `done` for each."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        found = {}
        for name, attempt in attempts.items():
            try:
                attempt()
                found[name] = "done"
            except OSError as error:
                found[name] = type(error).__name__
        os.write(write_end, msgspec.json.encode(found))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(text, type=dict[str, str])


def dial(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)


class PlantedCode:
    """A pickle that calls a function when it is loaded."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self._trace,)


@as_root
def test_another_user_is_refused_everywhere(open_home: Path) -> None:
    """The run's own folder protects it, even if the folders around it are open to all users."""
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    info = wait_for(run_id, is_training)
    control = msgspec.json.decode((info.folder / "control.json").read_bytes())
    control_folder = Path(control["address"]).parent
    planted = open_home / "runs" / "77"
    results = as_stranger(
        {
            "list the run": lambda: list(info.folder.iterdir()),
            "read the key": (info.folder / "control.json").read_bytes,
            "read the log": (info.folder / "logs" / "rank0.log").read_bytes,
            "read the curves": (info.folder / "run.sqlite").read_bytes,
            "plant a checkpoint": (info.folder / "checkpoints" / "step-99999999").mkdir,
            "change the recipe": (info.folder / "recipe.py").unlink,
            "find the socket": lambda: list(control_folder.iterdir()),
            "call the supervisor": lambda: dial(control["address"]),
            "see the runs": lambda: list(info.folder.parent.iterdir()),
            "plant a run": planted.mkdir,
        }
    )
    assert results == dict.fromkeys(results, "PermissionError")
    client.send(run_id, Stop(now=True))
    assert wait_for_end(run_id).state is RunState.STOPPED


@as_root
def test_a_run_that_another_user_planted_is_not_used(open_home: Path) -> None:
    runs = open_home / "runs"
    assert as_stranger({"plant": (runs / "5").mkdir}) == {"plant": "done"}
    with pytest.raises(client.NoSuchRun, match="its folder belongs to another user"):
        client.get_run("5")
    paths.create_run_folder()
    assert as_stranger({"plant": (runs / "7").mkdir}) == {"plant": "PermissionError"}

    os.chown(runs, NOBODY, NOBODY)
    with pytest.raises(client.CannotStart, match="belongs to another user"):
        client.start(spec("probe_torch", "torch/single"))


@as_root
def test_a_run_that_is_a_link_or_open_to_others_is_not_resumed_and_not_followed(
    open_home: Path, tmp_path: Path
) -> None:
    """Each kind of planting, also with links that point to folders of the victim."""
    runs, victim = open_home / "runs", tmp_path / "precious"
    victim.mkdir()
    (victim / "work").write_text("years of it")
    own = paths.create_run_folder()
    runs.chmod(0o777)  # as before the data folder was made private
    open_home.chmod(0o777)
    planted = as_stranger({"link": lambda: (runs / "5").symlink_to(victim)})
    assert planted == {"link": "done"}
    with pytest.raises(client.NoSuchRun, match="its folder is a link"):
        client.resume("5")
    (runs / "5").unlink()

    os.utime(victim, (1.0, 1.0))  # a young folder may be that of a run that is just created
    (runs / "6").symlink_to(victim)  # of this user: shown, but not used
    assert [run.id for run in run_info.all_runs()] == ["6"], "run 1 has no settings yet"
    with pytest.raises(client.NoSuchRun, match="its folder is a link"):
        client.resume("6")
    trash.delete("6")
    assert trash.empty(trash.trashed()) == 1
    assert (victim / "work").read_text() == "years of it"
    assert [entry.name for entry in victim.iterdir()] == ["work"], "no lock is put there"

    own.chmod(0o777)
    with pytest.raises(client.NoSuchRun, match=sentence("other-users-may-write-to-folder").pattern):
        client.resume(own.name)


@as_root
def test_a_data_folder_of_another_user_is_refused_by_name(
    open_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = open_home / "queue.json"
    assert as_stranger({"plant": lambda: queue.write_text("[]")}) == {"plant": "done"}
    assert main.main(["runs"]) == 2
    assert f"{queue} belongs to another user" in capsys.readouterr().err
    queue.unlink()
    assert main.main(["runs"]) == 0
    assert as_stranger({"look": lambda: list(open_home.iterdir())}) == {"look": "PermissionError"}

    shared = Path(tempfile.mkdtemp(prefix="traindeck-"))
    shared.chmod(0o777)
    try:
        link = shared / "deck"
        assert as_stranger({"link": lambda: link.symlink_to(open_home)}) == {"link": "done"}
        monkeypatch.setenv(paths.HOME_VARIABLE, str(link))
        assert main.main(["runs"]) == 2
        assert f"{link} belongs to another user" in capsys.readouterr().err
        link.unlink()
        assert as_stranger({"folder": link.mkdir}) == {"folder": "done"}
        assert main.main(["runs"]) == 2
        assert sentence("set-to-folder-of-your-own") in capsys.readouterr().err
    finally:
        shutil.rmtree(shared)


def test_what_the_command_line_makes_is_for_its_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "deck"
    monkeypatch.setenv(paths.HOME_VARIABLE, str(home))
    RecordedRun().store.close()
    before = os.umask(0o000)
    try:
        assert main.main(["--log-level", "info", "runs"]) == 0
    finally:
        os.umask(before)
        logs.stop()
        monkeypatch.delenv(logs.LEVEL_VARIABLE, raising=False)
        monkeypatch.delenv(logs.FOLDER_VARIABLE, raising=False)
    found = [home, *home.iterdir(), *(home / "logs").iterdir()]
    assert {"index.sqlite", "logs", "runs", "debug-cli.log"} <= {each.name for each in found}
    assert {oct(each.stat().st_mode & 0o077) for each in found} == {"0o0"}


def test_a_checkpoint_that_holds_code_is_refused_and_the_code_not_run(tmp_path: Path) -> None:
    """Its checksums are right: its author wrote the manifest, too."""
    import torch

    run_id = own_copy(plain(catalog.strategy("torch/single"))).id
    saved = client.run_checkpoints(run_id)[-1]
    trace = tmp_path / "it ran"
    path = saved.folder / "rank0.pt"
    torch.save({"random": PlantedCode(trace), "own": {}}, path)
    with pytest.raises(
        client.CheckpointUnusable, match=sentence("file-is-missing-or-changed").pattern
    ):
        client.resume(run_id, saved.folder)

    files = saved.manifest.files | {
        path.name: checkpoint_files.FileRecord(
            path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
        )
    }
    forged = msgspec.structs.replace(saved.manifest, files=files)
    (saved.folder / checkpoint_files.MANIFEST).write_bytes(msgspec.json.encode(forged))
    client.resume(run_id, saved.folder)
    refused = wait_for_end(run_id)
    assert refused.state is RunState.FAILED
    assert refused.reason.endswith(
        sentence("in-checkpoint-is-not-what-traindeck", folder=saved.folder.name)
    )
    assert not trace.exists()
    torch.load(path, weights_only=False)
    assert trace.exists(), "the planted code runs if it is loaded as a pickle"
