"""The wheels: one name in site-packages, which hides no module of a user's, and the calls alone."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from engine.processes.process import PROJECT
from tests.support.other_pythons import other_python
from tests.support.script_listener import IN_SCRIPT

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("processes")]

THEIRS = ("engine", "gui", "main", "resources")
"""Modules of a user with the names of ours."""

RECIPE = """
import torch
import engine, gui, main, resources

assert {each.OF for each in (engine, gui, main, resources)} == {"the user"}


def model():
    return torch.nn.Linear(4, 3)


def datasets():
    data = torch.utils.data.TensorDataset(torch.zeros(8, 4), torch.zeros(8, dtype=torch.long))
    return data, data
"""


CALLS = """
import os, threading, traindeck
from importlib.metadata import version

state = {"sum": 0}
traindeck.keep(state=state)
for epoch in traindeck.epochs(2):
    for number, value in traindeck.batches([1, 2, 3], numbered=True):
        state["sum"] += value
        traindeck.log(loss=value)
    traindeck.log({"val_loss": 1.0})
    traindeck.checkpoint()
for step in traindeck.steps(4):
    state["sum"] += step
traindeck.image("image", None)
traindeck.histogram("histogram", None)
traindeck.summary(best=None)
assert state == {"sum": 18}, state
assert version("traindeck-calls") == traindeck.__version__
assert os.listdir() == [] and threading.active_count() == 1
print(traindeck.__file__)
"""
"""Each call outside of a run, in an empty folder: it writes nothing and starts nothing."""


def _pip(*words: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _wheel_of(project: Path, folder: Path) -> Path:
    # Without hatchling here, pip asks the network for it.
    alone = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    _pip("wheel", "-q", "--no-deps", *alone, "-w", folder, project)
    (made,) = folder.iterdir()
    return made


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _wheel_of(PROJECT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel_of_calls(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a user builds it: from the folder of an installed Traindeck."""
    installed = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(installed)
    return _wheel_of(
        installed / "traindeck" / "_program_files" / "resources" / IN_SCRIPT.name,
        tmp_path_factory.mktemp("calls"),
    )


def test_it_puts_one_name_into_site_packages(wheel: Path) -> None:
    names = _contents(wheel)
    others = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert others == {"traindeck"}
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_the_calls_alone_are_files_that_the_product_has_too(
    wheel: Path, wheel_of_calls: Path
) -> None:
    """So an environment may have both: the second one installed changes no file of the first."""
    product, calls = _contents(wheel), _contents(wheel_of_calls)
    modules = {name for name in calls if ".dist-info/" not in name}
    own = {name for name in product if name.startswith("traindeck/_program")}
    assert modules == {name for name in product if ".dist-info/" not in name} - own
    assert [name for name in modules if calls[name] != product[name]] == []


@pytest.mark.skipif(not (PYTHON_39 := other_python("3.9")), reason="there is no Python 3.9")
def test_the_calls_alone_do_nothing_in_the_oldest_python(
    wheel_of_calls: Path, tmp_path: Path
) -> None:
    environment, empty = tmp_path / "env", tmp_path / "empty"
    empty.mkdir()
    subprocess.run([PYTHON_39, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    _pip("--python", python, "install", "-q", "--no-index", "--no-compile", wheel_of_calls)
    (packages,) = environment.glob("lib/python3.9/site-packages")
    # Also what imports a framework, which is not there.
    subprocess.run([python, "-m", "compileall", "-q", packages / "traindeck"], check=True)
    done = subprocess.run(
        [python, "-I", "-c", CALLS], cwd=empty, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(packages)


def test_a_user_who_has_modules_of_these_names_trains_with_them(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "env"
    venv.create(environment, with_pip=False, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages)
    # The libraries are those of this environment, without what it has installed in editable form.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in THEIRS:
        (packages / f"{name}.py").write_text("OF = 'the user'\n")
    recipe = tmp_path / "nets.py"
    recipe.write_text(RECIPE)
    program = "import sys; from traindeck._program import entry; sys.exit(entry())"
    words = ["train", "--recipe", str(recipe), "--devices", "cpu:0", "--steps", "3", "--json"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [environment / "bin" / "python", "-c", program, *words],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "finished"
