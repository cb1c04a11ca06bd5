"""Devices by the names that people use, and which strategies can run on them."""

from __future__ import annotations

from typing import ClassVar

import pytest

from engine.cli.devices import resolve_devices, why_not_there
from engine.cli.output import Refused
from engine.cluster import membership
from engine.cluster.member import Member
from engine.cluster.membership import Cluster
from engine.interface import local_engine
from engine.interface.local_engine import LocalEngine
from engine.spec.strategy import Strategy, WorkerPlan
from engine.telemetry.given_gpus import GivenGpus, given_gpus
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice, Snapshot
from tests.support.sentences import sentence

ENGINE = LocalEngine()

FIRST, SECOND, LOST = "GPU-aaaa", "GPU-bbbb", "GPU-cccc"
NO_GPU = "No NVIDIA driver is installed."


def snapshot(*gpus: str) -> Snapshot:
    rows = [
        DeviceSnapshot(
            id=uuid,
            kind="gpu",
            label=str(number),
            name="H100",
            index=number,
            lost="It fell off the bus." if uuid == LOST else None,
        )
        for number, uuid in enumerate(gpus)
    ]
    return Snapshot(time=0.0, devices=tuple(rows), gpu_note="" if gpus else NO_GPU)


@pytest.fixture
def two_gpus_and_a_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine, "snapshot_once", lambda: snapshot(FIRST, SECOND, LOST))


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine, "snapshot_once", lambda: snapshot())


def test_a_divided_gpu_is_chosen_by_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    divided = DeviceSnapshot(
        id=FIRST,
        kind="gpu",
        label="0",
        name="H100",
        index=0,
        slices=(MigSlice(uuid="MIG-1", name="3g.40gb"), MigSlice(uuid="MIG-2", name="1g.10gb")),
    )
    machine_now = Snapshot(time=0.0, devices=(divided, *snapshot(FIRST, SECOND).devices[1:]))
    monkeypatch.setattr(local_engine, "snapshot_once", lambda: machine_now)
    assert resolve_devices(ENGINE, None) == ("MIG-1",)
    assert resolve_devices(ENGINE, "MIG-2") == ("MIG-2",)
    assert resolve_devices(ENGINE, "gpu:1") == (SECOND,)
    with pytest.raises(Refused, match=r"gpu:0 \(H100\) is divided into slices .* such as MIG-1"):
        resolve_devices(ENGINE, "gpu:0")


@pytest.mark.usefixtures("two_gpus_and_a_lost_one")
@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("cpu", ("cpu:0",)),
        ("cpu:0, cpu:01", ("cpu:0", "cpu:1")),
        ("gpu:1", (SECOND,)),
        ("cuda:0,gpu:1", (FIRST, SECOND)),
        (f"{SECOND},gpu:0", (SECOND, FIRST)),
        ("all-gpus", (FIRST, SECOND)),
    ],
)
def test_names_of_devices(text: str, devices: tuple[str, ...]) -> None:
    assert resolve_devices(ENGINE, text) == devices


@pytest.mark.usefixtures("two_gpus_and_a_lost_one")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu:3", sentence("there-is-no-gpu-this-machine")),
        ("gpu:2", sentence("gpu-of-the-command-line-is-lost")),
        ("gpu:0,gpu:x", "'gpu:x' names no device"),
    ],
)
def test_names_of_gpus_that_are_not_there(text: str, said: str) -> None:
    with pytest.raises(Refused) as refusal:
        resolve_devices(ENGINE, text)
    assert said in str(refusal.value)


@pytest.mark.usefixtures("two_gpus_and_a_lost_one")
def test_only_what_was_given_is_offered_and_the_rest_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert resolve_devices(ENGINE, None) == (SECOND,)
    assert resolve_devices(ENGINE, "all-gpus") == (SECOND,)
    with pytest.raises(Refused) as refusal:
        resolve_devices(ENGINE, "gpu:0")
    assert str(refusal.value).startswith(sentence("gpu-was-not-given-to-traindeck"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert resolve_devices(ENGINE, None) == ("cpu:0",)
    with pytest.raises(Refused, match=sentence("gives-traindeck-no-gpu").pattern):
        resolve_devices(ENGINE, "all-gpus")
    assert why_not_there(TwoGpus(), given_gpus(snapshot(FIRST, SECOND))) == "Choose GPUs."


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("text", ["gpu:0", "cuda:0", "all-gpus"])
def test_without_a_gpu_the_refusal_says_why(text: str) -> None:
    with pytest.raises(Refused, match=f"^{text} is not there: {NO_GPU}"):
        resolve_devices(ENGINE, text)


def test_logical_cpus_and_uuids_need_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine, "snapshot_once", pytest.fail)
    assert resolve_devices(ENGINE, f"cpu:0,{FIRST}") == ("cpu:0", FIRST)


@pytest.mark.usefixtures("two_gpus_and_a_lost_one")
def test_the_first_gpu_is_the_default() -> None:
    assert resolve_devices(ENGINE, None) == (FIRST,)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_cpu_is_the_default() -> None:
    assert resolve_devices(ENGINE, None) == ("cpu:0",)


class TwoGpus(Strategy):
    """Runs on two GPUs and on nothing else."""

    name: ClassVar[str] = "torch/two"
    title: ClassVar[str] = "Two"
    summary: ClassVar[str] = ""
    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})
    needs: ClassVar[str] = "2 GPUs"

    def problems(self, devices: tuple[str, ...]) -> list[str]:  # type: ignore[override]
        found = [] if len(devices) == 2 else ["Choose two."]
        return found + ["Choose GPUs." for device in devices[:1] if device.startswith("cpu")]

    def pool(self, devices: object) -> tuple[WorkerPlan, ...]:
        return ()


def test_a_strategy_runs_here_if_it_accepts_some_devices_of_this_machine() -> None:
    assert why_not_there(TwoGpus(), given_gpus(snapshot(FIRST, SECOND, "GPU-dddd"))) == ""
    assert why_not_there(TwoGpus(), given_gpus(snapshot(FIRST))) == "Choose GPUs."
    assert why_not_there(TwoGpus(), given_gpus(snapshot(FIRST, LOST))) == "Choose GPUs."


@pytest.fixture
def a_cluster(monkeypatch: pytest.MonkeyPatch, two_gpus_and_a_lost_one: None) -> None:
    here = Member(name="desk", ip="10.0.0.1", alive=True, is_here=True)
    there = Member(
        name="gpus",
        ip="10.0.0.2",
        alive=True,
        snapshot=snapshot("GPU-dddd", "GPU-eeee"),
        given=GivenGpus(("GPU-eeee",), "CUDA_VISIBLE_DEVICES=1", frozenset(["GPU-dddd"])),
    )
    lost = Member(name="old", ip="10.0.0.3", alive=False, problem="old was lost.")
    monkeypatch.setattr(membership, "cluster", lambda: Cluster(head="", name="desk", ip=""))
    monkeypatch.setattr(membership, "members", lambda: [here, there, lost])


@pytest.mark.usefixtures("a_cluster")
@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("gpus/gpu:1", ("gpus/GPU-eeee",)),
        ("gpu:0,gpus/cuda:1", (FIRST, "gpus/GPU-eeee")),
        ("gpus/all-gpus", ("gpus/GPU-eeee",)),
        ("gpus/cpu:3,cpu", ("gpus/cpu:3", "cpu:0")),
        ("gpus/MIG-1", ("gpus/MIG-1",)),
        ("desk/gpu:1,desk/cpu:0", (SECOND, "cpu:0")),
    ],
)
def test_devices_of_another_machine_have_its_name(text: str, chosen: tuple[str, ...]) -> None:
    assert resolve_devices(ENGINE, text) == chosen


@pytest.mark.usefixtures("a_cluster")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus/gpu:0", sentence("gpu-of-cluster-was-not-given").pattern),
        ("gpus/gpu:7", sentence("there-is-no-gpus-has-gpus").pattern),
        ("gpus/tpu:0", sentence("names-no-device").pattern),
        ("old/cpu:0", sentence("devices-of-old-are-not-known").pattern),
        ("lab/cpu:0", sentence("there-is-no-machine-lab").pattern),
    ],
)
def test_a_device_that_no_machine_has_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        resolve_devices(ENGINE, text)


def test_without_a_cluster_there_is_no_other_machine() -> None:
    with pytest.raises(Refused, match="is in no cluster"):
        resolve_devices(ENGINE, "gpus/cpu:0")
