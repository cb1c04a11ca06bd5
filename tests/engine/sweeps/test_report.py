"""What is told of a sweep, also of one whose files are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from engine.spec.run_spec import RunSpec
from engine.sweeps import sweep as sweeps
from engine.sweeps.ranges import Choices, Interval, Range
from engine.sweeps.report import SweepIndex, SweepReader
from engine.sweeps.study import LEAST_TRIALS, RUN, open_study, suggest
from engine.sweeps.sweep import FILE_NAME, JOURNAL, LOCK, Sweep
from tests.support.sentences import sentence

optuna = pytest.importorskip("optuna")


BASE = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))


@pytest.fixture
def folder() -> Path:
    ranges = {"learning_rate": Interval(1e-3, 0.1, log=True), "seed": Choices((1, 2))}
    return sweeps.create(Sweep(base=BASE, ranges=ranges, trials=12))


def tell(folder: Path, count: int) -> None:
    """Let `count` more trials end; the value is the learning rate."""
    sweep = sweeps.read(folder)
    study = open_study(folder, sweep)
    for _ in range(count):
        trial = study.ask()
        values = suggest(trial, sweep.ranges)
        trial.set_user_attr(RUN, str(trial.number + 1))
        study.tell(trial, float(values["learning_rate"]))


def test_a_reader_reads_what_is_new(folder: Path) -> None:
    reader = SweepReader(folder)
    report = reader.read()
    assert (report.summary.state, report.summary.done, report.trials) == ("stopped", 0, ())
    tell(folder, 3)
    assert reader.read().summary.done == 3
    tell(folder, 9)
    report = reader.read()
    assert reader.read() is report, "nothing is read twice"
    assert report.summary.state == "finished"
    assert [each.run for each in report.trials] == [str(number) for number in range(1, 13)]
    assert report.summary.best == min(report.trials, key=lambda each: each.value or 0)
    assert set(report.importance) == {"learning_rate", "seed"}
    assert sum(report.importance.values()) == pytest.approx(1)


def test_few_trials_do_not_say_what_mattered(folder: Path) -> None:
    tell(folder, LEAST_TRIALS - 1)
    assert SweepReader(folder).read().importance == {}
    tell(folder, 1)
    assert SweepReader(folder).read().importance != {}


def test_a_setting_without_an_effect_or_with_one_value_did_not_matter() -> None:
    ranges: dict[str, Range] = {
        "learning_rate": Choices((0.1, 0.2, 0.3)),
        "seed": Choices((0, 1)),
        "optimizer": Choices(("adamw", "sgd")),
    }
    folder = sweeps.create(Sweep(base=BASE, ranges=ranges, trials=12, sampler="grid"))
    study = open_study(folder, sweeps.read(folder))
    for rate in (0.1, 0.2, 0.3):
        for seed in (0, 1, 0, 1):
            settings = {"learning_rate": rate, "seed": seed, "optimizer": "sgd"}
            study.enqueue_trial(settings)
            trial = study.ask()
            suggest(trial, ranges)
            study.tell(trial, rate)
    assert SweepReader(folder).read().importance == pytest.approx({"learning_rate": 1, "seed": 0})


def test_a_trial_that_nobody_looks_at_is_interrupted(folder: Path) -> None:
    sweep = sweeps.read(folder)
    trial = open_study(folder, sweep).ask()
    suggest(trial, sweep.ranges)
    trial.set_user_attr(RUN, "1")
    assert [each.state for each in SweepReader(folder).read().trials] == ["interrupted"]
    with FileLock(folder / LOCK):
        report = SweepReader(folder).read()
        assert report.summary.state == "running"
        assert [each.state for each in report.trials] == ["running"]


def test_a_torn_last_line_is_no_damage_and_the_sweep_goes_on(folder: Path) -> None:
    tell(folder, 3)
    journal = folder / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-9])
    assert SweepReader(folder).read().summary.done == 2
    tell(folder, 2)
    report = SweepReader(folder).read()
    assert report.summary.problem == ""
    assert len(report.trials) == 5


@pytest.mark.parametrize(
    "damage", [b"no json\n", b"{}\n", b'[1]\n{"op_code": 99}\n', b"\0" * 99 + b"\n"]
)
def test_a_damaged_journal_is_a_sentence(folder: Path, damage: bytes) -> None:
    tell(folder, 2)
    journal = folder / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], damage, *lines[2:]]))
    summary = SweepReader(folder).read().summary
    assert summary.state == "damaged"
    assert summary.problem.startswith(sentence("sweep-journal-is-damaged", sweep=1))
    assert sentence("runs-are-intact-and-have-tag") in summary.problem


def test_a_journal_that_is_damaged_while_it_is_read_is_a_sentence(folder: Path) -> None:
    tell(folder, 2)
    reader = SweepReader(folder)
    assert reader.read().summary.done == 2
    with (folder / JOURNAL).open("ab") as file:
        file.write(b"no json\nno json\n")
    assert "its journal is damaged" in reader.read().summary.problem


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("trials = 12", "trials = 0", "1 to 10,000 runs, not 0"),
        ("parallel = 1", "parallel = 0", sentence("at-least-run-at-one-time")),
        ("high = 0.1", "high = 0.0001", "is no range"),
        ("low = 0.001", "low = nan", "is no range"),
        ("low = 0.001", "low = -1.0", "begins at or below 0"),
        ("[ranges.seed]", "[ranges.sead]", "There is no setting sead"),
        ('sampler = "tpe"', 'sampler = "magic"', "magic"),
        ("trials = 12", "trials = ", "Sweep 1 cannot be read"),
    ],
)
def test_an_edited_sweep_is_a_sentence_and_the_others_are_listed(
    folder: Path, before: str, after: str, why: str
) -> None:
    other = sweeps.create(sweeps.read(folder))
    text = (folder / FILE_NAME).read_text()
    assert before in text
    (folder / FILE_NAME).write_text(text.replace(before, after))
    newest, oldest = (each.summary for each in SweepIndex().read())
    assert (newest.sweep, newest.state) == (other.name, "stopped")
    assert oldest.state == "damaged"
    assert why in oldest.problem
    with pytest.raises(sweeps.NoSuchSweep, match="Sweep 1 cannot be read"):
        sweeps.drive(folder)


def test_a_folder_without_a_sweep_is_a_sentence() -> None:
    (sweeps.paths.private_folder(sweeps.FOLDER) / "7").mkdir()
    assert [each.summary.state for each in SweepIndex().read()] == ["damaged"]
