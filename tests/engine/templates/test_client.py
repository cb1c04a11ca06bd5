"""What supervisors, windows and the command line call."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from engine.templates import client, differences, protocol
from engine.templates.client import NoTemplate
from engine.templates.forked_process import ForkedProcess
from tests.engine.templates.conftest import LightTemplates, is_gone, until
from tests.support.light_templates import LIGHT_KINDS
from tests.support.sentences import sentence

FOREVER = "import threading; threading.Event().wait()"
LIGHT = LIGHT_KINDS["light"]


def test_the_first_start_makes_the_template_and_the_next_ones_use_it(
    templates: LightTemplates,
) -> None:
    assert client.states() == []
    assert templates.run("") == 0
    [state] = client.states()
    assert (state.kind, state.workers, state.problem) == ("light", 0, "")
    worker = templates.fork(FOREVER)
    [state_now] = client.states()
    assert (state_now.pid, state_now.workers) == (state.pid, 1)
    assert isinstance(worker, ForkedProcess)


def test_all_ranks_of_a_run_are_forked_in_their_order(templates: LightTemplates) -> None:
    requests = [templates.request(f"import os; os._exit({code})") for code in range(8)]
    workers = list(client.fork_workers(LIGHT, requests))
    codes = [worker.wait() for worker in workers if isinstance(worker, ForkedProcess)]
    assert codes == list(range(8))


def test_of_many_starts_at_once_one_makes_the_template(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start_process = client._start_process

    def counted(*arguments: Any, **options: Any) -> Any:
        started.append(arguments)
        return start_process(*arguments, **options)

    monkeypatch.setattr(client, "_start_process", counted)
    codes: list[int] = []
    callers = [
        threading.Thread(target=lambda: codes.append(templates.run("raise SystemExit(5)")))
        for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert codes == [5] * 8
    assert len(started) == 1


def test_two_processes_of_one_template_are_none_too_many(templates: LightTemplates) -> None:
    """The window starts one without looking for others; the second one ends."""
    first = templates.start().pid
    has_ended = client._start_process(LIGHT)
    until(lambda: has_ended() is not None)
    assert has_ended() == 0
    assert templates.start().pid == first


def test_a_switched_off_template_ends_and_none_is_started(templates: LightTemplates) -> None:
    pid = templates.start().pid
    client.switch(on=False)
    assert not client.is_switched_on()
    until(lambda: is_gone(pid))
    refusal = templates.fork("")
    assert isinstance(refusal, NoTemplate)
    assert str(refusal).startswith(sentence("templates-are-switched-off"))
    with pytest.raises(NoTemplate):
        client.start(LIGHT)
    client.switch(on=True)
    assert templates.run("") == 0


def test_a_switch_that_cannot_be_stored_ends_the_templates_all_the_same(
    templates: LightTemplates,
) -> None:
    pid = templates.start().pid
    (templates.folder / "off").symlink_to("elsewhere")  # the disk takes no file of this name
    with pytest.raises(OSError, match="is a link"):
        client.switch(on=False)
    until(lambda: is_gone(pid))
    (templates.folder / "off").unlink()


def test_nothing_is_left_in_the_folder_by_a_start_that_is_switched_off(
    templates: LightTemplates,
) -> None:
    client.switch(on=False)
    templates.fork("")
    assert [file.name for file in templates.folder.iterdir()] == ["off"]
    assert stat.S_IMODE((templates.folder / "off").stat().st_mode) == 0o600


def test_without_templates_on_this_system_nothing_is_started(
    own_templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ON_LINUX", False)
    with pytest.raises(NoTemplate, match=sentence("this-system-has-no-templates").pattern):
        client.start(LIGHT)
    assert not own_templates.exists()


def test_a_stopped_template_is_given_up(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(client, "ASK_SECONDS", 0.1)
    pid = templates.start().pid
    os.kill(pid, signal.SIGSTOP)
    try:
        requests = [templates.request(), templates.request()]
        answers = list(client.fork_workers(LIGHT, requests))
        assert client.states() == []
    finally:
        os.kill(pid, signal.SIGCONT)
    assert [str(answer) for answer in answers] == [sentence("template-does-not-answer")] * 2
    assert isinstance(answers[0], NoTemplate)


def test_a_template_that_stops_answering_is_given_up_and_its_late_workers_end(
    templates: LightTemplates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.1)
    pid = templates.start().pid
    trace = tmp_path / "trace"
    connect = client._connect_or_start

    def connect_and_stop(*arguments: object) -> protocol.Connection:
        connection = connect(*arguments)  # type: ignore[arg-type]
        os.kill(pid, signal.SIGSTOP)
        return connection

    monkeypatch.setattr(client, "_connect_or_start", connect_and_stop)
    refusal = templates.fork(f"open({str(trace)!r}, 'w')")
    assert str(refusal) == sentence("template-does-not-answer")
    os.kill(pid, signal.SIGCONT)
    until(lambda: (state := templates.state()) and not state.workers)
    assert not trace.exists()


def test_a_cancelled_start_ends_at_once(
    templates: LightTemplates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the template imports."""
    monkeypatch.setenv("IMPORT_LASTS_UNTIL", str(tmp_path / "never"))
    cancelled = threading.Event()
    client.start(LIGHT_KINDS["slow"])
    threading.Timer(0.3, cancelled.set).start()
    requests = [templates.request(), templates.request()]
    begun = time.monotonic()
    answers = list(client.fork_workers(LIGHT_KINDS["slow"], requests, cancelled.is_set))
    assert time.monotonic() - begun < client.ANSWER_SECONDS / 2
    assert {str(answer) for answer in answers} == {"the start was cancelled"}


def test_a_template_that_is_killed_before_its_answer_is_replaced(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = templates.start().pid
    connect = client._connect_or_start

    def connect_and_kill(*arguments: object) -> protocol.Connection:
        connection = connect(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(client, "_connect_or_start", connect)
        os.kill(first, signal.SIGKILL)
        until(lambda: is_gone(first))
        return connection

    monkeypatch.setattr(client, "_connect_or_start", connect_and_kill)
    assert templates.run("") == 0
    assert templates.start().pid != first


def test_a_template_that_cannot_listen_says_why(templates: LightTemplates) -> None:
    """As on a full disk."""
    templates.folder.mkdir(mode=0o700)
    templates.files().lock.mkdir()
    refusal = templates.fork("")
    assert isinstance(refusal, NoTemplate)
    expected = f"the template could not be started: {os.strerror(errno.EISDIR)}"
    assert str(refusal) == expected


def test_a_folder_that_is_relative_is_found_by_all(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(templates.folder.parent)
    monkeypatch.setenv(protocol.FOLDER_VARIABLE, templates.folder.name)
    assert templates.run("") == 0
    assert templates.folder.joinpath("light.sock").exists()


def test_a_folder_of_another_kind_is_told(templates: LightTemplates) -> None:
    templates.folder.write_text("a file")
    refusal = templates.fork("")
    assert isinstance(refusal, NoTemplate)
    assert sentence("template-could-not-be-started") in str(refusal)


def test_a_supervisor_without_free_descriptors_gets_no_worker(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the worker that was forked for it ends."""
    templates.start()

    def full(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", full)
        refusal = templates.fork(FOREVER)
    assert isinstance(refusal, NoTemplate)
    assert sentence("forked-worker-cannot-be-followed") in str(refusal)
    until(lambda: (state := templates.state()) and not state.workers)


def test_a_run_of_another_installation_or_shell_is_refused(templates: LightTemplates) -> None:
    refusal = templates.fork("", installation=("python", "/another", "/project"))
    assert "another installation, /another" in str(refusal)
    ours = differences.of_shell()
    shell = ours | {"priority (nice)": f"{int(ours['priority (nice)']) + 1}"}
    assert "another priority (nice)" in str(templates.fork("", shell=shell))


@pytest.mark.parametrize("changes", [{"folder": "/nowhere"}, {"log": "/nowhere/worker.log"}])
def test_a_worker_without_its_folder_or_log_is_refused(
    changes: dict[str, str], templates: LightTemplates
) -> None:
    refusal = templates.fork("", **changes)
    assert isinstance(refusal, NoTemplate)
    assert "/nowhere" in str(refusal)
    assert templates.run("") == 0


def test_a_set_up_that_fails_is_told(templates: LightTemplates) -> None:
    refusal = templates.fork("", variables={"SET_UP_FAILS": "for this reason"})
    assert str(refusal) == sentence("it-could-not-become-worker")


def test_the_allocator_of_pyarrow_is_told_to_start_no_thread(
    templates: LightTemplates, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}
    start = client.start_module

    def recording(*words: str, **options: Any) -> Any:
        given.update(options["environment"])
        return start(*words, **options)

    monkeypatch.setattr(client, "start_module", recording)
    assert templates.run("import os; assert 'JE_ARROW_MALLOC_CONF' not in os.environ") == 0
    assert given["JE_ARROW_MALLOC_CONF"] == "background_thread:false"
