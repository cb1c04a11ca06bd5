"""What the events of a TensorBoard log become: tensors, steps, times, and starts of sessions."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.compat.proto import types_pb2
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from engine.exports.tensorboard_events import (
    first_event,
    histogram_event,
    purge_event,
    scalar_event,
)
from engine.imports.import_runs import import_runs
from engine.system import paths
from main import main
from tests.engine.imports.test_csv_tables import Point, points
from tests.engine.scripts.test_secrets import HUSH
from tests.support.recorded_runs import BEGIN

HALF, BFLOAT = types_pb2.DT_HALF, types_pb2.DT_BFLOAT16


def write_log(folder: Path, *files: Iterable[Event], suffix: str = ".box") -> Path:
    """Write an event file of each sequence of events."""
    folder.mkdir(exist_ok=True)
    for number, events in enumerate(files):
        with (folder / f"events.out.tfevents.{number}{suffix}").open("wb") as file:
            writer = RecordWriter(file)
            for event in [first_event(BEGIN), *events]:
                writer.write(event.SerializeToString())
    return folder


def losses(*steps: int, value: float = 0.5) -> list[Event]:
    return [scalar_event("loss", step, BEGIN + step, value) for step in steps]


def steps_of(found: dict[str, list[Point]], series: str = "loss") -> list[int]:
    return [step for step, _, _ in found[series]]


@pytest.mark.parametrize(
    ("dtype", "fields", "expected"),
    [
        (types_pb2.DT_INT32, {"int_val": [-3]}, -3.0),
        (types_pb2.DT_INT64, {"int64_val": [2**40]}, 2.0**40),
        (types_pb2.DT_UINT8, {"int_val": [200]}, 200.0),
        (types_pb2.DT_UINT8, {"tensor_content": b"\xc8"}, 200.0),
        (types_pb2.DT_INT16, {"tensor_content": struct.pack("<h", -7)}, -7.0),
        (types_pb2.DT_UINT64, {"uint64_val": [2**63]}, 2.0**63),
        (types_pb2.DT_BOOL, {"bool_val": [True]}, 1.0),
        (types_pb2.DT_BOOL, {"tensor_content": b"\1"}, 1.0),
        (HALF, {"half_val": [0x3800]}, 0.5),
        (HALF, {"tensor_content": struct.pack("<e", 0.25)}, 0.25),
        (BFLOAT, {"half_val": [0xBF00]}, -0.5),
        (BFLOAT, {"tensor_content": b"\x80\x3e"}, 0.25),
    ],
)
def test_a_scalar_of_each_type_is_a_point(
    dtype: Any, fields: dict[str, Any], expected: float, tmp_path: Path
) -> None:
    value = Summary.Value(tag="it", tensor=TensorProto(dtype=dtype, **fields))
    events = [Event(wall_time=BEGIN, step=3, summary=Summary(value=[value]))]
    done = import_runs([write_log(tmp_path / "log", events)])
    assert points(done.run_ids[0]) == {"it": [(3, BEGIN, expected)]}
    assert not done.remarks


def test_what_cannot_be_drawn_is_left_out_and_counted(tmp_path: Path) -> None:
    events = [
        *losses(-1, 4, 2**53 + 2, 1_760_000_000_000_000_000),
        histogram_event("w", -1, BEGIN, [0.0, 1.0], [3.0]),
    ]
    done = import_runs([write_log(tmp_path / "log", events)])
    assert steps_of(points(done.run_ids[0])) == [4]
    assert "4 left out with a step below 0 or above 2^53" in done.remarks[0]
    assert "loss (3), w (1)" in done.remarks[0]


def test_one_bad_log_of_three_is_named(tmp_path: Path) -> None:
    for name, steps in {"a": (1, 2), "b": (-1,), "c": (1,)}.items():
        write_log(tmp_path / name, losses(*steps))
    done = import_runs([tmp_path])
    assert [steps_of(points(each)) for each in done.run_ids] == [[1, 2], [1]]
    assert f"{tmp_path / 'b'} holds no points" in done.remarks[0]


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6, 1e9])
def test_wall_times_may_be_in_any_unit(unit: float, tmp_path: Path) -> None:
    events = [scalar_event("loss", step, (BEGIN + step) * unit, 0.5) for step in (1, 2)]
    (new,) = import_runs([write_log(tmp_path / "log", events)]).run_ids
    assert [time for _, time, _ in points(new)["loss"]] == [BEGIN + 1, BEGIN + 2]


def test_wall_times_that_are_no_dates_become_that_of_the_file(tmp_path: Path) -> None:
    events = [
        scalar_event("loss", step, time, 1) for step, time in enumerate((1e300, float("nan"), 12.5))
    ]
    log = write_log(tmp_path / "log", events)
    written = next(log.iterdir()).stat().st_mtime
    done = import_runs([log])
    assert [time for _, time, _ in points(done.run_ids[0])["loss"]] == [written] * 3
    assert len(done.remarks) == 1


def test_points_before_the_first_start_of_a_session_are_kept(tmp_path: Path) -> None:
    events = [*losses(0, 1, 2), purge_event(BEGIN, 0), *losses(3, 4)]
    done = import_runs([write_log(tmp_path / "log", events)])
    assert steps_of(points(done.run_ids[0])) == [0, 1, 2, 3, 4]


def test_a_later_session_replaces_the_steps_of_an_earlier_one_and_says_so(tmp_path: Path) -> None:
    first = [purge_event(BEGIN, 0), *losses(1, 2, 3)]
    second = [purge_event(BEGIN, 2), *losses(2, 3, 4, value=0.25)]
    for name, files in {"two": (first, second), "one": ([*first, *second],)}.items():
        done = import_runs([write_log(tmp_path / name, *files)])
        found = points(done.run_ids[0])["loss"]
        assert [(step, value) for step, _, value in found] == [
            (1, 0.5),
            (2, 0.25),
            (3, 0.25),
            (4, 0.25),
        ]
        assert "2 left out with a step that a later session trained again" in done.remarks[0]


def test_a_resumed_log_without_starts_has_each_step_once(tmp_path: Path) -> None:
    late = [scalar_event("loss", step, BEGIN + 100 + step, 0.25) for step in (3, 4, 5)]
    first = [
        *losses(1, 2, 3, 4),
        *(scalar_event("validation", step, BEGIN + 4, 0.5) for step in (2, 4)),
        scalar_event("gone", 4, BEGIN + 4, 0.5),
        *(histogram_event("w", step, BEGIN + 4, [0.0, 1.0], [3.0]) for step in (2, 3)),
    ]
    later = [scalar_event("validation", 4, BEGIN + 200, 0.25)]
    done = import_runs([write_log(tmp_path / "log", first, late, later)])
    found = points(done.run_ids[0])
    assert [(s, v) for s, _, v in found["loss"]] == list(enumerate((0.5, 0.5, *[0.25] * 3), 1))
    assert [value for _, _, value in found["validation"]] == [0.5, 0.25]
    assert "5 left out with a step that a later file trained again: loss (2)" in done.remarks[0]
    assert all(f"{name} (1)" in done.remarks[0] for name in ("validation", "gone", "w"))


def test_two_programs_that_write_at_the_same_time_keep_their_points(tmp_path: Path) -> None:
    done = import_runs([write_log(tmp_path / "log", losses(1, 2, 3), losses(1, 2, value=0.25))])
    assert steps_of(points(done.run_ids[0])) == [1, 1, 2, 2, 3]
    assert "the same steps, kept of all: loss." in done.remarks[0]
    apart = [losses(1, 2), [scalar_event("other", 1, BEGIN, 0.5)]]
    assert not import_runs([write_log(tmp_path / "apart", *apart)]).remarks


def test_a_file_of_ours_may_drop_its_own_points(tmp_path: Path) -> None:
    events = [*losses(1, 2, 3), purge_event(BEGIN, 2), *losses(2, value=0.25)]
    done = import_runs([write_log(tmp_path / "log", events, suffix=".traindeck")])
    assert [value for _, _, value in points(done.run_ids[0])["loss"]] == [0.5, 0.25]
    assert not done.remarks


def test_settings_that_hold_a_secret_are_stored_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hparams = {"api_key": f"sk-{HUSH}", "db": f"redis://u:{HUSH}@h/0", "lr": 0.25, "tokenizer": "b"}
    summary = hparams_pb({**hparams, "db.password": 31337_4242})
    log = write_log(tmp_path / "log", [Event(wall_time=BEGIN, summary=summary), *losses(1)])
    done = import_runs([log])
    (new,) = done.run_ids
    assert "a secret, stored without it: api_key, db, db.password." in done.remarks[0]
    assert main(["show", new]) == main(["show", new, "--json"]) == 0
    assert main(["export", new, "--format", "html", "-o", str(tmp_path / "page.html")]) == 0
    spec, page = paths.run_folder(new) / "spec.toml", tmp_path / "page.html"
    for text in (capsys.readouterr().out, spec.read_text(), page.read_text()):
        assert not [each for each in (HUSH, "313374242") if each in text]
        assert all(each in text for each in ("0.25", "redis://u:***@h/0"))
