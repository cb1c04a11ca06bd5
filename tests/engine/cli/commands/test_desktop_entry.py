"""The entry in the menu of applications."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.commands import desktop_entry
from engine.processes.process import PROJECT
from gui.window.taskbar import DESKTOP_FILE
from main import main
from tests.support.sentences import sentence


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "platform", "linux")
    folder = tmp_path / "data home"
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder


def entry_of(data_home: Path) -> dict[str, str]:
    text = (data_home / "applications" / "traindeck.desktop").read_text("utf-8")
    return dict(line.split("=", 1) for line in text.splitlines()[1:])


def test_the_entry_opens_the_window_with_this_interpreter(
    data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = "/opt/py $thon/100%/bin/python"
    monkeypatch.setattr(sys, "executable", python)
    assert main(["desktop-entry"]) == 0
    entry = entry_of(data_home)
    wrapper, _, command = entry["Exec"].partition(" ")
    assert wrapper == "env", "GNOME refuses a program with a percent sign"
    program, script = command.rsplit(" ", 1)
    assert program == r'"/opt/py \\$thon/100%%/bin/python"'
    assert script == str(PROJECT / "main.py")
    assert entry["TryExec"] == python
    assert (entry["Terminal"], entry["StartupWMClass"]) == ("false", "Traindeck")
    assert entry["Icon"] == desktop_entry.NAME == DESKTOP_FILE
    icon = data_home / "icons" / "hicolor" / "scalable" / "apps" / "traindeck.svg"
    assert icon.read_text().startswith("<svg ")


def test_a_console_script_is_called_where_there_is_one(
    data_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "traindeck"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main(["desktop-entry"]) == 0
    assert entry_of(data_home)["Exec"].endswith("main.py"), "called as main.py, of any checkout"
    monkeypatch.setattr(sys, "argv", [str(script), "desktop-entry"])
    assert main(["desktop-entry"]) == 0
    assert entry_of(data_home)["Exec"] == str(script)


def test_a_file_of_another_owner_is_left_alone(
    data_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = data_home / "applications" / "traindeck.desktop"
    entry.parent.mkdir(parents=True)
    entry.write_text("[Desktop Entry]\nName=Mine\n")
    for arguments in (["desktop-entry"], ["desktop-entry", "--remove"]):
        assert main(arguments) == 2
        told = f"{entry} was not written by Traindeck: move or delete it first."
        assert capsys.readouterr().err.split() == told.split()
    assert entry.read_text() == "[Desktop Entry]\nName=Mine\n"
    assert [path for path in data_home.rglob("*") if path.is_file()] == [entry]
    entry.unlink()
    entry.mkdir()
    assert main(["desktop-entry"]) == 2
    assert list(data_home.rglob("*.svg")) == []


def test_an_icon_that_was_left_alone_is_removed_too(data_home: Path) -> None:
    assert main(["desktop-entry"]) == 0
    (data_home / "applications" / "traindeck.desktop").unlink()
    assert main(["desktop-entry", "--remove"]) == 0
    assert list(data_home.rglob("*.svg")) == []


@pytest.mark.parametrize("home", ["", "somewhere"])
def test_a_home_that_is_no_absolute_path_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", home)
    assert main(["desktop-entry"]) == 2
    assert capsys.readouterr().err.startswith(sentence("home-is-not-absolute-path"))


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not shutil.which("desktop-file-validate"), reason="no desktop-file-utils")
def test_the_entry_is_valid(data_home: Path) -> None:
    assert main(["desktop-entry"]) == 0
    file = data_home / "applications" / "traindeck.desktop"
    checked = subprocess.run(["desktop-file-validate", file], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_remove_takes_it_out_again(data_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["desktop-entry"]) == 0
    assert main(["desktop-entry"]) == 0, "a second time changes nothing"
    assert main(["desktop-entry", "--remove"]) == 0
    assert not [path for path in data_home.rglob("*") if path.is_file()]
    capsys.readouterr()
    assert main(["desktop-entry", "--remove"]) == 2
    assert capsys.readouterr().err == sentence("traindeck-is-not-in-menu")


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_other_systems_have_no_entries(
    platform: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert main(["desktop-entry"]) == 2
    assert "this system has none" in capsys.readouterr().err
