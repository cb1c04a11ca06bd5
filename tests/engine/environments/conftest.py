"""Environments that consist of the files that tell what is installed."""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Install = Callable[..., Path]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of packages of an environment, whose Python is `tmp_path/env/bin/python`."""
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n")
    return folder


@pytest.fixture
def install(site: Path) -> Install:
    """Return a function that installs a distribution with files, as pip does."""

    def install(name: str, version: str, files: Mapping[str, bytes] | None = None) -> Path:
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        rows = []
        for path, content in (files or {}).items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_bytes(content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            rows.append(f"{path},sha256={digest.decode()},{len(content)}\n")
        (info / "RECORD").write_text("".join([*rows, f"{info.name}/RECORD,,\n"]))
        return info

    return install


_FAKE = """#!{python}
import json, os, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[:2] == ["-m", "venv"]:
    program = Path(words[2], "bin", "python")
    program.parent.mkdir(parents=True)
    program.write_text(Path(__file__).read_text())
    program.chmod(0o755)
    site = Path(words[2], "lib", "python3.12", "site-packages")
    site.mkdir(parents=True)
    Path(words[2], "pyvenv.cfg").write_text("version = 3.12.4\\n")
elif words[:3] == ["-m", "pip", "install"]:
    Path("{asked}").write_text(json.dumps([words, os.environ["TMPDIR"]]))
    print("Collecting", words[-1], flush=True)
    exec(Path("{pip}").read_text())
else:
    os.execv("{python}", ["{python}", "-S", *words])
"""


class FakePython:
    """A Python that makes environments in no time, and whose pip does what `pip` says."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "python"
        self.pip = folder / "pip.py"
        self.pip.write_text("")
        self.asked = folder / "asked.json"
        text = _FAKE.format(python=sys.executable, asked=self.asked, pip=self.pip)
        self.program.write_text(text)
        self.program.chmod(0o755)


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: None) -> FakePython:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "uv" else name)
    return FakePython(tmp_path)
