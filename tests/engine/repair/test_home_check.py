"""The files of the data folder: what is damaged is named, mended or left to the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engine.environments import creation, registry
from engine.environments.registry import Environment
from engine.messages.channel import Server
from engine.planning import kept
from engine.planning.results import Race
from engine.processes import process
from engine.repair.report import Damage, Outcome
from engine.runs import device_queue, run_index
from engine.runs.device_queue import Ticket
from engine.spec import presets
from engine.system import machines, paths
from engine.system.machines import RemoteMachine
from tests.support.recorded_runs import SPEC, RecordedRun
from tests.support.sentences import sentence

Check = Callable[..., list[Damage]]


def test_an_empty_home_is_fine(check: Check) -> None:
    assert check() == []


def test_a_damaged_list_of_runs_is_built_anew(run: Path, check: Check) -> None:
    index = run_index.RunIndex()
    index.runs()
    file = paths.home() / run_index.FILE_NAME
    file.write_bytes(b"noise" * 2000)
    [found] = check()
    assert (found.run, found.file, found.outcome) == ("", "index.sqlite", Outcome.MENDABLE)
    assert file.read_bytes().startswith(b"noise")
    [found] = check(repair=True)
    assert found.outcome is Outcome.MENDED
    assert run_index.cached_spec("1") is not None
    assert check() == []


def test_a_measurement_that_cannot_be_read_is_named(check: Check) -> None:
    kept.keep(Race())
    assert check() == []
    (paths.home() / kept.FOLDER / "1.json").write_text("noise")
    (found,) = check(repair=True)
    assert (found.run, found.file, found.outcome) == ("", "planning/1.json", Outcome.UNMENDABLE)


def test_a_damaged_queue_is_built_anew_from_the_runs(check: Check) -> None:
    recorded = RecordedRun()
    recorded.begin()
    server = Server(recorded.folder, lambda hello, channel: None)
    file = paths.home() / device_queue.FILE_NAME
    file.write_text("noise")
    queue = [each for each in check() if not each.run]
    assert [(each.file, each.outcome) for each in queue] == [("queue.json", Outcome.MENDABLE)]
    check(repair=True)
    assert file.with_name("queue.json.damaged-1").read_text() == "noise"
    server.close()
    [ticket] = msgspec.json.decode(file.read_bytes(), type=list[Ticket])
    assert (ticket.run, ticket.pid) == ("1", os.getpid())


def test_a_ticket_without_a_run_is_removed(run: Path, check: Check) -> None:
    born = process.start_time(os.getpid())
    mine = Ticket("1", os.getpid(), born, SPEC.devices, ())
    for ticket in (mine, Ticket("99", os.getpid(), born - 99.0, SPEC.devices, ())):
        device_queue.enter(ticket)
    file = paths.home() / device_queue.FILE_NAME
    file.write_bytes(msgspec.json.encode([mine, Ticket("99", 1, 1.0, SPEC.devices, ())]))
    [found] = check(repair=True)
    assert found.problem == sentence("queue-holds-tickets-of-no-runs")
    assert device_queue.read() == [mine]
    assert check() == []


def test_what_only_the_user_can_mend_is_named(run: Path, check: Check) -> None:
    presets.save("good", SPEC)
    presets.path_of("bad").write_text("[run]\nimagination = 3\n")
    (paths.trash_folder() / "1").mkdir(parents=True, mode=0o700)
    paths.trash_folder().chmod(0o700)
    found = check(repair=True)
    assert [(each.file, each.outcome) for each in found] == [
        ("presets/bad.toml", Outcome.UNMENDABLE),
        ("trash/1", Outcome.UNMENDABLE),
    ]
    assert "imagination" in found[0].problem


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_the_run_of_another_user_is_named(run: Path, check: Check) -> None:
    os.chown(run, 12345, -1)
    [found] = check(repair=True)
    assert (found.file, found.outcome) == ("", Outcome.UNMENDABLE)
    assert "is a folder of another user" in found.problem


def test_a_file_in_the_place_of_a_folder_is_named(traindeck_home: Path, check: Check) -> None:
    traindeck_home.mkdir(mode=0o700)
    (traindeck_home / "runs").write_text("?")
    [found] = check(repair=True)
    assert (found.file, found.outcome) == ("runs", Outcome.UNMENDABLE)


def test_leftovers_are_removed(run: Path, check: Check) -> None:
    file = paths.home() / ".queue.json.0a1b2c.tmp"
    file.write_text("[")
    os.utime(file, (1.0, 1.0))
    [found] = check(repair=True)
    assert (found.file, found.outcome) == (file.name, Outcome.MENDED)
    assert not file.exists()


def _made(name: str) -> Path:
    program = registry.folder() / name / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    return program


def test_a_damaged_list_of_environments_begins_anew_with_those_made_here(check: Check) -> None:
    registry.add(Environment("mine", str(_made("mine")), is_ours=True))
    assert check() == []
    file = paths.home() / registry.FILE_NAME
    file.write_text('{"format": "1.0", "environments": [')
    [found] = check()
    assert (found.file, found.outcome) == ("environments.json", Outcome.MENDABLE)
    [found] = check(repair=True)
    assert "listed again: mine;" in found.action
    assert file.with_name("environments.json.damaged-1").exists()
    assert [(each.name, each.is_ours) for each in registry.environments()] == [("mine", True)]
    assert check() == []


def test_a_damaged_list_of_machines_keeps_those_that_can_be_read(check: Check) -> None:
    for name in ("lab", "gpus"):
        machines.add(RemoteMachine(name=name, destination=f"me@{name}"))
    assert check() == []
    file = paths.home() / machines.FILE_NAME
    damaged = file.read_text() + '[[machine]]\nname = "torn'
    file.write_text(damaged)
    [found] = check()
    assert (found.file, found.outcome) == ("machines.toml", Outcome.MENDABLE)
    assert "The list of machines" in found.problem
    [found] = check(repair=True)
    assert "lab, gpus" in found.action
    assert file.with_name("machines.toml.damaged-1").read_text() == damaged
    assert [each.name for each in machines.machines()] == ["lab", "gpus"]
    assert check() == []


def test_a_machine_that_cannot_be_used_is_taken_off_the_list(check: Check) -> None:
    file = paths.home() / machines.FILE_NAME
    entries = ('name = "lab"\ndestination = "me@lab"\n', 'name = "x"\ndestination = "-oProxy"\n')
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"[[machine]]\n{each}" for each in entries))
    [found] = check(repair=True)
    assert (found.outcome, "-oProxy" in found.problem) == (Outcome.MENDED, True)
    assert [each.name for each in machines.machines()] == ["lab"]


def test_a_list_of_environments_of_a_newer_version_is_left_alone(check: Check) -> None:
    registry.folder().mkdir(parents=True)
    file = paths.home() / registry.FILE_NAME
    file.write_text('{"format": "2.0", "environments": {}}')
    [found] = check(repair=True)
    assert (found.file, found.outcome) == ("environments.json", Outcome.LEFT_ALONE)
    assert file.read_text() == '{"format": "2.0", "environments": {}}'


def test_what_is_gone_or_half_made_of_an_environment_is_named(check: Check) -> None:
    registry.add(Environment("mine", str(registry.folder() / "mine" / "bin/python"), is_ours=True))
    half = _made("half").parents[1]
    (half / registry.BEING_MADE).touch()
    with creation._folder_in_work(registry.folder() / "in-work"):
        gone, abandoned = check(repair=True)
        assert (registry.folder() / "in-work").exists()
    assert (gone.file, gone.outcome) == ("environments.json", Outcome.UNMENDABLE)
    assert sentence("env-remove-mine-takes-mine-off") in gone.action
    assert (abandoned.file, abandoned.outcome) == ("environments/half", Outcome.MENDED)
    assert not half.exists()
