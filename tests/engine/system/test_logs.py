"""The log switch: off by default, a file per process, and never a reason for a process to fail."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.processes.process import PROJECT
from engine.system import logs

LOGGER = logging.getLogger("engine.training.loop")


@pytest.fixture(autouse=True)
def switched_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (logs.LEVEL_VARIABLE, logs.FOLDER_VARIABLE):
        monkeypatch.setenv(name, "")  # so that it is restored, whatever `start` sets
    yield
    logs.stop()


def log_of(folder: Path, process: str = "rank0") -> str:
    return (folder / f"debug-{process}.log").read_text()


def test_by_default_no_file_is_made_and_only_warnings_are_printed(
    traindeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.start("cli")
    logging.basicConfig(level=logging.DEBUG, force=True)  # as a recipe may do
    try:
        LOGGER.debug("quiet")
        LOGGER.info("quiet")
        LOGGER.warning("loud")
    finally:
        logging.basicConfig(force=True)
    assert not traindeck_home.exists()
    assert "quiet" not in (printed := capsys.readouterr().err)
    assert "loud" in printed


def test_a_line_tells_time_process_level_and_module(tmp_path: Path) -> None:
    logs.start("rank0", tmp_path, "info")
    LOGGER.info("command %d", 7)
    LOGGER.debug("too fine")
    (line,) = log_of(tmp_path).splitlines()
    day, clock, process, level, module, *message = line.split()
    assert (day[4], clock[2], clock[8]) == ("-", ":", ".")
    assert process.startswith("rank0[")
    assert (level, module, message) == ("INFO", "engine.training.loop:", ["command", "7"])


def test_a_recipe_that_logs_does_not_get_our_lines(tmp_path: Path) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        logs.start("rank0", tmp_path, "debug")
        LOGGER.info("ours")
        logging.getLogger("recipe").warning("its own")
    finally:
        root.removeHandler(handler)
    assert [record.getMessage() for record in records] == ["its own"]
    assert "its own" not in log_of(tmp_path)


def test_the_file_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGEST_FILE", 1000)
    logs.start("window", tmp_path, "debug")
    for number in range(100):
        LOGGER.debug("line %d", number)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["debug-window.log", "debug-window.log.1", "debug-window.log.2"]
    assert "line 99" in log_of(tmp_path, "window")


@pytest.mark.parametrize("level", ["loud", "10", "info,debug"])
def test_an_unknown_level_is_named_with_those_there_are(level: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no log level '{level}': choose one of debug, info"):
        logs.start("cli", tmp_path, level)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_the_log_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    logs.start("cli", tmp_path / "file" / "logs", "debug")
    assert capsys.readouterr().err.startswith("No log is written: ")
    LOGGER.info("nowhere")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_place_of_the_file_costs_the_log_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "debug-cli.log")
    logs.start("cli", tmp_path, "debug")
    assert "debug-cli.log is a pipe" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_a_full_disk_costs_the_lines_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.start("rank0", tmp_path, "debug")
    [log] = [
        each
        for each in logging.getLogger("engine").handlers
        if isinstance(each, logging.FileHandler)
    ]
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), log.stream.fileno())
    LOGGER.info("lost")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("processes")
@pytest.mark.usefixtures("processes")
def test_a_process_that_is_started_logs_too(tmp_path: Path) -> None:
    logs.start("window", tmp_path, "info")
    child = (
        "import logging; from engine.system import logs; logs.start('telemetry');"
        "logging.getLogger('engine.telemetry').info('from the child')"
    )
    subprocess.run([sys.executable, "-c", child], cwd=PROJECT, check=True)
    assert "from the child" in log_of(tmp_path, "telemetry")
