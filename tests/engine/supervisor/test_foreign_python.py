"""A recipe that trains with the Python of another environment, as a real run."""

from __future__ import annotations

import sys
import sysconfig
import venv
from pathlib import Path

import msgspec
import pytest

from engine import client
from engine.client import CannotStart
from engine.environments.activation import PROGRAM
from engine.messages.events import WorkerReady
from engine.runs.run_state import RunState
from engine.spec.spec_file import stored_environment
from tests.support.runs import events, logs, spec, train, wait_for_end

pytestmark = pytest.mark.usefixtures("processes")

NEEDED = (
    *("torch", "torchgen", "numpy", "numpy.libs", "msgspec", "psutil", "safetensors", "sympy"),
    *("mpmath", "networkx", "jinja2", "markupsafe", "fsspec", "filelock", "typing_extensions.py"),
)
"""What lies in the environment: PyTorch with what it needs, and the needs of a worker."""

RECIPE = """
import importlib.util
import sys
import torch
from torch import nn
import main  # a module of the user, beside the recipe

print("prefix:", sys.prefix)
print("ours:", [name for name in ("PySide6", "rich", "tomli_w", "platformdirs")
                if importlib.util.find_spec(name)])

def model():
    return nn.Linear(4, main.OUTPUTS)

def datasets():
    x = torch.ones(64, 4)
    return (x, x.sum(1, keepdim=True)), (x[:8], x[:8].sum(1, keepdim=True))

def loss(outputs, targets):
    return nn.functional.mse_loss(outputs, targets)
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    folder = tmp_path / "their env"
    venv.create(folder, with_pip=False, symlinks=True)
    ours = Path(sysconfig.get_path("purelib"))
    (site,) = folder.glob("lib/python3*/site-packages")
    for name in NEEDED:
        if (ours / name).exists():
            (site / name).symlink_to(ours / name)
    infos = [f"{name.partition('.')[0]}-*.dist-info" for name in NEEDED]
    for info in (each for pattern in infos for each in ours.glob(pattern)):
        if not (site / info.name).exists():
            (site / info.name).symlink_to(info)
    return folder / PROGRAM


@pytest.mark.nightly
def test_a_recipe_trains_and_resumes_with_the_python_of_another_environment(
    tmp_path: Path, python: Path
) -> None:
    recipe = tmp_path / "mine" / "recipe.py"
    recipe.parent.mkdir()
    recipe.write_text(RECIPE)
    (recipe.parent / "main.py").write_text("OUTPUTS = 1\n")
    wanted = spec(str(recipe), "torch/single", epochs=1, interpreter=str(python))
    info = train(wanted)
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    printed = logs(info)
    assert f"prefix: {python.parents[1]}" in printed
    assert "ours: []" in printed
    (ready,) = (each for each in events(info) if isinstance(each, WorkerReady))
    assert ready.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    stored = stored_environment(info.folder)
    assert stored["interpreter"] == str(python)
    assert "torch" in stored["packages"]
    assert "keras" not in stored["packages"]
    client.resume(info.id, spec=msgspec.structs.replace(info.spec, epochs=2))
    info = wait_for_end(info.id)
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    assert info.spec.interpreter == str(python)
    assert logs(info).count(f"prefix: {python.parents[1]}") == 2


def test_a_python_that_lacks_something_is_refused_before_the_start(python: Path) -> None:
    wanted = spec("digits", "torch/single", interpreter=str(python))
    with pytest.raises(CannotStart, match="has no scikit-learn") as refused:
        client.start(wanted)
    (problem,) = refused.value.problems
    assert problem.field == "interpreter"
    wanted = spec("digits_keras", "tf/single", interpreter=str(python))
    with pytest.raises(CannotStart, match="has no TensorFlow"):
        client.start(wanted)
    assert client.runs() == []
