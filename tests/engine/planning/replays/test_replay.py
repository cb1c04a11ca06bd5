"""Steps of real runs are trained again, and each value of them is the recorded one."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine import client
from engine.client import RunInfo
from engine.messages.events import Restarting, TrainingStarted
from engine.planning.replays.replay import CannotReplay, _check_whole, replay, suspicious_step
from engine.planning.results import Doing, News
from engine.runs.checkpoints.checkpoint_files import final_folder, verify
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import RunReader
from engine.runs.store.stored_points import StoredPoints
from engine.spec.run_spec import RunSpec
from tests.support.recorded_runs import SPEC, RecordedRun
from tests.support.runs import spec, wait_for, wait_for_end, wait_for_event
from tests.support.trained_runs import own_copy, trained

needs_processes = pytest.mark.usefixtures("processes")

LOSS = "SELECT id FROM series WHERE name = 'train/loss'"
WITH_CHECKPOINTS = {"steps": 30, "checkpoint_steps": 10, "learning_rate": 0.01}


@pytest.fixture
def recorded(traindeck_home: Path) -> Iterator[RecordedRun]:
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", range(1, 40))
    yield run
    run.store.close()


def files(info: RunInfo) -> dict[Path, int]:
    """The files of a run and when they changed; readers of a store share one of them."""
    found = [file for file in info.folder.rglob("*") if not file.name.endswith("-shm")]
    return {file: file.stat().st_mtime_ns for file in found}


def change_loss(info: RunInfo, step: int, value: str) -> None:
    """Change what a run has recorded, as if it had computed something else."""
    with closing(sqlite3.connect(info.folder / "run.sqlite")) as store, store:
        store.execute(
            f"UPDATE point SET value = {value} WHERE series = ({LOSS}) AND step = ?", (step,)
        )


@needs_processes
def test_the_steps_since_a_checkpoint_are_equal_and_the_run_does_not_change() -> None:
    info = own_copy(trained(spec("digits", "torch/single", **WITH_CHECKPOINTS)))
    before = files(info)
    told: list[News] = []
    found = replay(info.id, 17, told.append)
    assert (found.checkpoint, found.begin, found.equal) == ("step-00000010", 10, 7)
    assert found.difference is None
    assert isinstance(told[-1], Doing)
    assert (told[-1].done, told[-1].of) == (7, 7)
    assert files(info) == before
    assert len(client.runs()) == 1


@needs_processes
def test_a_step_that_is_not_the_recorded_one_is_named() -> None:
    info = own_copy(trained(spec("digits", "torch/single", **WITH_CHECKPOINTS)))
    (rank,) = final_folder(info.folder, 10).rglob("rank0.pt")
    rank.write_bytes(rank.read_bytes()[:-1] + b"?")  # it is damaged: the replay begins earlier
    change_loss(info, 12, "value + 1e-9")
    found = replay(info.id, 15)
    assert (found.checkpoint, found.equal) == ("", 14)
    assert found.difference is not None
    assert (found.difference.step, found.difference.series) == (12, "loss")
    assert found.inspection is not None
    assert "recorded" not in found.inspection.answer
    assert float(found.difference.recorded) - float(found.difference.replayed) == pytest.approx(
        1e-9, rel=1e-3
    )


def test_a_replay_that_could_not_record_its_steps_is_no_difference(tmp_path: Path) -> None:
    def points(last: int) -> dict[str, StoredPoints]:
        steps = np.arange(1.0, last + 1)
        return {"train/loss": StoredPoints(steps, steps, steps, 0)}

    _check_whole(points(9), points(9), tmp_path)
    for replayed in (points(5), {}):
        with pytest.raises(CannotReplay, match=str(tmp_path)):
            _check_whole(points(9), replayed, tmp_path)


def losses(run: str, after: int) -> list[float]:
    with RunReader(client.get_run(run).folder) as reader:
        points = reader.history("train/loss")
    return [float(v) for s, v in zip(points.step, points.value, strict=True) if s > after]


@needs_processes
@pytest.mark.nightly
@pytest.mark.parametrize(("strategy", "devices"), [("torch/single", 1), ("torch/ddp", 2)])
def test_a_run_that_goes_on_from_a_replayed_step_equals_one_from_a_checkpoint_of_it(
    strategy: str, devices: int
) -> None:
    given = spec("digits", strategy, devices, steps=30, learning_rate=0.01)
    run = client.start(msgspec.structs.replace(given, checkpoint_steps=10))
    other = client.start(msgspec.structs.replace(given, checkpoint_steps=17))
    for each in (run, other):
        wait_for_end(each)
    found = replay(run, 17, keeps_checkpoint=True)
    assert (found.equal, found.kept) == (7, "step-00000017")
    for rate in (0.01, 0.02, 0.5):
        changed = msgspec.structs.replace(given, learning_rate=rate)
        forks = [
            client.resume_as_new(each, final_folder(client.get_run(each).folder, 17), changed)
            for each in (run, other)
        ]
        for fork in forks:
            wait_for_end(fork)
        one, two = (losses(fork, 17) for fork in forks)
        assert one == two
        assert len(one) == 13
        assert (one == losses(run, 17)) == (rate == 0.01)


@needs_processes
def test_a_run_gets_a_checkpoint_of_a_step_once() -> None:
    info = own_copy(trained(spec("digits", "torch/single", **WITH_CHECKPOINTS)))
    saved = final_folder(info.folder, 13)
    assert replay(info.id, 13, keeps_checkpoint=True).kept == saved.name
    before = files(info)
    assert replay(info.id, 13, keeps_checkpoint=True).kept == saved.name
    assert files(info).keys() == before.keys()
    (rank,) = saved.rglob("rank0.pt")
    rank.write_bytes(rank.read_bytes()[:-1] + b"?")
    assert replay(info.id, 13, keeps_checkpoint=True).kept == saved.name
    verify(saved)  # the damaged one is no longer in its place
    change_loss(info, 12, "value + 1e-9")
    assert replay(info.id, 12, keeps_checkpoint=True).kept == "", "it is not the recorded step"
    assert not final_folder(info.folder, 12).exists()


def test_a_run_that_trains_gets_no_checkpoint_of_a_past_step(recorded: RecordedRun) -> None:
    with pytest.raises(CannotReplay, match="once it is over"):
        replay(recorded.id, 5, keeps_checkpoint=True)


@pytest.mark.parametrize("step", [40, 4000])
def test_a_step_that_was_not_recorded_is_refused(recorded: RecordedRun, step: int) -> None:
    with pytest.raises(CannotReplay, match="steps 1 to 39"):
        replay(recorded.id, step)


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ({"command": ("train.py",), "strategy": "script/command"}, "script"),
        ({"imported_from": "/log", "strategy": "imported"}, "imported"),
        ({"devices": ("cpu:0", "other/cpu:0"), "strategy": "torch/ddp"}, "other"),
    ],
)
def test_what_has_no_replay_is_refused_by_name(
    traindeck_home: Path, changes: dict[str, object], phrase: str, tmp_path: Path
) -> None:
    if "command" in changes:
        (tmp_path / "train.py").touch()
        changes = changes | {"recipe": str(tmp_path / "train.py")}
    given = {name: getattr(SPEC, name) for name in ("recipe", "strategy", "devices")} | changes
    run = RecordedRun(RunSpec(**given))
    with closing(run.store):
        run.begin()
        run.add_points("train/loss", range(1, 40))
        with pytest.raises(CannotReplay, match=phrase):
            replay(run.id, 5)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ({70: math.nan, 90: 50.0}, 70),
        ({90: 3.0, 95: 2.0}, 90),
    ],
)
def test_the_step_that_looks_wrong_is_the_first_not_finite_or_else_the_largest_outlier(
    traindeck_home: Path, values: dict[int, float], step: int
) -> None:
    run = RecordedRun()
    with closing(run.store):
        run.begin()
        run.add_points("train/loss", range(1, 70), 1.0)
        for each in range(70, 100):
            run.add_points("train/loss", [each], values.get(each, 1.0))
        with RunReader(run.folder) as reader:
            assert suspicious_step(reader) == step


def test_a_gradient_that_is_not_finite_comes_before_its_loss_and_a_rise_begins_it(
    traindeck_home: Path,
) -> None:
    def found(losses: dict[int, float], norms: dict[int, float]) -> int:
        run = RecordedRun()
        with closing(run.store):
            run.begin()
            for series, values in (("train/loss", losses), ("train/gradient_norm", norms)):
                for each in range(1, 100):
                    run.add_points(series, [each], values.get(each, 1.0 + each / 1000))
            with RunReader(run.folder) as reader:
                return suspicious_step(reader)

    nan = math.nan
    assert found({80: nan, 81: nan}, {79: nan, 80: nan}) == 79
    assert found({78: 500.0, 79: 9e5, 80: nan}, {}) == 78


def test_an_outlier_is_one_beside_its_neighbours_while_the_loss_falls(traindeck_home: Path) -> None:
    run = RecordedRun()
    noise = np.random.default_rng(1).normal(size=240)
    with closing(run.store):
        run.begin()
        for step in range(1, 240):
            value = 5 * 0.98**step * math.exp(0.1 * noise[step])
            run.add_points("train/loss", [step], 2.0 * value if step == 207 else value)
        with RunReader(run.folder) as reader:
            assert suspicious_step(reader) == 207


@pytest.mark.parametrize(
    ("spikes", "step"), [({12: 92.0, 13: 60.0, 105: 2.0}, 12), ({105: 2.0}, 105)]
)
def test_a_spike_of_the_first_steps_is_one(
    traindeck_home: Path, spikes: dict[int, float], step: int
) -> None:
    run = RecordedRun()
    noise = np.random.default_rng(1).normal(size=190)
    with closing(run.store):
        run.begin()
        for each in range(1, 189):
            usual = 2.3 * 0.98**each * math.exp(0.1 * noise[each])
            run.add_points("train/loss", [each], spikes.get(each, usual))
        with RunReader(run.folder) as reader:
            assert suspicious_step(reader) == step


@needs_processes
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("recipe", "strategy", "devices"),
    [
        ("digits", "torch/ddp", 2),
        ("digits", "torch/fsdp", 2),
        ("digits", "torch/pipeline", 2),
        ("digits_keras", "torch/keras_ddp", 2),
        ("digits_keras", "tf/single", 1),
        ("digits_keras", "tf/mirrored", 2),
    ],
)
@pytest.mark.parametrize("step", [17, 5])
def test_each_strategy_trains_its_steps_again_bit_for_bit(
    recipe: str, strategy: str, devices: int, step: int
) -> None:
    info = own_copy(trained(spec(recipe, strategy, devices, **WITH_CHECKPOINTS)))
    found = replay(info.id, step)
    assert (found.equal, found.difference) == (step - found.begin, None)
    assert found.begin == (10 if step == 17 else 0)


@needs_processes
@pytest.mark.nightly
def test_averaged_weights_accumulation_and_a_restart_between_are_replayed() -> None:
    """In its second attempt, the run trains the steps since its checkpoint again."""
    wanted = spec(
        "probe_steps",
        "torch/ddp",
        2,
        batch_size=8,
        epochs=400,
        accumulation=2,
        checkpoint_steps=10,
        keep_checkpoints=1000,
        max_restarts=1,
        settings={"dropout": 0.2},
        gradient_norm=True,
    )
    run = client.start(wanted)
    wait_for_event(run, TrainingStarted)
    info = wait_for(run, lambda info: info.status.step > 40)
    os.kill(info.status.worker_pids[1], signal.SIGKILL)
    wait_for_event(run, Restarting)
    wait_for(run, lambda info: info.status.attempt == 2 and info.status.step > 80)
    found = replay(run, 78)  # while it trains
    assert (found.begin, found.equal, found.difference) == (70, 8, None)
    client.send(run, client.Stop(now=True))
    assert wait_for_end(run).state is RunState.STOPPED
