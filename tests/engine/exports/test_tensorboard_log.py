import math
import struct
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from engine.exports.run_source import settings_of
from engine.exports.tensorboard_events import METRIC_DIRECTIONS
from engine.exports.tensorboard_live import TensorBoardFollower, log_folder
from engine.exports.tensorboard_log import POSITION_FILE, TensorBoardLog
from engine.messages.events import (
    HistogramLogged,
    ImageLogged,
    Metrics,
    Points,
    Rewound,
    RunEnded,
    TrainingStarted,
)
from engine.runs import run_info
from engine.runs.store.store_reader import RunReader
from engine.spec.run_spec import RunSpec
from tests.support.recorded_runs import BEGIN, SPEC, RecordedRun

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 4, 3) + b"the rest"


@pytest.fixture(autouse=True, scope="module")
def _without_tensorflow():
    """TensorBoard would import TensorFlow, which takes seconds, if nothing tells it not to."""
    name = "tensorboard.compat.notf"
    sys.modules[name] = types.ModuleType(name)
    yield
    del sys.modules[name]


def accumulated(folder: Path) -> Any:
    """What TensorBoard itself reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(
        str(folder), size_guidance=dict.fromkeys(("scalars", "images", "histograms"), 0)
    )
    return found.Reload()


def scalars(folder: Path, tag: str) -> list[tuple[int, float, float]]:
    return [(e.step, e.wall_time, e.value) for e in accumulated(folder).Scalars(tag)]


def log_of(run: RecordedRun, folder: Path) -> TensorBoardLog:
    return TensorBoardLog(folder, run.folder, settings_of(SPEC))


def test_tensorboard_reads_points_with_their_steps_and_times(tmp_path):
    run = RecordedRun()
    run.begin()
    points = Points("train/loss", [1, 2, 7], [0.5, -2.0, math.inf], [BEGIN, BEGIN + 0.1, BEGIN + 9])
    run.add(Metrics(BEGIN, BEGIN + 9, [points]))
    with RunReader(run.folder) as reader, log_of(run, tmp_path / "log") as log:
        assert log.catch_up(reader) == 3
    assert scalars(tmp_path / "log", "train/loss") == [
        (1, BEGIN, 0.5),
        (2, BEGIN + 0.1, -2.0),
        (7, BEGIN + 9, math.inf),
    ]


def test_tensorboard_shows_which_way_metrics_are_better_as_a_text(tmp_path):
    run = RecordedRun()
    directions = {"mae": "min", "a: b": "max"}
    run.add(TrainingStarted(0, 10, 2, 1, parameters=650, metric_directions=directions))
    run.add_points("validation/mae", [0.5])
    with RunReader(run.folder) as reader, log_of(run, tmp_path / "log") as log:
        log.catch_up(reader)
    found = accumulated(tmp_path / "log")
    (event,) = found.Tensors(METRIC_DIRECTIONS)
    assert event.tensor_proto.string_val == [b"a: b: max\nmae: min"]
    assert METRIC_DIRECTIONS in found.PluginTagToContent("text")


def test_tensorboard_reads_images_histograms_and_settings(tmp_path):
    from tensorboard.plugins.hparams import plugin_data_pb2

    run = RecordedRun()
    run.begin()
    (run.folder / "media").mkdir()
    (run.folder / "media" / "a.png").write_bytes(PNG)
    run.add(
        ImageLogged("samples", 3, "media/a.png", 4, 3),
        ImageLogged("elsewhere", 3, "../../spec.toml", 4, 3),
        HistogramLogged("weights", 5, [-1.0, 0.0, 2.0], [3.0, 4.0]),
    )
    with RunReader(run.folder) as reader, log_of(run, tmp_path / "log") as log:
        log.catch_up(reader)
    found = accumulated(tmp_path / "log")
    (image,) = found.Images("samples")
    assert (image.encoded_image_string, image.width, image.height) == (PNG, 4, 3)
    assert found.Tags()["images"] == ["samples"]  # a file outside of the folder is not read
    (histogram,) = found.Histograms("weights")
    value = histogram.histogram_value
    assert (value.num, value.min, value.max, value.sum) == (7, -1, 2, 2.5)
    content = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert start.hparams["batch_size"].number_value == SPEC.batch_size
    assert start.hparams["compile"].bool_value is False
    assert start.hparams["optimizer"].string_value == "recipe"


def test_a_log_grows_with_its_run_and_readers_follow(tmp_path):
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", [1, 2])
    with RunReader(run.folder) as reader, log_of(run, tmp_path) as log:
        log.catch_up(reader)
        follower = accumulated(tmp_path)
        assert len(follower.Scalars("train/loss")) == 2
        run.add_points("train/loss", [3])
        assert log.catch_up(reader) == 1
        assert log.catch_up(reader) == 0
    assert [each.step for each in follower.Reload().Scalars("train/loss")] == [1, 2, 3]


def test_a_rewind_takes_points_images_and_histograms_back(tmp_path):
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", range(1, 9), 1.0)
    run.add_points("validation/loss", [4, 8], 1.0)
    run.add(*(HistogramLogged("w", step, [0.0, 1.0], [1.0]) for step in (2, 4, 8)))
    with RunReader(run.folder) as reader, log_of(run, tmp_path) as log:
        log.catch_up(reader)
        follower = accumulated(tmp_path)
        run.store.rewind(4)
        run.add(Rewound(4, "step-4"))
        run.add_points("train/loss", range(5, 7), 2.0)
        log.catch_up(reader)
    follower.Reload()
    values = [(each.step, each.value) for each in follower.Scalars("train/loss")]
    assert values == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0), (5, 2.0), (6, 2.0)]
    assert [each.step for each in follower.Scalars("validation/loss")] == [4]
    assert [each.step for each in follower.Histograms("w")] == [2, 4]


def test_a_log_whose_writer_was_killed_goes_on_without_gap_and_without_doubles(tmp_path):
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", range(1, 5))

    def write_on() -> None:
        with RunReader(run.folder) as reader, log_of(run, tmp_path) as log:
            log.catch_up(reader)

    write_on()
    position = (tmp_path / POSITION_FILE).read_bytes()
    run.add_points("train/loss", range(5, 8))
    run.add(HistogramLogged("w", 5, [0.0, 1.0], [1.0]))
    write_on()
    (tmp_path / POSITION_FILE).write_bytes(position)  # killed before it was written
    run.add_points("train/loss", range(8, 10))
    write_on()
    assert [step for step, _, _ in scalars(tmp_path, "train/loss")] == list(range(1, 10))
    assert [each.step for each in accumulated(tmp_path).Histograms("w")] == [5]
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 3


def test_the_follower_of_a_run_writes_the_rest_when_it_ends():
    run = RecordedRun()
    run.begin()
    run.add_points("train/loss", [1, 2])
    info = run_info.get_run(run.id)
    told: list[str] = []
    follower = TensorBoardFollower(info, told.append)
    run.add_points("train/loss", [3])
    run.add(RunEnded("finished", "Done."))
    assert follower.close(20)
    assert [step for step, _, _ in scalars(run.folder / "tensorboard", "train/loss")] == [1, 2, 3]
    assert not told


def test_a_folder_that_cannot_be_written_is_told_and_the_run_goes_on(tmp_path):
    (tmp_path / "file").write_text("in the place of a folder")
    run = RecordedRun(_with_folder(tmp_path / "file"))
    run.begin()
    told: list[str] = []
    follower = TensorBoardFollower(run_info.get_run(run.id), told.append)
    assert not follower.close(20)
    assert len(told) == 1
    assert str(tmp_path / "file") in told[0]


def test_runs_with_the_same_number_and_name_share_no_folder(tmp_path):
    run = RecordedRun(_with_folder(tmp_path))
    info = run_info.get_run(run.id)
    first = log_folder(info)
    assert first.parent == tmp_path
    run.begin()
    run.add_points("train/loss", [1])
    with RunReader(run.folder) as reader, TensorBoardLog(first, run.folder, {}) as log:
        log.catch_up(reader)
    assert log_folder(info) == first
    assert log_folder(info._replace(folder=tmp_path / "other")) == first.with_name(
        f"{first.name}-2"
    )


def _with_folder(folder: Path) -> RunSpec:
    return RunSpec(
        recipe="digits",
        strategy="torch/single",
        devices=("cpu:0",),
        tensorboard=True,
        tensorboard_folder=str(folder),
    )
