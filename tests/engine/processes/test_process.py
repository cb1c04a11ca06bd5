"""Processes: how they are identified, started and ended."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.processes import process, process_tree
from engine.system import paths

SECONDS = 60.0
"""Longest wait; only a test that fails gets there."""

SLEEPER = "import time; time.sleep(60)"
only_posix = pytest.mark.skipif(os.name != "posix", reason="process groups of POSIX")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file `started_module.py` that can be started by name."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder / "started_module.py"


def start(
    module: Path, source: str, *arguments: str, cwd: Path = process.PROJECT
) -> tuple[subprocess.Popen[bytes], Path]:
    module.write_text(source)
    log = module.with_suffix(".log")
    return process.start_module(module.stem, *arguments, log=log, cwd=cwd), log


def dead_process() -> tuple[int, float]:
    with subprocess.Popen([sys.executable, "-c", SLEEPER]) as started:
        born = process.start_time(started.pid)
        started.kill()
    return started.pid, born


def test_this_process_is_alive() -> None:
    assert process.is_alive(os.getpid(), process.start_time(os.getpid()))


@pytest.mark.usefixtures("processes")
def test_a_process_that_ended_is_not_alive() -> None:
    pid, born = dead_process()
    assert born > 0
    assert not process.is_alive(pid, born)
    assert process.start_time(pid) == 0.0


def test_a_pid_that_another_process_got_is_not_alive() -> None:
    assert not process.is_alive(os.getpid(), process.start_time(os.getpid()) - 10.0)


@pytest.mark.skipif(not process.ON_LINUX, reason="elsewhere no start is known that well")
@pytest.mark.parametrize("boot", [0.0, 9999e9], ids=["smallest", "largest"])
def test_a_pid_that_another_process_got_at_once_is_not_alive(
    boot: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tick of the system's clock is enough to tell them apart, on any boot of the machine."""
    monkeypatch.setattr(process_tree, "_boot", lambda: boot)
    born = process.start_time(os.getpid())
    assert process.is_alive(os.getpid(), born)
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert not process.is_alive(os.getpid(), born - tick)
    assert not process.is_alive(os.getpid(), born + tick)


@pytest.mark.usefixtures("processes")
@only_posix
def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    born = process.start_time(child.pid)
    with child:
        assert child.stdout is not None
        child.stdout.read()  # until it closes: it is ending
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
        assert not process.is_alive(child.pid, born)


@pytest.mark.usefixtures("processes")
def test_a_started_module_gets_its_arguments_and_appends_its_output(module: Path) -> None:
    source = "import sys; print(sys.argv[1:]); print('worse', file=sys.stderr)"
    module.with_suffix(".log").write_text("before\n")
    child, log = start(module, source, "a", "b c")
    assert child.wait(SECONDS) == 0
    assert sorted(log.read_text().splitlines()) == ["['a', 'b c']", "before", "worse"]


@pytest.mark.usefixtures("processes")
def test_a_started_module_finds_the_engine_from_any_working_directory(
    module: Path, tmp_path: Path
) -> None:
    child, log = start(module, "import engine; print(engine.__file__)", cwd=tmp_path)
    assert child.wait(SECONDS) == 0, log.read_text()
    assert Path(log.read_text().strip()).parent == process.PROJECT / "engine"


@pytest.mark.usefixtures("processes")
def test_a_file_in_the_working_directory_does_not_replace_one_of_ours(
    module: Path, tmp_path: Path
) -> None:
    for name in ("engine.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('a file of the user was imported')")
    child, log = start(module, "import json, engine.messages.events", cwd=tmp_path)
    assert child.wait(SECONDS) == 0, log.read_text()


def test_a_log_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        process.start_module("engine.worker", log=tmp_path / "missing" / "x.log")


@pytest.mark.usefixtures("processes")
@only_posix
@pytest.mark.parametrize("own_session", [False, True])
def test_a_started_module_leads_a_process_group(own_session: bool, tmp_path: Path) -> None:
    child = process.start_module(
        "timeit", "import time; time.sleep(60)", log=tmp_path / "log", own_session=own_session
    )
    try:
        assert os.getpgid(child.pid) == child.pid
        assert (os.getsid(child.pid) == child.pid) is own_session
    finally:
        process.end_group(child, kill=True)
        child.wait(SECONDS)


PARENT = f"""
import socket, subprocess, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:
    child = subprocess.Popen([sys.executable, "-c", {SLEEPER!r}], pass_fds=[line.fileno()])
    line.sendall(b"started")
"""


@pytest.mark.usefixtures("processes")
@only_posix
@pytest.mark.parametrize("kill", [False, True], ids=["terminate", "kill"])
@pytest.mark.parametrize("more", ["child.wait()", ""], ids=["leader lives", "leader gone"])
def test_ending_a_group_ends_the_grandchildren(kill: bool, more: str, module: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SECONDS)
        leader, _ = start(module, PARENT + more, str(listener.getsockname()[1]))
        line, _ = listener.accept()
    with line:
        line.settimeout(SECONDS)
        assert line.recv(100) == b"started"
        if not more:
            leader.wait(SECONDS)
        process.end_group(leader, kill=kill)
        leader.wait(SECONDS)
        assert line.recv(100) == b"", "the grandchild, who holds the line, is gone"


@pytest.mark.usefixtures("processes")
@only_posix
def test_ending_a_group_that_is_gone_already_is_no_error(module: Path) -> None:
    child, _ = start(module, "pass")
    child.wait(SECONDS)
    process.end_group(child, kill=True)


@pytest.mark.parametrize(
    ("exit_code", "name"), [(-9, "SIGKILL"), (-15, "SIGTERM"), (0, ""), (1, ""), (77, "")]
)
def test_which_signal_an_exit_code_names(exit_code: int, name: str) -> None:
    assert process.signal_name(exit_code) == name


def test_a_signal_without_a_name_is_still_a_signal() -> None:
    assert process.signal_name(-250) == "signal 250"


def test_resident_memory_is_that_of_this_process() -> None:
    assert 10**6 < process.resident_bytes() <= psutil.virtual_memory().total


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("source", "output"),
    [("print(' x ')", "x"), ("print('x'); raise SystemExit(1)", ""), (SLEEPER, "")],
    ids=["works", "fails", "hangs"],
)
def test_what_a_short_command_prints(source: str, output: str, tmp_path: Path) -> None:
    timeout = 0.05 if source is SLEEPER else SECONDS
    command = [sys.executable, "-c", source]
    assert process.command_output(command, tmp_path, timeout) == output


@pytest.mark.usefixtures("processes")
def test_a_command_that_is_not_installed_prints_nothing(tmp_path: Path) -> None:
    assert process.command_output(["no-such-command"], tmp_path) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere psutil sees to that")
def test_setting_the_clock_does_not_make_a_process_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a wake-up. What the system tells as the time of its start jumps along."""
    born = process.start_time(os.getpid())
    monkeypatch.setattr(psutil, "boot_time", lambda: 0.0)
    monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: 0.0)
    assert process.is_alive(os.getpid(), born)


def test_folders_in_the_environment_of_a_module_hold_in_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TRAINDECK_HOME", "TRAINDECK_TEMPLATES", "TRAINDECK_LOG_FOLDER"):
        folder = process.module_environment({name: "a/../b"})[name]
        assert Path(folder).is_absolute()
        assert Path(folder).resolve() == tmp_path / "b"
        monkeypatch.setenv("TRAINDECK_HOME", "a/../b")
        assert folder == str(paths.home()), "the same folder by the same name"
        assert process.module_environment({name: "/absolute"})[name] == "/absolute"
        assert process.module_environment({name: ""})[name] == ""


@only_posix
def test_a_process_without_free_descriptors_has_no_figure_of_its_memory(processes: None) -> None:
    code = """
import resource
from engine.processes.process import resident_metric
assert resident_metric()["memory_resident"] > 0
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
print(resident_metric())
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=process.PROJECT, check=True)
    assert done.stdout == "{}\n"


def test_a_module_that_runs_is_found_by_its_command_line(module: Path, processes: None) -> None:
    assert process.find_module(module.stem, "/runs/7") is None
    started, _ = start(module, SLEEPER, "/runs/7", "--resume")
    assert process.find_module(module.stem, "/runs/7") == (
        started.pid,
        process.start_time(started.pid),
    )
    assert process.find_module(module.stem, "/runs/70") is None
    started.kill()
    started.wait()
    assert process.find_module(module.stem, "/runs/7") is None


def test_processors_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5})
    assert process.usable_processors() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert process.usable_processors() == 8


@pytest.mark.parametrize(("told", "usable"), [(None, 4), (2, 2), (16, 4)])
def test_cores_are_those_that_this_process_may_use(
    told: int | None, usable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "usable_processors", lambda: 4)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: told)
    assert process.usable_cores() == usable
