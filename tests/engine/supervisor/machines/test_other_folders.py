"""A machine that has not the folders of the head: what travels, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.events import Notice
from engine.runs.run_state import RunState
from engine.system import paths
from tests.support import cluster_machine
from tests.support.cluster_machine import ClusterMachine, two_machines
from tests.support.runs import curve, events, logs, spec, train
from tests.support.sentences import sentence

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[cluster]'")
pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.nightly]

RECIPE = """
import os
from pathlib import Path

import torch
from torch.utils.data import TensorDataset

beside = Path(__file__).parent / "data" / "points.csv"


def datasets():
    assert Path("data/points.csv").read_text() == beside.read_text()
    print("read by rank", os.environ["RANK"])
    rows = [[float(value) for value in line.split(",")] for line in beside.read_text().split()]
    Path(f"seen-by-{os.environ['RANK']}").touch()
    points = torch.tensor(rows)
    return TensorDataset(points[:, :2], points[:, 2:]), None


def model():
    return torch.nn.Linear(2, 1)


def loss(output, target):
    return torch.nn.functional.mse_loss(output, target)
"""

Machines = tuple[ClusterMachine, ClusterMachine, Path]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[Machines]:
    """The head, a machine that sees nothing of one folder, and that folder."""
    if why := cluster_machine.cannot_hide():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("machines")
    hidden = folder / "hidden"
    hidden.mkdir()
    with two_machines(folder, cluster_machine.without(hidden)) as (desk, gpus):
        yield desk, gpus, hidden


@pytest.fixture(autouse=True)
def on_desk(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests use the data folder of the head."""
    monkeypatch.setenv("TRAINDECK_HOME", str(machines[0].home))


@pytest.fixture
def recipe(machines: Machines) -> Iterator[Path]:
    """A recipe with a data file in a folder that only the head has."""
    project = machines[2] / "project"
    (project / "data").mkdir(parents=True, exist_ok=True)
    rows = [f"{x}.0,{y}.0,{x - y}.0" for x in range(4) for y in range(4)]
    (project / "data" / "points.csv").write_text("\n".join(rows))
    file = project / "line.py"
    file.write_text(RECIPE)
    yield file
    (project / "too-much").unlink(missing_ok=True)


def trained(recipe: Path, *devices: str, **changes: Any) -> RunInfo:
    wanted: dict[str, Any] = {"epochs": 3, "batch_size": 8, "learning_rate": 0.01} | changes
    strategy = "torch/ddp" if len(devices) > 1 else "torch/single"
    return train(spec(str(recipe), strategy, devices, **wanted))


def notices(info: RunInfo) -> list[str]:
    return [each.text for each in events(info) if isinstance(each, Notice)]


def test_data_beside_the_recipe_travel_with_it(recipe: Path) -> None:
    one = trained(recipe, "cpu:0")
    both = trained(recipe, "cpu:0", "gpus/cpu:0")
    assert both.state is RunState.FINISHED, f"{both.reason}\n{logs(both)}"
    assert curve(both, "train/loss")[1] == pytest.approx(curve(one, "train/loss")[1], abs=1e-5)
    assert "read by rank 1" in paths.log_file(both.folder, 1).read_text()
    expected = f"{recipe.parent} is not on gpus: its ranks work in a copy, "
    assert any(each.startswith(expected) for each in notices(both))
    written = sorted(each.name for each in recipe.parent.glob("seen-by-*"))
    assert written == ["seen-by-0"], "what the others write there is not of the head"


def test_a_large_folder_is_not_sent_and_that_is_told(recipe: Path) -> None:
    with (recipe.parent / "too-much").open("wb") as file:
        file.truncate(65 * 2**20)
    both = trained(recipe, "cpu:0", "gpus/cpu:0")
    assert both.state is RunState.FAILED
    assert sentence("folder-is-not-on-gpus-and-not-sent", parent=recipe.parent) in notices(both)


def test_a_folder_that_is_another_one_there_is_refused(machines: Machines) -> None:
    shared = machines[2] / "shared"
    shared.mkdir()
    wanted = spec("probe_torch", "torch/ddp", ("cpu:0", "gpus/cpu:0"), shared_folder=str(shared))
    info = train(wanted)
    assert info.state is RunState.FAILED
    assert info.reason == sentence("machine-gpus-cannot-take-part-shared", shared=shared)
    assert not list(shared.iterdir())
    assert client.run_checkpoints(info.id) == []
