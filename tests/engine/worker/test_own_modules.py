"""A user's modules with the names of ours, such as `engine`: each code gets its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from engine.messages.events import Notice
from engine.processes.process import PROJECT
from engine.runs.run_state import RunState
from tests.support.runs import events, logs, spec, train

pytestmark = pytest.mark.usefixtures("processes")

PROGRAM = """
import json, os, sys
from pathlib import Path
from engine.spec.recipe_copy import write_copy
from engine.spec.recipe_file import read_recipe
from engine.worker import loader_process, recipe_import

path, run = Path(sys.argv[1]), Path(sys.argv[2])
run.mkdir()
write_copy(run, read_recipe(path))
if "delete" in sys.argv:
    import shutil
    shutil.rmtree(path.parent)
    path.parent.mkdir()
loader_process.become_main_module()
imports = recipe_import.RecipeImports(read_recipe(path, copy=run / "recipe.py"))
recipe = imports.import_recipe()

def ours():
    '''What our code does later: statements in functions, objects that travel, names that msgspec
    looks up when it first needs them.'''
    from multiprocessing.reduction import ForkingPickler
    import msgspec
    from engine.diagnosis import hang_watch
    from engine.messages.events import Metrics, WorkerFailed
    from engine.spec.run_spec import RunSpec
    import engine
    import engine.training.pace
    from engine.training import pace
    from engine import client
    given = RunSpec(recipe="r", strategy="s", devices=("cpu:0",))
    assert ForkingPickler.loads(ForkingPickler.dumps(given)) == given
    assert ForkingPickler.loads(ForkingPickler.dumps(hang_watch.HangWatch)) is hang_watch.HangWatch
    points = msgspec.json.decode(msgspec.json.encode(Metrics(0.0, 1.0, [])), type=Metrics)
    assert points == Metrics(0.0, 1.0, [])
    assert engine.client is client and engine.training.pace is pace
    return [pace.__file__, hang_watch.__file__, client.__file__]

print(json.dumps({"ours": ours(), "theirs": recipe.theirs(), "notice": imports.notice_of_others()}))
"""

RECIPE = """
import importlib, multiprocessing, os, sys
from multiprocessing.reduction import ForkingPickler
if 0: import torch
import ENGINE.training, ENGINE.utils as utils
import gui, main, resources, tools
from TESTS import helpers
from ENGINE import train_one_epoch
from ENGINE.utils import Thing

def model(): ...
def datasets(): ...

def theirs():
    from ENGINE.late import late
    assert ForkingPickler.loads(ForkingPickler.dumps(Thing())) == Thing()
    assert importlib.import_module("ENGINE.utils") is utils is sys.modules[Thing.__module__]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=utils.in_child, args=(queue, Thing()))
    child.start()
    found = queue.get(timeout=60)
    child.join()
    found += [ENGINE.__file__, ENGINE.training.__file__, ENGINE.late.__file__]
    return found + [each.__file__ for each in (gui, main, resources, helpers, tools)]
"""

UTILS = """
class Thing:
    def __eq__(self, other):
        return type(self) is type(other)

def in_child(queue, thing):
    import ENGINE.training
    from ENGINE.late import late
    assert thing == Thing()
    queue.put([ENGINE.training.__file__, late()])
"""


def write(folder: Path, **files: str) -> None:
    """Write Python files; `__` in a name is a slash. ENGINE stands for the user's `engine`."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/").replace("INIT", "__init__") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).replace("ENGINE", "engine").replace("TESTS", "tests"))


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    """Import the recipe `train.py` of `folder` as a worker does; return what it printed."""
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            PROGRAM,
            str(folder / "train.py"),
            f"{folder}-run",
            *arguments,
        ],
        cwd=folder.parent,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


THEIRS = ["gui/__init__", "main", "resources", str(Path("tests", "helpers")), "tools/__init__"]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("beside", marks=pytest.mark.nightly),
        "deleted",
        "behind",
        pytest.param("appended", marks=pytest.mark.nightly),
    ],
)
def test_each_code_gets_its_own_modules(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "mine"
    root = folder if how in ("beside", "deleted") else tmp_path / "root"
    late = "def late():\n    return __file__"
    write(root, engine__INIT="def train_one_epoch(): ...", engine__training="", engine__late=late)
    write(root, engine__utils=UTILS, gui__INIT="", main="", resources="", tests__helpers="")
    write(root, tools__INIT="")
    begin = ""
    if how == "behind":  # it names `ENGINE` at once after the change of the search path
        begin = f"import sys\nsys.path.insert(0, {str(root)!r})\n"
    write(folder, train=begin + RECIPE)
    if how == "appended":  # neither the recipe nor a module beside it names `ENGINE`
        write(root, behind=RECIPE)
        start = f"import sys\nsys.path.append({str(root)!r})\n"
        names = "model, datasets, theirs"
        write(folder, train=f"if 0: import torch\n{start}from behind import {names}\n")
    found = run(folder, *(["delete"] if how == "deleted" else []))
    assert all(file.startswith(str(PROJECT / "engine")) for file in found["ours"])
    expected = ["ENGINE/training", "ENGINE/late", "ENGINE/__init__", "ENGINE/training"]
    expected += ["ENGINE/late", *THEIRS]
    assert found["theirs"] == [
        str(root / f"{name}.py").replace("ENGINE", "engine") for name in expected
    ]
    assert ("utils.py" in found["notice"]) == (how in ("behind", "appended"))


def test_a_module_engine_that_is_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    source = "if 0: import torch\nimport ENGINE\nfrom ENGINE import evaluate as model\n"
    source += "def datasets(): ...\ndef theirs(): return ENGINE.__file__\n"
    write(folder, engine="def evaluate(): ...", train=source)
    assert run(folder)["theirs"] == str(folder / "engine.py")


def test_who_has_no_module_of_this_name_still_gets_ours(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    source = """
        if 0: import torch
        from ENGINE.runs.checkpoints import checkpoint_files
        import ENGINE.spec.run_spec
        from tests.support import light_worker

        def model(): ...
        def datasets(): ...
        def theirs():
            from multiprocessing.reduction import ForkingPickler
            given = ENGINE.spec.run_spec.RunSpec(recipe="r", strategy="s", devices=())
            assert ForkingPickler.loads(ForkingPickler.dumps(given)) == given
            return [checkpoint_files.__file__, light_worker.__file__]
    """
    write(folder, train=source)
    ours = [
        PROJECT / "engine/runs/checkpoints/checkpoint_files.py",
        PROJECT / "tests/support/light_worker.py",
    ]
    assert run(folder)["theirs"] == list(map(str, ours))


TORCH = """
import multiprocessing
import torch
from ENGINE.data import Samples
from ENGINE.training import loss
if SPAWNS:
    multiprocessing.set_start_method("spawn", force=True)

def model():
    return torch.nn.Linear(4, 1)

def datasets():
    return Samples(64), Samples(32)
"""
KERAS = """
import keras
import numpy as np
from ENGINE.training import loss

def model():
    return keras.Sequential([keras.layers.Dense(1)])

def datasets():
    return ((np.ones((64, 4), "float32"), np.ones((64, 1), "float32")),) * 2
"""
DATA = """
import torch

class Samples(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        from ENGINE.training import target
        return torch.full((4,), index / self.count), target()
"""
LOSS = """
def target():
    import torch
    return torch.ones(1)

def loss(outputs, targets):
    error = outputs - targets
    if error.shape[-1] != 1:
        raise ValueError("no")
    return (error * error).mean() if hasattr(error, "mean") else mean(error * error)

def mean(values):
    import tensorflow as tf
    return tf.reduce_mean(values)
"""


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("torch/ddp", {"loader_workers": 2}),
        ("torch/single", {"loader_workers": 1, "cold_start": True}),
        ("tf/mirrored", {}),
    ],
)
@pytest.mark.nightly
def test_a_run_trains_with_the_users_package_engine(
    tmp_path: Path, strategy: str, options: dict[str, Any]
) -> None:
    spawns = "cold_start" in options
    source = KERAS if strategy.startswith("tf") else TORCH.replace("SPAWNS", str(spawns))
    write(tmp_path, train=source, engine__INIT="", engine__training=LOSS, engine__data=DATA)
    info = train(spec(str(tmp_path / "train.py"), strategy, 2 - spawns, epochs=2, **options))
    assert info.state is RunState.FINISHED, f"{info.reason}\n{logs(info)}"
    assert not [event for event in events(info) if isinstance(event, Notice)]
    assert len(info.status.metrics) > 1
