"""What model, datasets and the others may be bound to: read, or refused with the line."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from engine.spec.recipe_copy import write_copy
from engine.spec.recipe_file import RecipeInfo, read_recipe
from tests.support.sentences import sentence

DATA = "def datasets(): ...\n"


def read(folder: Path, source: str, **modules: str) -> RecipeInfo:
    """Write modules (`__` in a name is a slash) and the recipe `mine.py`, and read it."""
    for name, text in modules.items():
        file = folder / (name.replace("__", "/").replace("INIT", "__init__") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    path = folder / "mine.py"
    path.write_text(dedent(source))
    return read_recipe(path)


def settings(info: RecipeInfo) -> dict[str, Any]:
    assert info.problem == ""
    return {field.name: field.default for field in info.fields}


NET = """
    import torch
    class Base(torch.nn.Module):
        def __init__(self, width=8): ...
    class Net(Base):
        '''Depth is the number of layers.'''
        def __init__(self, depth=2, *, name="net"): ...
    class Same(Base): ...
    def make(depth: int = 3): ...
    data = [1, 2]
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from net import Net as model", {"depth": 2, "name": "net"}),
        ("from net import Same as model", {"width": 8}),
        ("from net import make as model", {"depth": 3}),
        ("from net import *\nmodel = make", {"depth": 3}),
        ("import net\nmodel = net.Net", {"depth": 2, "name": "net"}),
        ("import net as n\nmodel = n.make", {"depth": 3}),
        ("from p import inner\nmodel = inner.make", {"depth": 5}),
        ("from p.inner import make as model", {"depth": 5}),
        ("from p import made as model", {"depth": 5}),
        ("import p.inner\nmodel = p.inner.make", {"depth": 5}),
        ("from net import Net\nmodel = Net", {"depth": 2, "name": "net"}),
        ("from net import Net\nmodel, other = Net, 3", {"depth": 2, "name": "net"}),
        ("from net import Net\nmodel: object = Net", {"depth": 2, "name": "net"}),
        ("model = lambda width=3: 0", {"width": 3}),
        ("class model:\n  def __init__(self, width=4): ...", {"width": 4}),
        ("import functools, net\nmodel = functools.partial(net.Net, name='x')",
         {"depth": 2, "name": "x"}),
        ("from functools import partial\nfrom net import Net\nmodel = partial(Net, 7)",
         {"name": "net"}),
        ("from functools import partial\nfrom net import Net\nn = 3\nmodel = partial(Net, depth=n)",
         {"name": "net"}),
        ("import os\nif os.name:\n  def model(width=1): ...", {"width": 1}),
        ("try:\n  from fast import f as model\nexcept ImportError:\n  def model(width=1): ...",
         {"width": 1}),
        ("import functools\n@functools.cache\ndef model(width=1): ...", {"width": 1}),
        ("from torchvision.models import resnet18 as model", {}),
        ("import torchvision\nmodel = torchvision.models.resnet18", {}),
        ("import net\nmodel = net.Net if net else net.make", {"depth": 2, "name": "net"}),
        ("from functools import partial\ndef model(width=1, d=2): ...\nmodel = partial(model, d=3)",
         {"width": 1, "d": 3}),
    ],
)  # fmt: skip
def test_a_function_may_be_any_callable_and_lie_in_another_file(
    tmp_path: Path, source: str, expected: dict[str, Any]
) -> None:
    inner = "from .deep import deep as make\n"
    info = read(
        tmp_path,
        f"import torch\n{DATA}{source}\n",
        net=NET if "if net else" not in source else NET.replace("depth: int = 3", ""),
        p__INIT="from p.inner import make as made",
        p__inner=inner,
        p__deep="def deep(depth=5): ...",
    )
    assert settings(info) == expected


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("async def model(): ...", sentence("model-in-line-of-is-async")),
        ("import net as model", sentence("model-in-line-of-is-module-and-no-function")),
        ("from p import inner as model", sentence("model-in-line-of-is-module")),
        ("import net\nmodel = net.Net()", sentence("model-is-what-a-call-returns")),
        ("model = None", sentence("model-in-mine-is-value")),
        ("from net import data as model", sentence("model-in-net-is-value")),
        ("from net import gone as model", sentence("line-imports-what-is-gone")),
        ("import keras\ndef model(): ...", sentence("two-lines-of-mine")),
        ("from net import make as model\ndef loss(depth=9): ...",
         sentence("line-of-net-and-line-of-mine")),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_refused_with_its_line(
    tmp_path: Path, source: str, phrase: str
) -> None:
    info = read(tmp_path, f"import torch\n{DATA}{source}\n", net=NET, p__inner="")
    assert phrase.format(mine=tmp_path / "mine.py", net=tmp_path / "net.py") in info.problem


def test_datasets_may_come_from_another_file_and_is_no_module_of_a_library(tmp_path: Path) -> None:
    data = "def datasets(share: float = 0.2): ..."
    info = read(tmp_path, "import torch\nfrom data import datasets\ndef model(): ...", data=data)
    assert settings(info) == {"share": 0.2}
    source = "import torch\nfrom torchvision import datasets\ndef model(): ..."
    assert "datasets in line 2" in read(tmp_path, source).problem


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nfrom torchvision import datasets, transforms\nmodel = torch.nn.Linear(1, 1)",
        "import torch, datasets\nfrom models import model\nmodel(1)",
        "import torch\nmodel = None\ndatasets = {}\nfor model in [1]: ...",
        "import torch\nif __name__ == '__main__':\n  def model(): ...\n  def datasets(): ...",
    ],
)
def test_a_script_with_such_names_stays_a_script(tmp_path: Path, source: str) -> None:
    info = read(tmp_path, source)
    assert (info.framework, info.problem) == ("script", "")


@pytest.mark.parametrize(
    ("source", "modules", "framework"),
    [
        ("from tensorflow import keras", {}, "keras"),
        ("import tensorflow as tf", {}, "keras"),
        ("import torch\nimport tensorflow_datasets\nimport tensorflow as tf", {}, "torch"),
        ("import keras\nimport tensorflow as tf", {}, "keras"),
        ("import timm", {}, "torch"),
        ("import numpy\nfrom net import Net", {"net": "import torch"}, "torch"),
        ("from a import Net", {"a": "from b.c import *", "b__c": "from keras import *"}, "keras"),
        ("import a", {"a": "import b", "b": "import a\nimport torchvision"}, "torch"),
    ],
)
def test_the_framework_may_stand_behind_ones_own_module(
    tmp_path: Path, source: str, modules: dict[str, str], framework: str
) -> None:
    info = read(tmp_path, f"{source}\n{DATA}def model(): ...\n", **modules)
    assert (info.framework, info.problem) == (framework, "")


def test_two_frameworks_behind_ones_own_modules_are_refused_with_both_lines(tmp_path: Path) -> None:
    modules = {"a": "import torch", "b": "\nimport keras"}
    info = read(tmp_path, f"import a, b\n{DATA}def model(): ...\n", **modules)
    where = f"(line 2 of {tmp_path / 'b.py'}, and line 1 of {tmp_path / 'a.py'})"
    assert where in info.problem


def test_a_change_in_another_file_is_seen(tmp_path: Path) -> None:
    source = f"import torch\nfrom net import make as model\n{DATA}"
    assert settings(read(tmp_path, source, net="def make(depth=1): ...")) == {"depth": 1}
    assert settings(read(tmp_path, source, net="def make(depth=2): ...")) == {"depth": 2}
    (tmp_path / "net.py").unlink()
    assert settings(read(tmp_path, source)) == {}


def test_the_copy_of_a_run_is_read_with_the_copies_of_its_modules(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    source = f"from net import make as model\n{DATA}"
    info = read(tmp_path, source, net="import torch\ndef make(depth=1): ...")
    write_copy(run, info)
    (tmp_path / "net.py").write_text("import keras\ndef make(depth=2): ...")
    copied = read_recipe(tmp_path / "mine.py", copy=run / "recipe.py")
    assert (settings(copied), copied.framework) == ({"depth": 1}, "torch")
    assert settings(read_recipe(tmp_path / "mine.py")) == {"depth": 2}


def test_modules_that_import_each_other_or_cannot_be_read_end_no_reading(tmp_path: Path) -> None:
    source = f"import torch\nfrom a import f as model\n{DATA}"
    info = read(tmp_path, source, a="from b import f", b="from a import f")
    assert "line 1" in info.problem.lower() or settings(info) == {}
    assert settings(read(tmp_path, source, a="def f(:")) == {}
    (tmp_path / "a.py").unlink()
    os.mkfifo(tmp_path / "a.py")
    assert settings(read(tmp_path, source)) == {}
    for circle in ("model = other\nother = model", "model = model"):
        assert "no function model()" in read(tmp_path, f"import torch\n{DATA}{circle}").problem
