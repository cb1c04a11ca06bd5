"""Which modules beside a recipe it imports, found without running it."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from engine.spec import local_modules as module
from engine.spec.local_modules import is_installed, local_modules, module_name


def test_what_pip_puts_into_any_folder_is_installed(tmp_path: Path) -> None:
    (tmp_path / "libs" / "net-1.0.dist-info").mkdir(parents=True)
    record = tmp_path / "libs" / "net-1.0.dist-info" / "RECORD"
    record.write_text("net/__init__.py,sha256=x,0\nnet/loss.py,,\n")
    assert is_installed(tmp_path / "libs" / "net" / "loss.py", tmp_path)
    assert not is_installed(tmp_path / "libs" / "mine" / "loss.py", tmp_path)
    assert not is_installed(tmp_path / "net" / "loss.py", tmp_path)
    assert is_installed(tmp_path / "venv" / "site-packages" / "a.py", tmp_path)


def make(folder: Path, **files: str) -> None:
    """Write files; `__` in a name is a slash."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def init(folder: Path, package: str, text: str = "") -> None:
    (folder / package).mkdir(parents=True, exist_ok=True)
    (folder / package / "__init__.py").write_text(text)


def found(folder: Path, source: str) -> list[str]:
    recipe = folder / "mine.py"
    recipe.write_text(source)
    return [*local_modules(recipe, recipe.read_bytes())]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch, a", ["a.py"]),
        ("import p.q.deep as d", ["p/__init__.py", "p/q/deep.py"]),
        ("from p import sibling", ["p/__init__.py", "p/sibling.py"]),
        ("from p.sibling import x", ["p/__init__.py", "p/sibling.py"]),
        ("from p import *", ["p/__init__.py"]),
        ("def f():\n  if True:\n    from n import inner", ["n/inner.py"]),
        ("try:\n  import a\nexcept ImportError: ...", ["a.py"]),
        ("import importlib\nimportlib.import_module('a')", ["a.py"]),
        ("from importlib import import_module as m, import_module\nimport_module('n.inner')",
         ["n/inner.py"]),
        ("import mine, nothing, n.nothing", []),
        ("from . import a", []),
        ("__import__('a' + 'b')", []),
        ("import chain", ["a.py", "chain.py", "p/__init__.py", "p/q/deep.py"]),
        ("import relative", ["r/__init__.py", "r/one.py", "r/two.py", "relative.py"]),
        ("import stars", ["s/__init__.py", "s/listed.py", "stars.py"]),
    ],
)  # fmt: skip
def test_every_import_statement_counts_and_is_followed(
    tmp_path: Path, source: str, expected: list[str]
) -> None:
    make(tmp_path, a="import a", p__sibling="x = 1", p__q__deep="import torch", n__inner="")
    make(tmp_path, chain="import p.q.deep, a, chain", other="")
    init(tmp_path, "p")
    make(tmp_path, relative="import r", r__one="from .two import x\nfrom ... import a", r__two="")
    init(tmp_path, "r", "from . import one")
    make(tmp_path, stars="from s import *", s__listed="", s__unlisted="")
    init(tmp_path, "s", "__all__ = ['listed', 3]")
    assert found(tmp_path, source) == expected


def test_python_finds_the_same_file(tmp_path: Path) -> None:
    """A package comes before a module, a compiled module before both, a plain folder last."""
    init(tmp_path, "both")
    make(tmp_path, both="", plain="", plain__inner="", compiled="")
    (tmp_path / f"compiled{EXTENSION_SUFFIXES[0]}").touch()
    assert found(tmp_path, "import both, plain, compiled") == ["both/__init__.py", "plain.py"]


def test_installed_packages_and_what_lies_elsewhere_do_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    make(tmp_path, above="")
    make(folder, venv__lib="", packages__site="")
    (folder / "venv" / "pyvenv.cfg").touch()
    (folder / "packages").rename(folder / "dist-packages")
    source = "import venv.lib, above, numpy\nfrom .. import above\nimport_module('..above')"
    assert found(folder, source) == []


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, good="", wrong="def (", null="\0")
    (tmp_path / "folder.py").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.py")
    source = "import good, wrong, null, folder, pipe, 'x'"
    assert found(tmp_path, source) == [], "the recipe itself is no Python"
    source = f"import good, wrong, null, folder, pipe, {'x' * 300}"
    assert found(tmp_path, source) == ["good.py", "null.py", "wrong.py"]


def test_there_are_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, a="1234", b="12345", c="1")
    monkeypatch.setattr(module, "MOST_BYTES", 8)
    assert found(tmp_path, "import a, b, c") == ["a.py", "c.py"]
    monkeypatch.setattr(module, "MOST_FILES", 1)
    assert found(tmp_path, "import a, b, c") == ["a.py"]


def test_the_content_is_kept_byte_by_byte(tmp_path: Path) -> None:
    content = "# -*- coding: latin-1 -*-\r\nimport other  # \xe4\n".encode("latin-1")
    (tmp_path / "encoded.py").write_bytes(content)
    (tmp_path / "other.py").write_bytes(b"\xef\xbb\xbfx = 1\r\n")
    recipe = tmp_path / "mine.py"
    assert local_modules(recipe, b"import encoded") == {
        "encoded.py": content,
        "other.py": b"\xef\xbb\xbfx = 1\r\n",
    }


@pytest.mark.parametrize(
    ("path", "name"),
    [("a.py", "a"), ("p/__init__.py", "p"), ("p/q/deep.py", "p.q.deep")],
)
def test_the_name_of_a_module(path: str, name: str) -> None:
    assert module_name(path) == name
