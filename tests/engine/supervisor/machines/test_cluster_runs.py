"""Runs over two real Ray nodes on this machine, which survive losses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
import pytest

from engine import client
from engine.messages.commands import EmptyCache, Pause, Resume, SaveCheckpoint, Stop
from engine.messages.events import (
    CacheEmptied,
    CheckpointSaved,
    Notice,
    Paused,
    Resumed,
    TrainingStarted,
    Trouble,
    WorkerStarted,
)
from engine.runs.checkpoints.checkpoint_files import verify
from engine.runs.run_state import RunState
from engine.supervisor.machines.node import FOLDER
from engine.system import paths
from tests.support.cluster_machine import ClusterMachine, two_machines
from tests.support.cluster_machine import wait_for as wait_until
from tests.support.contract import last_checkpoint
from tests.support.runs import (
    curve,
    events,
    is_training,
    spec,
    train,
    wait_for,
    wait_for_end,
    wait_for_event,
)
from tests.support.sentences import sentence

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[cluster]'")
pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.nightly]

Kind = TypeVar("Kind")

BOTH = ("cpu:0", "gpus/cpu:0")
LONG = 1_000_000

Cluster = tuple[ClusterMachine, ClusterMachine]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Cluster]:
    """The head `desk`, and the machine `gpus`."""
    with two_machines(tmp_path_factory.mktemp("machines")) as made:
        yield made


@pytest.fixture(autouse=True)
def on_desk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests use the data folder of the head."""
    monkeypatch.setenv("TRAINDECK_HOME", str(cluster[0].home))


@pytest.fixture
def started() -> Iterator[Any]:
    """Starts long runs, and ends them after the test."""
    runs: list[str] = []

    def start(**changes: Any) -> str:
        wanted = spec("probe_torch", "torch/ddp", BOTH, **({"epochs": LONG} | changes))
        runs.append(client.start(wanted))
        wait_for(runs[-1], is_training)
        return runs[-1]

    yield start
    for run_id in runs:
        if not client.get_run(run_id).state.is_over:
            client.send(run_id, Stop(now=True))
            wait_for_end(run_id)


def of_kind(kind: type[Kind], info: client.RunInfo) -> list[Kind]:
    """The events of one kind of a run."""
    return [event for event in events(info) if isinstance(event, kind)]


def parts_of_runs(machine: ClusterMachine) -> list[str]:
    """The folders of runs on another machine."""
    folder = machine.home / FOLDER
    return [each.name for each in folder.iterdir()] if folder.exists() else []


def programs_there() -> list[int]:
    """The pids of the programs on other machines."""
    return [
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if "engine.supervisor.machines.node" in (each.info["cmdline"] or ())
    ]


def test_what_another_machine_keeps_of_a_run_lasts_as_long_as_its_attempt(
    cluster: Cluster,
) -> None:
    both = train(spec("probe_torch", "torch/ddp", BOTH))
    assert both.state is RunState.FINISHED, both.reason
    assert [each.devices for each in of_kind(WorkerStarted, both)] == [("cpu:0",), ("gpus/cpu:0",)]
    wait_until(lambda: not parts_of_runs(cluster[1]))


@pytest.mark.nightly
def test_a_killed_ray_node_is_waited_for_and_the_run_goes_on(
    cluster: Cluster, started: Any
) -> None:
    run_id = started()
    client.send(run_id, SaveCheckpoint())
    wait_for_event(run_id, CheckpointSaved)
    cluster[1].kill_raylet()
    info = wait_for(run_id, lambda now: now.status.attempt == 2 and is_training(now))
    begun = of_kind(TrainingStarted, info)
    assert [each.replicas for each in begun] == [2, 2]
    assert begun[1].step > 0
    assert any("Machine gpus was lost: " in each.text for each in of_kind(Notice, info))


@pytest.mark.nightly
def test_in_a_shared_folder_each_machine_writes_its_part_and_a_restart_sends_none(
    cluster: Cluster, started: Any, tmp_path: Path
) -> None:
    run_id = started(shared_folder=str(tmp_path))
    (place,) = tmp_path.iterdir()
    client.send(run_id, SaveCheckpoint())
    saved = wait_for_event(run_id, CheckpointSaved)
    (info,) = client.run_checkpoints(run_id)
    assert info.folder.resolve() == place / info.folder.name
    assert {"rank0.pt", "rank1.pt"} <= set(info.manifest.files)
    (there,) = (cluster[1].home / FOLDER).iterdir()
    assert (there / "checkpoints").resolve().parent == place
    cluster[1].kill_raylet()
    wait_for(run_id, lambda now: now.status.attempt == 2 and is_training(now))
    assert client.get_run(run_id).status.step >= saved.step
    client.send(run_id, Stop())
    stopped = wait_for_end(run_id)
    assert stopped.state is RunState.STOPPED
    verify(last_checkpoint(stopped))
    wait_until(lambda: all(each.name.startswith(("step-", "owner")) for each in place.iterdir()))


@pytest.mark.nightly
def test_the_memory_of_processes_on_other_machines_is_a_curve(started: Any) -> None:
    run_id = started()
    series = "device/gpus/cpu/process_memory"

    wait_until(lambda: bool(curve(client.get_run(run_id), series)[1]))
    assert min(curve(client.get_run(run_id), series)[1]) > 1e7


def test_commands_and_questions_for_stacks_reach_all_ranks(started: Any) -> None:
    run_id = started(settings={"hold": True}, hang_minutes=0.1)
    folder = client.get_run(run_id).folder
    seq = client.send(run_id, Pause())
    paused = wait_for_event(run_id, Paused, seq)
    seq = client.send(run_id, Resume())
    assert wait_for_event(run_id, Resumed, seq).step == paused.step
    client.send(run_id, EmptyCache())
    wait_until(
        lambda: {each.rank for each in of_kind(CacheEmptied, client.get_run(run_id))} == {0, 1}
    )
    client.send(run_id, SaveCheckpoint())  # after it, the recipe stands still
    trouble = wait_for_event(run_id, Trouble)
    assert sentence("rank-is-in-hold-here") in trouble.text
    assert "Rank 1 on gpus/cpu:0 " in trouble.text
    assert "Thread" in paths.stacks_file(folder, 1).read_text()


@pytest.mark.nightly
def test_with_min_machines_the_run_goes_on_without_a_machine_that_leaves(
    cluster: Cluster, started: Any
) -> None:
    desk, gpus = cluster
    run_id = started(min_machines=1)
    client.send(run_id, SaveCheckpoint())
    wait_for_event(run_id, CheckpointSaved)
    head, token = desk.call("cluster", "start", "--json").json["head"], desk.token
    gpus.leave()
    try:
        # Ray may end what runs there some moments before the node itself.
        info = wait_for(run_id, lambda now: now.status.replicas == 1 and is_training(now))
        texts = [each.text for each in of_kind(Notice, info)]
        assert any(each.startswith("Machine gpus was lost: ") for each in texts)
        assert sentence("run-goes-on-on-this-machine") in texts
    finally:
        assert gpus.join(head, token).code == 0


@pytest.mark.nightly
def test_the_death_of_the_head_leaves_nothing_and_the_run_resumes_without_the_cluster(
    cluster: Cluster, started: Any
) -> None:
    run_id = started()
    client.send(run_id, SaveCheckpoint())
    saved = wait_for_event(run_id, CheckpointSaved)
    assert programs_there()
    psutil.Process(client.get_run(run_id).status.supervisor_pid).kill()
    wait_until(lambda: not programs_there() and not parts_of_runs(cluster[1]))
    wait_until(lambda: client.get_run(run_id).state is RunState.INTERRUPTED)
    wanted = msgspec.structs.replace(client.get_run(run_id).spec, devices=("cpu:0",))
    client.resume(run_id, spec=wanted)
    info = wait_for(run_id, is_training)
    assert of_kind(TrainingStarted, info)[-1].step >= saved.step


def test_without_a_cluster_devices_of_other_machines_are_refused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINDECK_HOME", str(tmp_path))
    (problem,) = client.check(spec("probe_torch", "torch/ddp", BOTH))
    assert problem.field == "devices"
    assert problem.text.startswith(sentence("this-machine-is-in-no-cluster"))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"strategy": "torch/model_parallel"}, sentence("works-within-one-machine")),
        ({"devices": ("gpus/cpu:0", "cpu:0")}, sentence("first-device-must-be-one")),
        (
            {"devices": ("cpu:0", "gpus/cpu:0", "cpu:1")},
            sentence("name-devices-of-each-machine-one"),
        ),
        ({"min_machines": 3}, sentence("fewer-machines-than-min")),
        ({"interpreter": "/usr/bin/python3"}, sentence("uses-traindecks-own-python-on-each")),
    ],
)
def test_what_a_run_over_machines_cannot_do_is_refused(changes: dict[str, Any], text: str) -> None:
    wanted = spec("probe_torch", "torch/ddp", BOTH)
    found = [each.text for each in client.check(msgspec.structs.replace(wanted, **changes))]
    assert any(text in each for each in found), found
