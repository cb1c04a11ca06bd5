import io
import math
import re
import shutil
import struct
from pathlib import Path

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from engine import client
from engine.client import CannotStart
from engine.exports.export_runs import Format, export
from engine.exports.run_source import RunSource, media
from engine.exports.tensorboard_events import first_event, scalar_event
from engine.imports.csv_tables import ColumnNames, read_header
from engine.imports.found_run import CannotImport
from engine.imports.import_runs import import_runs
from engine.messages.events import (
    AttemptStarted,
    HistogramLogged,
    ImageLogged,
    Metrics,
    Points,
    RunEnded,
)
from engine.processes.machine import this_machine
from engine.repair.report import Report
from engine.repair.run_check import check_run
from engine.runs import run_info, trash
from engine.runs.run_index import RunIndex
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.run_state import RunState
from engine.runs.table.columns import columns_of
from engine.system import paths
from gui.compare.differences import figure_rows, setting_rows
from main import main
from tests.support.recorded_runs import BEGIN, RecordedRun, record_epochs
from tests.support.sentences import sentence

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 4, 3) + b"the rest"
VALUES = [1 / 3, math.nan, math.inf, -math.inf, 1e300, 5e-324, -0.1, 2.0**-140]
"""What a 32-bit float, or a text of a few digits, does not hold."""


def points_of(source: RunSource, series: str) -> list[tuple[int, float, float]]:
    """Step, time and value of each point, as they are stored."""
    assert source.reader is not None
    return [
        (int(step), float(time), float(value))
        for batch in source.reader.batches(series)
        for step, time, value in zip(batch.step, batch.time, batch.value, strict=True)
    ]


def bits(run_id: str) -> dict[str, list[bytes]]:
    with RunSource(run_info.get_run(run_id)) as source:
        return {
            name: [struct.pack("<qdd", *point) for point in points_of(source, name)]
            for name in source.counts()
        }


def a_run(name: str = "<script>alert(1)</script> ../é") -> RecordedRun:
    run = RecordedRun()
    run.begin()
    times = [BEGIN + place / 7 for place in range(len(VALUES))]
    run.add(
        Metrics(BEGIN, BEGIN, [Points("train/loss", list(range(1, 9)), VALUES, times)]),
        Metrics(BEGIN, BEGIN, [Points('a/é, "quoted"', [3, 3], [0.1, 0.2], times[:2])]),
    )
    write_notes(run.folder, RunNotes(name=name, tags=("x", "y"), note="two\nlines"))
    run.add(RunEnded("finished", "Done."))
    run.store.close()
    return run


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("format", [Format.CSV, Format.TENSORBOARD])
def test_what_was_exported_comes_back_bit_for_bit(format, tmp_path):
    run = a_run()
    export([run_info.get_run(run.id)], format, tmp_path / "out")
    found = import_runs([tmp_path / "out"])
    (new,) = found.run_ids
    assert bits(new) == bits(run.id)
    assert found.points == 10
    info = run_info.get_run(new)
    assert info.spec.settings["batch_size"] == 128
    assert info.state is RunState.FINISHED
    assert info.spec.is_imported
    assert "Imported from" in info.reason


def test_images_and_histograms_of_a_log_come_back(tmp_path):
    histograms = [
        HistogramLogged("weights", 5, [-1.0, 0.0, 2.0], [3.0, 4.0]),
        HistogramLogged("open", 5, [-math.inf, 0.0, math.inf], [3.0, 4.0]),
        HistogramLogged("wide", 5, [-1e308, 1e308, 1.5e308], [1e308, 1e308]),
    ]
    a_run()
    run = RecordedRun()
    run.begin()
    (run.folder / "media").mkdir()
    (run.folder / "media" / "a.png").write_bytes(PNG)
    run.add(
        ImageLogged("samples", 3, "media/a.png", 4, 3),
        *histograms,
    )
    run.add_points("loss", [1])
    export([run_info.get_run(run.id)], Format.TENSORBOARD, tmp_path / "out")
    (new,) = import_runs([tmp_path / "out"]).run_ids
    with RunSource(run_info.get_run(new)) as source:
        found = [each.event for each in media(source.events())]
    (image,) = (each for each in found if isinstance(each, ImageLogged))
    assert (paths.run_folder(new) / image.file).read_bytes() == PNG
    assert (image.series, image.step, image.width, image.height) == ("samples", 3, 4, 3)
    assert [each for each in found if each is not image] == histograms


@pytest.mark.parametrize("name", ["<script>alert(1)</script> ../é", "=HYPERLINK(1)", "'quoted"])
def test_name_tags_and_note_come_back_from_our_csv(name, tmp_path):
    run = a_run(name)
    export([run_info.get_run(run.id)], Format.CSV, tmp_path / "out")
    (new,) = import_runs([tmp_path / "out" / "points.csv"]).run_ids
    info = run_info.get_run(new)
    assert info.name == name
    assert (info.notes.tags, info.notes.note) == (("x", "y"), "two\nlines")


@pytest.mark.parametrize("format", [Format.CSV, Format.TENSORBOARD])
def test_an_imported_run_has_the_settings_and_directions_of_its_file_alone(
    format, tmp_path, capsys
):
    record_epochs(
        "finished",
        (0.5, 0.25),
        learning_rate=0.003,
        settings={"width": 3},
        metric_directions={"loss": "max"},
    )
    export([run_info.get_run("1")], format, tmp_path / "out")
    foreign = write(tmp_path / "mine.csv", "step,validation/loss\n1,0.5\n2,0.25\n")
    table = tmp_path / "out" / "points.csv"
    import_runs([table if format is Format.CSV else tmp_path / "out"])
    import_runs([foreign])
    infos = sorted(RunIndex().runs(), key=lambda info: int(info.id))
    columns = columns_of(infos)
    read = {name: [columns[name].read(info) for info in infos] for name in columns}
    assert read["learning_rate"] == [0.003, 0.003, None]
    assert read["batch_size"] == [128, 128, None]
    assert read["optimizer"] == ["recipe", "recipe", None]
    assert read["settings/width"] == [3, 3, None]
    assert "settings/learning_rate" not in read
    assert read["best(validation/loss)"] == [0.5, 0.5, 0.25]
    assert main(["show", "3"]) == 0
    shown = capsys.readouterr().out
    assert "batch size" not in shown
    assert " of 0" not in shown
    assert "of 5" not in shown
    assert main(["runs"]) == 0
    assert "/5" in capsys.readouterr().out.splitlines()[-1]  # of the run that was trained here
    rows = {row.label: row.values for row in setting_rows(infos)}
    assert rows["Learning rate"] == ("0.003", "0.003", "–")
    assert figure_rows(infos, {})[1].values[2] == "–"


def test_an_imported_run_is_compared_checked_deleted_and_never_resumed(tmp_path):
    table = write(tmp_path / "mine.csv", "epoch,loss,who\n1,0.5,me\n2,0.25,me\n")
    done = import_runs([table])
    (new,) = done.run_ids
    assert done.remarks == [sentence("mine-these-columns-hold-no-numbers")]
    with pytest.raises(CannotStart, match=sentence("never-trained-here").pattern):
        client.resume(new)
    with pytest.raises(CannotStart, match="never trained here"):
        client.resume_as_new(new)
    with pytest.raises(CannotStart, match="cannot be trained"):
        client.start(run_info.get_run(new).spec)
    info = run_info.get_run(new)
    assert not info.can_continue
    assert info.title == f"mine · csv · #{new}"
    report = Report(repair=False)
    check_run(new, report)
    assert not report.findings
    trash.delete(new)
    trash.restore(new)
    assert bits(new)["loss"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "which column is the step"),
        ("step,loss\nx,1\n", sentence("line-step-step-must-be-whole").pattern),
        ("step,loss\n1.5,1\n", "not '1.5'"),
        ("step,loss\n-1,1\n", "1 left out with a step below 0"),
        ("step,loss\n1,1,1\n", "line 2: it has 3 cells"),
        ("step,loss\n1,1\n2,abc\n", sentence("value-of-column-is-no-number").pattern),
        ("step,loss\n1,\n", "holds no points"),
        ("step,loss,loss\n1,1,1\n", "two columns 'loss'"),
        ("step,loss,time\n1,1,noon\n", "'noon' is no time"),
        ("step\n1\n", "one column only"),
        ('step,loss\n1,"2\n', "it is no CSV"),
        ("series,value,step\n,1,1\n", sentence("name-of-series-is-empty").pattern),
        (f"step,loss\n{10**17},1\n", r"above 2\^53"),
    ],
)
def test_a_bad_table_is_refused_with_its_line_and_leaves_nothing(text, message, tmp_path):
    bad = write(tmp_path / "bad.csv", text)
    with pytest.raises(CannotImport, match=message):
        import_runs([bad])
    assert not list(paths.runs_folder().glob("*"))


def test_of_a_folder_all_bad_tables_are_named_at_once(tmp_path):
    for number in range(12):
        write(tmp_path / f"bad-{number:02}.csv", "step,loss\n1,abc\n")
    named = r"bad-00.*bad-09.* 2 more of these files"
    with pytest.raises(CannotImport, match=named) as caught:
        import_runs([tmp_path])
    assert "bad-10" not in str(caught.value)
    assert not paths.run_ids()
    write(tmp_path / "good.csv", "step,loss\n1,1\n")
    done = import_runs([tmp_path])
    assert [run_info.get_run(each).name for each in done.run_ids] == ["good"]
    assert re.search(named, done.remarks[0])


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"step,loss\n1,\xff\xfe\n")
    with pytest.raises(CannotImport, match="no text in UTF-8"):
        import_runs([tmp_path / "a.csv"])
    for name in ("nothing", "a.bin"):
        (tmp_path / "a.bin").write_bytes(b"?")
        with pytest.raises(CannotImport, match=r"no file or folder|neither"):
            import_runs([tmp_path / name])


def test_a_cancelled_import_leaves_nothing(tmp_path):
    table = write(tmp_path / "a.csv", "step,loss\n1,1\n")

    def progress(what: str, done: int, total: int) -> None:
        if not what:  # it is being stored
            raise InterruptedError("cancelled")

    with pytest.raises(CannotImport):
        import_runs([table], progress=progress)
    assert not list(paths.runs_folder().glob("*"))


def test_downloads_of_tensorboard_are_one_run(tmp_path):
    one = write(tmp_path / "run-exp_1-tag-loss.csv", "Wall time,Step,Value\n1700000000.5,3,0.25\n")
    two = write(tmp_path / "run-exp_1-tag-acc.csv", "Wall time,Step,Value\n1700000001,3,nan\n")
    (new,) = import_runs([one, two]).run_ids
    assert run_info.get_run(new).name == "exp_1"
    assert bits(new)["loss"] == [struct.pack("<qdd", 3, 1700000000.5, 0.25)]
    assert set(bits(new)) == {"loss", "acc"}


def test_a_download_of_wandb_has_its_runs(tmp_path):
    text = (
        '"Step","a-1 - train/loss","a-1 - train/loss__MIN","a-1 - train/loss__MAX","b - x - y"\n'
        '0,1.5,1,2,\n5,,,,"2"\n'
    )
    table = write(tmp_path / "wandb_export.csv", text)
    assert read_header(table).is_certain
    done = import_runs([table])
    names = {run_info.get_run(each).name: set(bits(each)) for each in done.run_ids}
    assert names == {"a-1": {"train/loss"}, "b - x": {"y"}}
    assert any("__MIN" in text for text in done.remarks)


def test_columns_can_be_named_and_commas_be_decimal(tmp_path):
    table = write(tmp_path / "t.csv", "n;Verlust;wann\n1;0,5;2026-01-31 14:02:11\n2;0,25;\n")
    with pytest.raises(CannotImport, match=sentence("no-column-zz-columns-are-n").pattern):
        import_runs([table], ColumnNames(step="zz"))
    (new,) = import_runs([table], ColumnNames(step="n", time="wann")).run_ids
    with RunSource(run_info.get_run(new)) as source:
        points = points_of(source, "Verlust")
    assert [(step, value) for step, _, value in points] == [(1, 0.5), (2, 0.25)]
    assert points[1][1] == table.stat().st_mtime


def test_a_log_that_is_cut_or_damaged_gives_what_is_whole(tmp_path):
    file = io.BytesIO()
    writer = RecordWriter(file)
    for event in [first_event(BEGIN), *(scalar_event("loss", n, BEGIN, 0.1) for n in range(1, 4))]:
        writer.write(event.SerializeToString())
    data = file.getvalue()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "c").mkdir()
    (tmp_path / "a" / "events.out.tfevents.1").write_bytes(data[:-3])
    damaged = bytearray(data)
    damaged[-20] ^= 1
    (tmp_path / "b" / "events.out.tfevents.1").write_bytes(damaged)
    writer.write(b"no event")
    (tmp_path / "c" / "events.out.tfevents.1").write_bytes(file.getvalue())
    done = import_runs([tmp_path])
    assert [len(bits(each)["loss"]) for each in done.run_ids] == [2, 2, 3]
    assert [run_info.get_run(each).name for each in done.run_ids] == ["a", "b", "c"]
    assert "ends within a record" in done.remarks[0]
    assert "wrong checksum" in done.remarks[1]
    assert f"the record at byte {len(data):,} is no event" in done.remarks[2]


def test_a_folder_without_logs_is_refused(tmp_path):
    with pytest.raises(CannotImport, match=sentence("neither-tensorboard-event-files").pattern):
        import_runs([tmp_path])
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\0" * 500)
    with pytest.raises(CannotImport, match="holds no points"):
        import_runs([tmp_path])
    shutil.rmtree(tmp_path)


def test_a_run_with_times_that_no_calendar_has_fails_no_command(tmp_path, capsys):
    run = RecordedRun()
    begin = 1.76e18  # nanoseconds, as an older version imported them
    run.store.append(AttemptStarted(1, 0, 0.0, this_machine()), begin)
    run.store.append(Metrics(begin, begin + 1e9, [Points("loss", [1], [0.5], [begin])]), begin)
    run.store.append(RunEnded("finished", "Imported."), begin + 1e9)
    run.store.commit()
    run.store.close()
    for command in (
        ["runs"],
        ["runs", "--filter", "loss < 1 and started > 2020-01-01"],
        ["runs", "--csv"],
        ["runs", "--json"],
        ["show", run.id],
        ["show", run.id, "--json"],
        *(["export", "all", "--format", each, "-o", str(tmp_path / each)] for each in Format),
    ):
        assert main(command) == 0, command
        assert capsys.readouterr().out
