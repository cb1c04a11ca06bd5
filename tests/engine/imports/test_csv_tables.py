"""What the tables of other programs hold: runs, steps and times in the forms of each program."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.exports.run_source import RunSource
from engine.imports.found_run import CannotImport, seconds_of
from engine.imports.import_runs import import_runs
from engine.runs import run_info

Point = tuple[int, float, float]
MOMENT = 1_760_000_000.5
"""In October of 2025."""


def table(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def points(run_id: str) -> dict[str, list[Point]]:
    """Step, time and value of each point, by series."""
    with RunSource(run_info.get_run(run_id)) as source:
        assert source.reader is not None
        return {
            name: [
                (int(step), float(time), float(value))
                for batch in source.reader.batches(name)
                for step, time, value in zip(batch.step, batch.time, batch.value, strict=True)
            ]
            for name in source.counts()
        }


def points_by_name(run_ids: list[str]) -> dict[str, dict[str, list[Point]]]:
    return {run_info.get_run(each).name: points(each) for each in run_ids}


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000, 1_000_000_000])
@pytest.mark.parametrize("date", [700_000_001.0, MOMENT, 4_000_000_000.0])
def test_times_may_be_in_any_unit(date: float, unit: int, tmp_path: Path) -> None:
    text = f"timestamp,step,loss\n{int(date * unit)},1,0.5\n{int((date + 4) * unit)},2,0.25\n"
    (new,) = import_runs([table(tmp_path, text)]).run_ids
    assert [time for _, time, _ in points(new)["loss"]] == pytest.approx([date, date + 4], abs=1)


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), 1e21, -1e300])
def test_a_time_that_is_no_date_is_replaced_and_told(moment: float, tmp_path: Path) -> None:
    assert seconds_of(moment) is None
    path = table(tmp_path, f"time,step,loss\n{moment},1,0.5\n{moment},2,0.5\n{MOMENT},3,0.5\n")
    done = import_runs([path])
    written = path.stat().st_mtime
    assert [time for _, time, _ in points(done.run_ids[0])["loss"]] == [written, written, MOMENT]
    assert [text for text in done.remarks if "no dates" in text] == done.remarks


def test_points_at_steps_that_cannot_be_drawn_are_counted(tmp_path: Path) -> None:
    steps = [-1, 5, 2**53, 2**53 + 2, 10**18]
    text = "run,step,a,b\n" + "".join(f"one,{step},1,2\n" for step in steps) + "two,-1,1,2\n"
    done = import_runs([table(tmp_path, text)])
    assert {name: [p[0] for p in each] for name, each in points(done.run_ids[0]).items()} == {
        "a": [5, 2**53],
        "b": [5, 2**53],
    }
    assert len(done.run_ids) == 1
    assert "6 left out with a step below 0 or above 2^53" in done.remarks[0]
    assert "a (3), b (3)" in done.remarks[0]
    assert "two: 2 left out" in done.remarks[1]


def test_of_epochs_that_occur_twice_the_later_ones_win(tmp_path: Path) -> None:
    wide = "epoch,a,val\n1,1,\n2,2,2\n3,3,\n1,4,\n2,5,5\n"
    done = import_runs([table(tmp_path, wide)])
    found = {name: [(s, v) for s, _, v in each] for name, each in points(done.run_ids[0]).items()}
    assert found == {"a": [(1, 4.0), (2, 5.0)], "val": [(2, 5.0)]}
    assert "4 left out with a step that later lines train again" in done.remarks[0]
    long = "step,tag,value\n1,a,1\n2,a,2\n1,b,3\n2,b,4\n1,b,5\n"
    done = import_runs([table(tmp_path, long)])
    found = {name: [(s, v) for s, _, v in each] for name, each in points(done.run_ids[0]).items()}
    assert found == {"a": [(1, 1.0), (2, 2.0)], "b": [(1, 5.0)]}
    assert "again (of several runs, name the column: --run-column): b (2)" in done.remarks[0]


@pytest.mark.parametrize("steps", [(3, 2, 1), (1, 1, 2, 2, 3), (2, 1, 3)])
def test_lines_in_another_order_or_of_one_epoch_are_kept(
    steps: tuple[int, ...], tmp_path: Path
) -> None:
    done = import_runs([table(tmp_path, "epoch,a\n" + "".join(f"{s},1\n" for s in steps))])
    assert [step for step, _, _ in points(done.run_ids[0])["a"]] == sorted(steps)
    assert not done.remarks


def test_a_table_of_wandb_over_the_time_has_steps_and_elapsed_times(tmp_path: Path) -> None:
    text = (
        '"Relative Time (Process)","dawn-3 - _step","dawn-3 - _step__MIN","dawn-3 - loss",'
        '"dawn-3 - loss__MAX","dawn-3 - x - _step","dawn-3 - x - loss"\n'
        "0.5,10,10,1.5,1.5,,\n2.25,20,20,0.5,0.5,7,0.25\n"
    )
    path = table(tmp_path, text)
    found = points_by_name(import_runs([path]).run_ids)
    end = path.stat().st_mtime
    assert found == {
        "dawn-3": {"loss": [(10, end - 1.75, 1.5), (20, end, 0.5)]},
        "dawn-3 - x": {"loss": [(7, end, 0.25)]},
    }


def test_small_times_count_from_the_start_of_the_run(tmp_path: Path) -> None:
    text = "epoch,time,loss\n1,12.5,0.5\n2,,0.4\n3,37.25,0.25\n"  # as Ultralytics writes it
    path = table(tmp_path, text)
    done = import_runs([path])
    end = path.stat().st_mtime
    assert points(done.run_ids[0])["loss"] == [(1, end - 24.75, 0.5), (2, end, 0.4), (3, end, 0.25)]
    assert run_info.get_run(done.run_ids[0]).status.started == end - 24.75
    assert "The times (time) count from the start of the run" in done.remarks[0]


def test_a_table_of_wandb_without_steps_says_how_to_export_it(tmp_path: Path) -> None:
    with pytest.raises(CannotImport, match="'dawn-3 - _step'"):
        import_runs([table(tmp_path, '"Relative Time (Wall)","dawn-3 - loss"\n0.5,1\n')])


def test_runs_of_wandb_whose_names_hold_dashes_stay_apart(tmp_path: Path) -> None:
    text = '"Step","exp - a - loss","exp - b - loss"\n1,0.5,0.25\n'
    found = points_by_name(import_runs([table(tmp_path, text)]).run_ids)
    assert {name: list(each) for name, each in found.items()} == {
        "exp - a": ["loss"],
        "exp - b": ["loss"],
    }
