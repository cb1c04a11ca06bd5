"""The wheel: one name in site-packages, and no module of ours in the way of one of a user's."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(PROJECT)]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("traindeck-*.whl")
    return made


def test_it_puts_one_name_into_site_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    others = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert others == {"traindeck"}
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


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
