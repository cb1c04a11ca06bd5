"""The life of a template: requests, refusals, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from engine.processes.process import PROJECT, UNKNOWN_EXIT, start_module
from engine.templates import client, protocol, server
from engine.templates.forked_process import ForkedProcess
from tests.engine.templates.conftest import LightTemplates, is_gone, until
from tests.support.kernel import KERNEL_TELLS
from tests.support.light_templates import LIGHT_KINDS
from tests.support.sentences import sentence

FOREVER = "import threading; threading.Event().wait()"

SHOW_DESCRIPTORS = """
import json, os
links = []
for number in sorted(map(int, os.listdir("/proc/self/fd"))):
    try:
        links.append(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        pass  # that of the listing
print(json.dumps(links), flush=True)
"""


def test_a_worker_is_like_a_started_program_and_its_files_are_for_this_user_only(
    templates: LightTemplates,
) -> None:
    """It runs in its folder, with its arguments and its log; and its exit codes."""
    code = templates.run("import os, sys; print(sys.argv[1:], os.getcwd()); os._exit(7)")
    assert code == 7
    assert f"{templates.log.parent}\n" in templates.log.read_text()
    for program, expected in (
        ("", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit('a reason')", 1),
        ("1 / 0", 1),
        ("import os; os._exit(9)", 9),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
    ):
        assert templates.run(program) == expected, program
    text = templates.log.read_text()
    assert "a reason" in text
    assert "ZeroDivisionError" in text
    files = templates.files()
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    for file in files.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_worker_has_no_descriptor_of_its_template_but_its_connection(
    templates: LightTemplates,
) -> None:
    """And a program that the worker starts, or a process that it forks, has not even that."""
    templates.fork(FOREVER)  # another worker, whose connection the template holds
    with socket.socket(socket.AF_UNIX) as stranger:  # and a caller that says nothing
        stranger.connect(str(templates.files().socket))
        code = (
            "import os, subprocess, sys\n"
            "exec(sys.argv[2])\n"
            "if os.fork() == 0: exec(sys.argv[2]); os._exit(0)\n"
            "os.wait()\n"
            "subprocess.run([sys.executable, '-c', sys.argv[2]])"
        )
        assert templates.run(code, arguments=[code, SHOW_DESCRIPTORS]) == 0
    worker, forked, program = (json.loads(line) for line in templates.log.read_text().splitlines())
    standard = ["/dev/null", str(templates.log), str(templates.log)]
    assert worker[:3] == forked[:3] == program[:3] == standard
    [connection] = worker[3:]
    assert connection.startswith("socket:")
    assert forked[3:] == program[3:] == []


def test_a_worker_outlives_its_template_and_its_exit_code_arrives(
    templates: LightTemplates,
) -> None:
    pid = templates.start().pid
    release = templates.folder / "release"
    code = (
        "import os, threading\n"
        f"while not os.path.exists({str(release)!r}): threading.Event().wait(0.01)\n"
        "raise SystemExit(5)"
    )
    worker = templates.fork(code)
    other = templates.fork(FOREVER)
    assert isinstance(worker, ForkedProcess)
    assert isinstance(other, ForkedProcess)
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid))
    release.touch()
    assert worker.wait() == 5
    os.kill(other.pid, signal.SIGKILL)
    assert other.wait() == (-signal.SIGKILL if KERNEL_TELLS else UNKNOWN_EXIT)


def test_after_a_template_was_killed_the_next_start_makes_a_new_one(
    templates: LightTemplates,
) -> None:
    """Its socket is still there."""
    first = templates.start().pid
    os.kill(first, signal.SIGKILL)
    until(lambda: is_gone(first))
    assert templates.files().socket.exists()
    assert templates.run("") == 0
    state = templates.state()
    assert state
    assert state.pid != first


def test_a_template_ends_after_its_idle_time(templates: LightTemplates) -> None:
    templates.folder.mkdir(mode=0o700)
    process = start_module(
        "tests.support.light_templates", "light", "--idle-seconds", "0", log=templates.log
    )
    assert process.wait(60) == 0
    assert not templates.files().socket.exists()


def test_a_template_that_is_asked_to_end_waits_for_its_workers(templates: LightTemplates) -> None:
    worker = templates.fork(FOREVER)
    assert isinstance(worker, ForkedProcess)
    [state] = client.states()
    assert state.workers == 1
    client.end_all()
    until(lambda: not templates.files().socket.exists())
    assert templates.run("") == 0  # by a new template
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait() == -signal.SIGTERM
    until(lambda: is_gone(state.pid))


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.nightly),
        pytest.param(signal.SIGHUP, marks=pytest.mark.nightly),
    ],
)
def test_a_template_ends_on_signals_that_ask_for_it(
    number: signal.Signals, templates: LightTemplates
) -> None:
    pid = templates.start().pid
    os.kill(pid, number)
    until(lambda: is_gone(pid))


def test_a_template_that_ends_does_not_touch_the_files_of_its_successor(
    templates: LightTemplates,
) -> None:
    """Its folder was deleted, and another template was started in a new one."""
    first = templates.start().pid
    templates.folder.rename(templates.folder.with_name("deleted"))
    second = templates.start().pid
    assert second != first
    with contextlib.suppress(ProcessLookupError):  # it may have noticed by itself
        os.kill(first, signal.SIGTERM)
    until(lambda: is_gone(first))
    state = templates.state()
    assert state
    assert state.pid == second


def test_a_template_whose_imports_start_a_thread_refuses_by_name(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = templates.fork("", "thread")
    assert isinstance(refusal, client.NoTemplate)
    assert "that imports have started: never ends" in str(refusal)
    state = templates.state("thread")
    assert state
    assert state.problem == str(refusal)
    assert str(templates.fork("", "thread")) == str(refusal)  # at once, by the same template
    assert templates.state("thread").pid == state.pid  # type: ignore[union-attr]


def test_a_template_whose_imports_fail_says_so(templates: LightTemplates) -> None:
    refusal = templates.fork("", "broken")
    assert isinstance(refusal, client.NoTemplate)
    assert sentence("imports-failed-this-module-is-broken") in str(refusal)
    assert str(templates.files("broken").log) in str(refusal)
    assert sentence("systemexit-this-module-is-broken") in templates.files("broken").log.read_text()


def test_workers_show_what_the_imports_have_printed_without_the_noise(
    templates: LightTemplates,
) -> None:
    for _ in range(2):
        templates.log.unlink(missing_ok=True)
        assert templates.run("print('of the worker')", "talkative") == 0
        assert templates.log.read_text() == "a line of stdout\nof the worker\n"
    client.end_all()
    until(lambda: not templates.files("talkative").socket.exists())
    templates.log.unlink()
    assert templates.run("", "talkative") == 0  # the log holds the lines of two templates now
    assert templates.log.read_text() == "a line of stdout\n"


def test_variables_that_imports_set_are_set_in_workers_unless_the_run_sets_them(
    templates: LightTemplates,
) -> None:
    show = "import os; print(os.environ['SET_BY_AN_IMPORT'])"
    assert templates.run(show, "talkative") == 0
    assert templates.run(show, "talkative", variables={"SET_BY_AN_IMPORT": "by the run"}) == 0
    assert templates.log.read_text().splitlines()[1::2] == ["yes", "by the run"]


def _connected(files: protocol.Files) -> protocol.Connection | None:
    try:
        return protocol.connect(files)
    except OSError:
        return None


def test_requests_that_wait_for_the_imports_go_to_a_new_template_if_it_ends(
    templates: LightTemplates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMPORT_LASTS_UNTIL", str(tmp_path / "imported"))
    client.start(LIGHT_KINDS["slow"])
    pid = until(lambda: protocol.pid_of(templates.files("slow")))
    codes: list[int] = []
    asking = threading.Thread(
        target=lambda: codes.append(templates.run("raise SystemExit(5)", "slow"))
    )
    asking.start()
    os.kill(pid, signal.SIGTERM)
    until(lambda: protocol.pid_of(templates.files("slow")) != pid)
    (tmp_path / "imported").touch()
    asking.join()
    assert codes == [5]


def test_a_caller_that_is_gone_gets_no_worker(
    templates: LightTemplates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMPORT_LASTS_UNTIL", str(tmp_path / "imported"))
    client.start(LIGHT_KINDS["slow"])
    trace = tmp_path / "trace"
    with until(lambda: _connected(templates.files("slow"))) as connection:
        protocol.send(connection, templates.request(f"open({str(trace)!r}, 'w')"))
    (tmp_path / "imported").touch()
    assert templates.run("", "slow") == 0
    assert not trace.exists()


def test_a_worker_does_not_begin_before_its_supervisor_follows_it(
    templates: LightTemplates, tmp_path: Path
) -> None:
    """A supervisor that gives up at that moment starts another worker instead."""
    templates.start()
    trace = tmp_path / "trace"
    with protocol.connect(templates.files()) as connection:
        protocol.send(connection, templates.request(f"open({str(trace)!r}, 'w')"))
        forked = protocol.receive(connection)
        assert isinstance(forked, protocol.Forked)
        assert not is_gone(forked.pid)
    until(lambda: is_gone(forked.pid))
    assert not trace.exists()


def test_nonsense_ends_the_connection_and_not_the_template(templates: LightTemplates) -> None:
    templates.start()
    for text in (b"", b"nonsense", b"\xff" * 100):
        with protocol.connect(templates.files()) as connection:
            connection.send_bytes(text)
            with pytest.raises((EOFError, OSError)):
                protocol.receive(connection)
    with protocol.connect(templates.files()) as connection:
        protocol.send(connection, protocol.Run())  # a message that is none of a caller
        with pytest.raises((EOFError, OSError)):
            protocol.receive(connection)
    assert templates.run("") == 0


def test_a_fork_that_the_system_refuses_is_told(templates: LightTemplates) -> None:
    refusal = templates.fork("", "no_fork")
    assert isinstance(refusal, client.NoTemplate)
    assert sentence("system-refused-fork") in str(refusal)
    assert sentence("resource-temporarily-unavailable") in str(refusal)
    assert templates.state("no_fork")  # it may succeed later


def test_a_template_without_free_descriptors_survives(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = templates.start()
    process = psutil.Process(state.pid)
    before = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() - 1, before[1]))
    monkeypatch.setattr(client, "ASK_SECONDS", 1.0)
    assert templates.state() is None
    process.rlimit(psutil.RLIMIT_NOFILE, before)
    assert templates.run("") == 0
    assert templates.state().pid == state.pid  # type: ignore[union-attr]


def test_a_template_ends_when_a_file_of_the_engine_changes(
    templates: LightTemplates, tmp_path: Path
) -> None:
    """One that it has not imported: workers run it."""
    copy = tmp_path / "project"
    command = ["cp", "-r", "--preserve=timestamps", "engine", "tests", str(copy)]
    copy.mkdir()
    subprocess.run(command, cwd=PROJECT, check=True)
    templates.folder.mkdir(mode=0o700)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.support.light_templates", "light"],
        env=templates.request().environment | {"PYTHONPATH": str(copy)},
    ) as template:
        try:
            until(lambda: templates.state())
            (copy / "engine" / "worker" / "__main__.py").write_text("# changed\n")
            until(lambda: _ends(templates))
            assert template.wait(60) == 0
        finally:
            template.kill()


def _ends(templates: LightTemplates) -> bool:
    """Whether the template refuses a request because it ends, or listens no more.

    It looks at the files by itself, too, and may then end before it has read the request.
    """
    if (connection := _connected(templates.files())) is None:
        return True
    with connection:
        try:
            protocol.send(connection, templates.request())
            until(connection.poll)
            answer = protocol.receive(connection)
        except (EOFError, OSError):
            return False  # asked again
    return isinstance(answer, protocol.Refused) and answer.is_ending


def test_a_large_log_is_emptied(templates: LightTemplates) -> None:
    templates.folder.mkdir(mode=0o700)
    templates.files().log.write_bytes(b"x" * (server.LARGEST_LOG + 1))
    templates.start()
    assert templates.files().log.stat().st_size < 1000


def test_a_template_stays_when_a_run_differs_from_it(templates: LightTemplates) -> None:
    first = templates.start().pid
    refusal = templates.fork("", variables={"TF_OTHER": "1"})
    assert "another value of TF_OTHER" in str(refusal)
    state = templates.state()
    assert state
    assert state.pid == first
