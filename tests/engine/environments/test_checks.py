from __future__ import annotations

import sys
import textwrap
import venv
from pathlib import Path

import pytest

from engine.environments import checks
from engine.environments.activation import PROGRAM
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    folder = tmp_path / "of mine"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


def _package(environment: Path, name: str, version: str, code: str) -> None:
    site = next(environment.glob("lib/python3*/site-packages"))
    (site / f"{name}-{version}.dist-info").mkdir(parents=True)
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(textwrap.dedent(code))


TORCH = """
    __version__ = "2.13.0+fake"
    class version:
        cuda, hip = "13.0", None
    class cuda:
        is_available = lambda: True
        device_count = lambda: 2
"""


def test_the_environment_says_what_it_has(environment: Path) -> None:
    _package(environment, "torch", "2.13.0", TORCH)
    site = next(environment.glob("lib/python3*/site-packages"))
    (site / "torch" / "version.py").write_text("__version__ = '2.13.0+fake'\ncuda = '13.0'\n")
    facts = checks.check(environment / PROGRAM)
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert (facts.versions, facts.cuda, facts.gpus) == (
        {"torch": "2.13.0+fake"},
        {"torch": "13.0"},
        {"torch": 2},
    )
    (problem,) = facts.problems
    assert sentence("has-no-safetensors-msgspec-numpy") in problem


def test_an_import_that_fails_or_hangs_is_a_sentence(environment: Path) -> None:
    _package(environment, "torch", "2.13.0", "raise OSError('libcudart.so.13: not found')")
    site = next(environment.glob("lib/python3*/site-packages"))
    (site / "torch" / "version.py").write_text("__version__ = '2.13.0'\n")
    (problem,) = checks.check(environment / PROGRAM).problems
    assert sentence("pytorch-cannot-be-used-there-oserror") in problem
    (site / "torch" / "__init__.py").write_text("import time; time.sleep(600)")
    (problem,) = checks.check(environment / PROGRAM, import_seconds=0.5).problems
    assert "did not answer within" in problem


def test_a_python_that_is_too_old_for_scripts_cannot_be_used(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "ask", lambda *_: {"version": "3.8.18", "path": []})
    facts = checks.check(environment / PROGRAM)
    assert facts.python == ""
    assert facts.notices == ()
    assert sentence("recipes-need-or-newer-and-scripts") in facts.problems[0]


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho a shell\n")
    program.chmod(0o755)
    (problem,) = checks.check(program).problems
    assert problem == sentence("does-not-work-as-python-shell", program=program)
    program.write_bytes(b"\x7fELF nonsense")
    (problem,) = checks.check(program).problems
    assert "it cannot be started" in problem


def test_traindecks_own_python_is_described_without_an_import() -> None:
    facts = checks.own_facts()
    assert "torch" in facts.versions
    assert facts.problems == ()
