"""Tables and settings: what other programs read of an export."""

from __future__ import annotations

import csv
import math
import struct
from pathlib import Path

import pytest

from engine.exports.export_runs import CannotExport, Format, export, proposed_name, refusal
from engine.exports.run_source import settings_of
from engine.messages.events import ImageLogged, Metrics, Points, RunEnded
from engine.runs import run_info
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import RunNotes, write_notes
from engine.spec.run_spec import RunSpec
from tests.support.recorded_runs import BEGIN, SPEC, RecordedRun
from tests.support.sentences import sentence

BAD = '../x <script>alert(1)</script> "q",\n\té'
VALUES = [1 / 3, math.nan, math.inf, -math.inf, 5e-324, 1e300]


def a_run(name: str = BAD, values: list[float] = VALUES) -> RunInfo:
    run = RecordedRun()
    run.begin()
    times = [BEGIN + place / 7 for place in range(len(values))]
    steps = list(range(1, len(values) + 1))
    run.add(
        Metrics(BEGIN, BEGIN, [Points("train/loss", steps, values, times)]),
        Metrics(BEGIN, BEGIN, [Points("=cmd()|x", [2], [0.5], [BEGIN + 1])]),
        RunEnded("finished", "Done."),
    )
    run.store.close()
    write_notes(run.folder, RunNotes(name=name, tags=("@a", "b"), note="=1+1\n"))
    return run_info.get_run(run.id)


def same(found: list[float], expected: list[float]) -> bool:
    """Whether all bits are the same, but that one NaN is like another."""
    return [struct.pack("<d", math.nan if value != value else value) for value in found] == [
        struct.pack("<d", math.nan if value != value else value) for value in expected
    ]


def test_parquet_holds_every_point_with_its_type(tmp_path: Path) -> None:
    from pyarrow import parquet

    runs = [a_run(), a_run("other", [0.25])]
    done = export(runs, Format.PARQUET, tmp_path / "out")
    points = parquet.read_table(done.path / "points.parquet")
    assert [str(field.type) for field in points.schema][2:] == ["int64", "double", "double"]
    assert points.num_rows == done.points == len(VALUES) + 3
    own = [
        row
        for row in points.to_pylist()
        if row["run"] == runs[0].id and row["series"] == "train/loss"
    ]
    assert [row["step"] for row in own] == list(range(1, len(VALUES) + 1))
    assert same([row["value"] for row in own], VALUES)
    assert own[1]["unix_time"] == BEGIN + 1 / 7
    first, second = parquet.read_table(done.path / "runs.parquet").to_pylist()
    assert (first["name"], second["name"]) == (BAD, "other")
    assert first["setting.batch_size"] == 128
    assert second["last.train/loss"] == 0.25


def test_without_pyarrow_parquet_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    info = a_run()
    monkeypatch.setattr("engine.exports.parquet_files.PACKAGE", "no_such_package")
    assert "pip install no_such_package" in refusal([info], Format.PARQUET)
    assert not refusal([info], Format.CSV)


def test_a_spreadsheet_computes_nothing_of_a_csv(tmp_path: Path) -> None:
    done = export([a_run("=cmd()")], Format.CSV, tmp_path / "out")
    for name in ("points.csv", "runs.csv"):
        with (done.path / name).open(newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        texts = [cell for cell in cells if cell not in ("-inf", "")]
        assert not [cell for cell in texts if cell.startswith(("=", "@", "+", "-", "\t"))]
    assert "'=cmd()|x" in (done.path / "points.csv").read_text("utf-8")


def test_no_name_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    done = export([a_run("../../x/../y\\z")], Format.TENSORBOARD, tmp_path / "in" / "out")
    assert {path.name for path in tmp_path.iterdir()} - {"home"} == {"in"}
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["out"]
    assert all(path.resolve().is_relative_to(done.path) for path in done.path.rglob("*"))


def test_settings_of_the_machine_are_no_hyperparameters() -> None:
    found = settings_of(SPEC)
    assert {"batch_size", "learning_rate", "seed", "optimizer", "precision"} <= found.keys()
    assert not found.keys() & {"queue", "keep_awake", "cold_start", "stop_seconds", "tensorboard"}
    script = RunSpec(recipe="a.py", strategy="script/single", devices=(), command=("a.py",))
    assert "batch_size" not in settings_of(script)


def test_an_image_that_is_left_out_is_named(tmp_path: Path) -> None:
    run = RecordedRun()
    run.begin()
    run.add(
        ImageLogged("faces", 3, "../../spec.toml", 4, 3),
        ImageLogged("gone", 3, "media/gone.png", 4, 3),
        RunEnded("finished", "Done."),
    )
    run.store.close()
    done = export([run_info.get_run(run.id)], Format.TENSORBOARD, tmp_path / "out")
    outside, gone = done.remarks
    assert "'faces'" in outside
    assert sentence("not-in-folder-of-images") in outside
    assert "'gone'" in gone


def test_a_damaged_run_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    info, sound = a_run(), a_run("sound")
    store = info.folder / "run.sqlite"
    for path in info.folder.glob("run.sqlite*"):
        path.unlink()
    store.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    for format in (Format.CSV, Format.HTML, Format.TENSORBOARD):
        with pytest.raises(CannotExport, match="cannot be read"):
            export([info], format, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} <= {"home"}
    store.write_bytes(b"")  # as while its supervisor starts
    for format in (Format.CSV, Format.HTML, Format.TENSORBOARD):
        done = export([info, sound], format, tmp_path / f"out-{format}")
        assert (done.runs, done.points) == (1, len(VALUES) + 1)
        assert f"Run {info.id} cannot be read" in done.remarks[0]


def test_the_name_of_a_run_elsewhere_is_a_file_name_on_every_system() -> None:
    info = a_run("mine")._replace(id="gpus:7")
    assert proposed_name([info], Format.CSV) == "traindeck-gpus-7-mine-csv"
