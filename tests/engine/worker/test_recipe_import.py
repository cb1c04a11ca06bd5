"""The recipe and its local modules, executed from their copy as if it were the original."""

from __future__ import annotations

import inspect
import linecache
import os
import pkgutil
import py_compile
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from types import ModuleType

import pytest

from engine.spec.recipe_copy import write_copy
from engine.spec.recipe_file import RecipeInfo, read_recipe
from engine.worker import environment
from engine.worker.recipe_import import RecipeImports, serve_spawned_process
from tests.support.sentences import sentence


@pytest.fixture(autouse=True)
def as_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What an import changes in the process is as before after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["-m", "the run's folder"])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(linecache, "updatecache", linecache.updatecache)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv(environment.RECIPE, "")
    monkeypatch.setenv(environment.COPY, "")
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's folder."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def write(folder: Path, **files: str) -> None:
    """Write Python files; `__` in a name is a slash. They are older than the worker."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (time.time() - 9, time.time() - 9))


def copy(folder: Path, run: str = "run") -> RecipeInfo:
    """Start a run of `folder/train.py`: return its recipe."""
    run_folder = folder.parent / run
    run_folder.mkdir()
    path = folder / "train.py"
    write_copy(run_folder, read_recipe(path))
    return read_recipe(path, copy=run_folder / "recipe.py")


def load(recipe: RecipeInfo) -> ModuleType:
    return RecipeImports(recipe).import_recipe()


def test_the_copy_is_executed_and_shown_and_has_the_path_of_the_original(folder: Path) -> None:
    write(folder, train="import nets\ndef model():\n    return nets.net()  # as it was\n")
    write(folder, nets="def net():\n    raise ValueError('as it was')\n")
    recipe = copy(folder)
    write(folder, train="wrong", nets="wrong")
    module = load(recipe)
    assert module.__file__ == str(folder / "train.py")
    assert module.nets.__file__ == str(folder / "nets.py")
    for forget in (linecache.checkcache, linecache.clearcache, lambda: None):
        forget()
        assert "as it was" in inspect.getsource(module.model)
    linecache.updatecache(str(folder / "train.py"), vars(module))  # as AutoGraph does
    with pytest.raises(ValueError, match="as it was") as caught:
        module.model()
    lines = traceback.extract_tb(caught.value.__traceback__)[1:]
    assert [(line.filename, line.lineno, line.line) for line in lines] == [
        (str(folder / "train.py"), 3, "return nets.net()  # as it was"),
        (str(folder / "nets.py"), 2, "raise ValueError('as it was')"),
    ]


def test_a_script_that_reads_arguments_when_it_is_imported_gets_none(folder: Path) -> None:
    write(folder, train="from main_script import options\n")
    write(
        folder,
        main_script="import argparse\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--lr', type=float, default=0.1)\n"
        "options = parser.parse_args()\n",
    )
    assert load(copy(folder)).options.lr == 0.1
    assert sys.argv == [str(folder / "train.py")]


@pytest.mark.parametrize("deleted", [False, True])
def test_packages_relative_imports_and_data_beside_a_module(folder: Path, deleted: bool) -> None:
    write(
        folder,
        train="import p.q.deep, n.inner\nfrom later import x\nimport train\n",
        p__side="import train",
        p__q__deep="from ..side import __name__ as name",
        n__inner="x = 1",
        later="x = 2",
    )
    (folder / "p" / "__init__.py").write_text("from . import side")
    (folder / "p" / "data.txt").write_text("data")
    recipe = copy(folder)
    if deleted:
        for path in folder.rglob("*.py"):
            path.unlink()
    module = load(recipe)
    assert module.p.q.deep.name == "p.side"
    assert module.p.__file__ == str(folder / "p" / "__init__.py")
    assert module.train is not module, "a module may import the recipe by its own name"
    assert module.train.__file__ == module.__file__
    assert pkgutil.get_data("p", "data.txt") == b"data"
    assert resources.files("p").joinpath("data.txt").read_text() == "data"


def test_a_folder_that_is_gone(folder: Path) -> None:
    write(folder, train="import n.inner\n", n__inner="x = 1")
    recipe = copy(folder)
    folder.rename(folder.parent / "elsewhere")
    assert load(recipe).n.inner.x == 1


def test_a_recipe_with_the_name_of_a_library_imports_the_library(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "installed", train="KIND = 'the library'\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "installed")])
    write(folder, train="import os, train as library\nKIND = 'the recipe'\n")
    assert load(copy(folder)).library.KIND == "the library"


def test_compiled_files_beside_the_original_are_neither_read_nor_written(folder: Path) -> None:
    write(folder, train="import nets\n", nets="x = 'old'")
    recipe = copy(folder)
    write(folder, nets="x = 'new'")
    py_compile.compile(str(folder / "nets.py"))
    assert load(recipe).nets.x == "old"
    (folder / "__pycache__").rename(folder / "seen")
    del sys.modules["nets"]
    load(recipe)
    assert not (folder / "__pycache__").exists()


def test_a_folder_that_the_recipe_puts_first_comes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = "import os, sys\nsys.path.insert(0, os.environ['FIRST'])\n"
    write(folder, train=f"{first}import nets, own\n")
    write(folder, nets="x = 'beside'", own="x = 'beside'", first__nets="x = 'first'")
    monkeypatch.setenv("FIRST", str(folder / "first"))
    module = load(copy(folder))
    assert (module.nets.x, module.own.x) == ("first", "beside")


@pytest.mark.parametrize(
    "source",
    [
        '# coding: latin-1\ntext = "ä"\n'.encode("latin-1"),
        b"\xef\xbb\xbf#\n" + 'text = "ä"'.encode(),
        '#\r\ntext = "ä"\r\n'.encode(),
    ],
)
def test_every_encoding_and_line_end_that_python_reads(folder: Path, source: bytes) -> None:
    (folder / "train.py").write_bytes(source)
    recipe = copy(folder)
    (folder / "train.py").unlink()
    module = load(recipe)
    assert module.text == "ä"
    assert linecache.getline(str(folder / "train.py"), 2) == 'text = "ä"\n'


def test_a_spawned_process_imports_the_same_copy(folder: Path) -> None:
    write(folder, train="import nets\n", nets="x = 'old'")
    recipe = copy(folder)
    write(folder, nets="x = 'new'", train="wrong")
    load(recipe)
    for name in ("recipe", "nets"):
        del sys.modules[name]
    sys.meta_path[:] = [each for each in sys.meta_path if "recipe_import" not in repr(each)]
    serve_spawned_process()
    import recipe as again  # type: ignore[import-not-found]

    assert again.nets.x == "old"


def test_modules_without_a_copy_are_named_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        folder,
        train="import importlib, sys, nets\n"
        "sys.path.append(__import__('os').environ['ELSEWHERE'])\n"
        "for name in ('plugin', 'far', 'installed', 'made'): __import__(name)\n"
        "def later(): __import__('late' + 'r')\n",
        nets="",
        plugin="",
        later="",
        venv__installed="",
    )
    elsewhere = folder.parent / "elsewhere"
    write(elsewhere, far="")
    recipe = copy(folder)
    sys.path.append(str(folder / "venv"))  # such as that of the program itself
    imports = RecipeImports(recipe)
    made = folder / "made.py"
    made.touch()  # by the recipe, as AutoGraph does
    os.utime(made, (time.time() + 9, time.time() + 9))
    monkeypatch.setenv("ELSEWHERE", str(elsewhere))
    module = imports.import_recipe()
    notice = imports.notice_of_others()
    assert sentence("there-is-no-copy-of-far-and-plugin", file=elsewhere / "far.py") in notice
    assert imports.notice_of_others() == ""
    module.later()
    assert "no copy of later.py: when" in imports.notice_of_others()


def test_a_built_in_recipe_has_no_such_modules(folder: Path) -> None:
    write(folder, train="")
    run = folder.parent / "run"
    run.mkdir()
    (run / "recipe.py").write_text("x = 1")
    recipe = read_recipe(folder / "train.py", builtin=True, copy=run / "recipe.py")
    before = [*sys.path]
    imports = RecipeImports(recipe)
    assert imports.import_recipe().x == 1
    assert sys.path == before
    assert imports.notice_of_others() == ""
