"""What changes on disk is noticed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from engine.templates import fingerprint
from engine.templates.fingerprint import Fingerprint


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine, packages and settings of Keras in a folder of the test."""
    (tmp_path / "engine" / "worker").mkdir(parents=True)
    (tmp_path / "engine" / "worker" / "__main__.py").write_text("1")
    (tmp_path / "site-packages" / "numbers").mkdir(parents=True)
    (tmp_path / "site-packages" / "numbers" / "module.py").write_text("1")
    (tmp_path / "keras").mkdir()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setattr(fingerprint, "PROJECT", tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    module = ModuleType("numbers.module")
    module.__file__ = str(tmp_path / "site-packages" / "numbers" / "module.py")
    monkeypatch.setattr(sys, "modules", {"numbers.module": module, "built in": ModuleType("b")})
    return tmp_path


def noticed(before_the_imports: bool, change: Path, text: str = "22") -> str:
    """What a fingerprint notices after `change` was written."""
    watched = Fingerprint()
    if not before_the_imports:
        watched.add_imported()
    assert watched.changed() == ""
    change.write_text(text)
    if before_the_imports:
        watched.add_imported()
    return watched.changed()


@pytest.mark.parametrize("before_the_imports", [True, False])
def test_a_file_of_the_engine(before_the_imports: bool, installation: Path) -> None:
    """Also one that no template imports, and also while the imports last."""
    file = installation / "engine" / "worker" / "__main__.py"
    assert noticed(before_the_imports, file) == str(file)


@pytest.mark.parametrize("before_the_imports", [True, False])
def test_an_installed_package(before_the_imports: bool, installation: Path) -> None:
    folder = installation / "site-packages"
    assert noticed(before_the_imports, folder / "new-1.0.dist-info") == str(folder)


def test_a_file_that_was_imported(installation: Path) -> None:
    file = installation / "site-packages" / "numbers" / "module.py"
    assert noticed(False, file) == str(file)


def test_a_file_of_the_same_size_and_another_time(installation: Path) -> None:
    file = installation / "site-packages" / "numbers" / "module.py"
    watched = Fingerprint()
    watched.add_imported()
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert watched.changed() == str(file)


def test_a_file_that_is_gone_and_settings_that_are_new(installation: Path) -> None:
    settings = installation / "keras" / "keras.json"
    assert noticed(True, settings) == str(settings)
    watched = Fingerprint()
    settings.unlink()
    assert watched.changed() == str(settings)
