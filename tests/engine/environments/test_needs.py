from __future__ import annotations

import ast
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.environments import needs
from engine.environments.installed import Installed
from engine.environments.needs import Requirement, interpreter_problem, needs_of, recipe_problem
from engine.processes.process import PROJECT
from tests.engine.environments.conftest import Install
from tests.support.sentences import sentence

FOR_TORCH = {"torch": "2.13.0", "safetensors": "0.8.0"}
FOR_ALL = {"msgspec": "0.22.0", "numpy": "2.1.0", "psutil": "7.0.0"}


@pytest.fixture
def python(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    which = shutil.which  # a machine with uv would name it where there is no pip
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "uv" else which(name))
    program = site.parents[2] / "bin" / "python"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    return program


def test_the_needs_are_those_of_the_project() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    known = set(project["dependencies"])
    groups = [*needs.FRAMEWORKS.values(), needs.WORKER_NEEDS]
    ours = {*(each for group in groups for each in group), needs.KERAS, needs.OF_BUILTIN_RECIPES}
    assert ours <= known


def test_no_extra_of_ours_brings_a_second_cuda_set() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        lines += extra
    assert not [line for line in lines if "and-cuda" in line or "-cu1" in line]


def _imported(module: str) -> Iterator[tuple[str, bool]]:
    """Yield what our module imports when it is imported: names, and whether `from` is used."""
    path = PROJECT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    pending: list[ast.AST] = [ast.parse(file.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", True) for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


def _third_parties(*modules: str) -> set[str]:
    found: set[str] = set()
    done: set[str] = set()
    pending = list(modules)
    while pending:
        module = pending.pop()
        if module in done:
            continue
        done.add(module)
        if module.partition(".")[0] != "engine":
            found.add(module.partition(".")[0])
            continue
        path = PROJECT.joinpath(*module.split("."))
        if not (path.is_dir() or path.with_suffix(".py").exists()):
            continue  # a name in a module, which is there too
        pending += [module.rpartition(".")[0]] if "." in module else []
        for name, has_from in _imported(module):
            pending += [name, name.rpartition(".")[0]] if has_from else [name]
    return found - set(sys.stdlib_module_names) - {""}


@pytest.mark.parametrize(
    ("framework", "package", "also"),
    [("torch", "engine.pytorch", {"torch"}), ("tensorflow", "engine.tf", {"tensorflow", "keras"})],
)
def test_a_worker_imports_only_what_is_named(framework: str, package: str, also: set[str]) -> None:
    folder = PROJECT.joinpath(*package.split("."))
    trainers = [
        ".".join(file.relative_to(PROJECT).with_suffix("").parts)
        for file in folder.rglob("[!_]*.py")
        if not file.stem.startswith("keras_")  # imported for recipes of Keras, which need it
    ]
    named = {Requirement(text).package for text in needs_of(framework)} | also
    assert _third_parties("engine.worker.__main__", *trainers) <= named


def test_what_lacks_is_named_with_the_command_that_installs_it(
    site: Path, install: Install, python: Path
) -> None:
    text = recipe_problem(str(python), "torch")
    assert sentence("has-no-pytorch-safetensors-msgspec-numpy") in text
    assert f"{python} -m pip install 'torch>=2.11,<2.15' 'safetensors>=0.5'" in text
    for name, version in (FOR_TORCH | FOR_ALL | {"psutil": "5.9.8"}).items():
        install(name, version)
    assert "has no psutil that" in recipe_problem(str(python), "torch")
    install("psutil", "6.0.0")  # later in the folder, as a second one that pip left
    (site / "psutil-5.9.8.dist-info" / "RECORD").unlink()
    (site / "psutil-5.9.8.dist-info").rmdir()
    assert recipe_problem(str(python), "torch") == ""
    assert "no scikit-learn" in recipe_problem(str(python), "torch", builtin=True)
    assert "no Keras" in recipe_problem(str(python), "torch", keras=True)


def test_an_environment_of_uv_has_no_pip(
    site: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = site.parents[2] / "pyvenv.cfg"
    settings.write_text("home = /usr/bin\nuv = 0.9.0\nversion_info = 3.12.4\n")
    assert needs.install_words(python) == ["uv", "pip", "install", "--python", str(python)]


def test_a_pytorch_that_can_write_no_checkpoint_is_refused(install: Install, python: Path) -> None:
    for name, version in (FOR_TORCH | FOR_ALL | {"torch": "2.8.0"}).items():
        install(name, version)
    text = recipe_problem(str(python), "torch")
    assert "PyTorch 2.8.0 in" in text
    assert sentence("is-too-old-for-worker") in text
    assert f"{python} -m pip install 'torch>=2.11,<2.15'`" in text


def test_an_old_python_trains_no_recipe(site: Path, python: Path) -> None:
    (site.parents[2] / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.10.4\n")
    text = recipe_problem(str(python), "torch")
    assert sentence("is-python-and-worker-that-trains") in text


def test_a_python_that_is_gone_is_named(site: Path, python: Path, tmp_path: Path) -> None:
    assert interpreter_problem(str(python)) == ""
    gone = tmp_path / "base" / "bin"
    (site.parents[2] / "pyvenv.cfg").write_text(f"home = {gone}\n")
    assert sentence("made-with-python-that-is-gone", gone=gone) in interpreter_problem(str(python))
    (site.parents[2] / "pyvenv.cfg").unlink()
    python.unlink()
    python.symlink_to(gone / "python3.12")
    assert "which is gone" in interpreter_problem(str(python))
    python.unlink()
    assert "There is no Python" in interpreter_problem(str(python))
    assert interpreter_problem("") == ""


def test_other_versions_than_the_tested_ones_are_named(site: Path, install: Install) -> None:
    install("torch", "2.9.1")
    assert needs.untested(Installed([site])) == [sentence("pytorch-is-here-traindeck-is-tested")]
    assert needs.untested(Installed([site]), ["tensorflow"]) == []


@pytest.mark.parametrize(
    ("version", "is_tested"),
    [("2.10.1", False), ("2.11.0", True), ("2.14.1+cu130", True), ("2.15.0", False)],
)
def test_a_range_has_two_ends(site: Path, install: Install, version: str, is_tested: bool) -> None:
    install("torch", version)
    assert (needs.untested(Installed([site])) == []) is is_tested
