"""The program itself: its name, its version, its log switch, and the commands it has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.facts.equivalent_command import train_command
from engine.processes.process import PROJECT as ROOT
from engine.system import logs
from main import main
from tests.support.runs import spec


@pytest.fixture(autouse=True)
def log_is_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (logs.LEVEL_VARIABLE, logs.FOLDER_VARIABLE):
        monkeypatch.setenv(name, "")
    yield
    logs.stop()


def test_it_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "traindeck 0.1.0\n"


@pytest.mark.usefixtures("processes")
def test_the_window_does_not_wait_for_what_only_the_command_line_needs() -> None:
    code = (
        "import sys, main; main._open_window = lambda _: print('rich' in sys.modules) or 0; "
        "sys.exit(main.main([]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "False\n")


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("main.py", "python main.py"),
        ("/opt/venv/bin/traindeck", "traindeck"),
        ("C:\\venv\\traindeck.exe" if os.name == "nt" else "bin/traindeck", "traindeck"),
    ],
)
def test_messages_name_the_program_as_it_was_called(
    called: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--epochs", "many"])
    assert f"`{name} train --help` explains." in capsys.readouterr().err
    assert main(["show", "7"]) == 2
    assert f"`{name} runs` lists" in capsys.readouterr().err
    assert train_command(spec("digits", "torch/single")).startswith(f"{name} train ")


@pytest.mark.parametrize(
    "arguments", [["--log-level", "loud", "runs"], ["runs", "--log-level=loud"], ["runs"], []]
)
def test_an_unknown_log_level_is_a_sentence(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "loud" not in " ".join(arguments):
        monkeypatch.setenv(logs.LEVEL_VARIABLE, "loud")
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    message = "There is no log level 'loud': choose one of debug, info, warning, error.\n"
    assert capsys.readouterr().err == message


def test_the_command_line_logs_into_the_data_folder_when_asked(traindeck_home: Path) -> None:
    assert main(["runs"]) == 0
    assert not (traindeck_home / "logs").exists()
    assert main(["runs", "--log-level", "info"]) == 0
    text = (traindeck_home / "logs" / "debug-cli.log").read_text()
    assert "called with ['runs', '--log-level', 'info']" in text
    assert "exits with code 0" in text


def test_a_log_that_cannot_be_written_does_not_stop_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("")
    monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path))
    assert main(["runs", "--log-level", "debug"]) == 0
    assert capsys.readouterr().err.startswith("No log is written: ")
