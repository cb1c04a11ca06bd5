"""What a command starts, and with which Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine.environments.activation import activated
from engine.scripts.command import CommandProblem, command_words, launcher_in
from engine.scripts.interpreters import (
    NoInterpreter,
    conda_environments,
    find_interpreter,
    virtual_environments,
)
from tests.support.sentences import sentence


def make_environment(folder: Path, marker: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "python"
    program.symlink_to(sys.executable)
    if marker.endswith(".cfg"):
        (folder / marker).touch()
    else:
        (folder / marker).mkdir()
    return program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").touch()
    (tmp_path / "plain.sh").write_text("echo")
    (tmp_path / "first.txt").write_text("#!/usr/bin/env -S bash -e\necho")
    (tmp_path / "data.bin").write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("train.py", "-m"), ("PY", "train.py", "-m")),
        (("package", "x"), ("PY", "package", "x")),
        (("-m", "package"), ("PY", "-m", "package")),
        (("python3", "-u", "train.py"), ("PY", "-u", "train.py")),
        (("sh", "-c", "x"), ("SH", "-c", "x")),
        (("first.txt", "a"), ("/usr/bin/env", "-S", "bash", "-e", "FILE", "a")),
    ],
)
def test_the_words(folder: Path, command: tuple[str, ...], words: tuple[str, ...]) -> None:
    names = {"FILE": str(folder / "first.txt")}
    found = command_words(command, folder, "PY")
    if words[0] == "SH":
        assert Path(found[0]).name == "sh"
        assert found[1:] == list(words[1:])
    else:
        assert found == [names.get(word, word) for word in words]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ((), "There is no command"),
        (("nope.py",), "There is no script"),
        (("./nope",), "There is no program"),
        (("data.bin",), "is not executable"),
        (("x.ipynb",), "is a notebook"),
    ],
)
def test_what_cannot_be_started(folder: Path, command: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandProblem, match=text):
        command_words(command, folder, "PY")


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (("torchrun", "train.py"), "torchrun"),
        (("accelerate", "launch", "train.py"), "accelerate"),
        (("python", "-m", "torch.distributed.run", "x.py"), "torch.distributed.run"),
        (("train.py", "torchrun"), ""),
        (("./torchrun.sh",), ""),
    ],
)
def test_launchers(command: tuple[str, ...], launcher: str) -> None:
    assert launcher_in(command) == launcher


def test_a_python_by_path_folder_and_name(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONDA_PREFIX", "CONDA_EXE", "MAMBA_ROOT_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    venv = make_environment(folder / ".venv", "pyvenv.cfg")
    conda = make_environment(home / "miniconda3" / "envs" / "nets", "conda-meta")
    assert virtual_environments(folder) == [folder / ".venv"]
    assert home / "miniconda3" / "envs" / "nets" in conda_environments()
    for text in (".venv", str(folder / ".venv"), ".venv/bin/python", str(venv)):
        assert find_interpreter(text, folder) == venv
    assert find_interpreter("nets", folder) == conda
    assert find_interpreter("~/miniconda3/envs/nets", folder) == conda
    with pytest.raises(NoInterpreter, match=r"\.venv, nets"):
        find_interpreter("other", folder)
    with pytest.raises(NoInterpreter, match=sentence("neither-python-nor-folder").pattern):
        find_interpreter("./package", folder)
    gone = folder / "gone" / "bin" / "python"
    gone.parent.mkdir(parents=True)
    gone.symlink_to(folder / "nowhere" / "python3")
    for text in (str(gone), "./gone"):
        with pytest.raises(NoInterpreter, match=sentence("python-of-environment-is-gone").pattern):
            find_interpreter(text, folder)


def test_an_environment_is_activated(folder: Path) -> None:
    venv = make_environment(folder / "venv", "pyvenv.cfg")
    conda = make_environment(folder / "conda", "conda-meta")
    before = {"PATH": f"/bin{os.pathsep}/usr/bin", "VIRTUAL_ENV": "/old", "PYTHONHOME": "/old"}
    assert activated(before, "") == before
    assert activated(before, str(venv)) == {
        "PATH": os.pathsep.join([str(venv.parent), "/bin", "/usr/bin"]),
        "VIRTUAL_ENV": str(folder / "venv"),
    }
    assert activated(before, str(conda))["CONDA_PREFIX"] == str(folder / "conda")
