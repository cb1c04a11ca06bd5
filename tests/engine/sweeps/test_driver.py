"""The driver of a sweep, with runs that only seem to train; and one real sweep that is killed."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest

from engine import client
from engine.messages.events import RecipeVersion
from engine.processes.process import PROJECT
from engine.runs.run_info import NoSuchRun
from engine.runs.run_state import RunState
from engine.runs.store.run_store import RunStore
from engine.spec.recipe_copy import CopiedCode, has_copy, read_copy, recipe_of_run, write_copy
from engine.spec.run_spec import RunSpec
from engine.sweeps import driver as drivers
from engine.sweeps import sweep as sweeps
from engine.sweeps.driver import Driver
from engine.sweeps.ranges import Choices, Interval
from engine.sweeps.report import SweepReader
from engine.sweeps.study import TrialResult, open_study, read_study, results
from engine.sweeps.sweep import STOP, Sweep
from tests.support.events import losses
from tests.support.sentences import sentence

optuna = pytest.importorskip("optuna")

SECONDS = 300.0
VALUE = Driver._value


class Runs:
    """Stands in for the client: each run is over after two looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.specs: dict[str, RunSpec] = {}
        self.tags: dict[str, list[str]] = {}
        self.looks: dict[str, int] = {}
        self.ends: dict[str, RunState] = {}
        self.refused: set[int] = set()
        self.resumed: list[str] = []
        self.folders: dict[str, Path] = {}
        self.most_at_once = 0
        self.on_start: Callable[[str], None] = lambda run_id: None
        for name in ("start", "get_run", "resume", "send"):
            monkeypatch.setattr(client, name, getattr(self, name))
        monkeypatch.setattr(drivers, "LOOK_SECONDS", 0.0)
        monkeypatch.setattr(Driver, "_value", lambda driver, info: info.spec.learning_rate)
        monkeypatch.setattr(Driver, "_values", lambda driver, info: [(1, info.spec.learning_rate)])
        monkeypatch.setattr(Driver, "_runs_by_trial", lambda driver: self.by_trial())

    def start(self, spec: RunSpec, tags: Iterable[str], copied_in: Path) -> str:
        assert has_copy(copied_in)
        tags = list(tags)
        if int(tags[1].removeprefix("trial-")) in self.refused:
            raise client.CannotStart([client.Problem("devices", "There is no such device.")])
        run_id = str(len(self.specs) + 1)
        self.specs[run_id], self.tags[run_id], self.looks[run_id] = spec, tags, 0
        active = [each for each in self.specs if not self.get_run(each).state.is_over]
        self.most_at_once = max(self.most_at_once, len(active))
        self.on_start(run_id)
        return run_id

    def get_run(self, run_id: str) -> Any:
        if run_id not in self.specs:
            raise NoSuchRun(f"There is no run {run_id}.")
        self.looks[run_id] += 1
        is_over = self.looks[run_id] > 3
        state = self.ends.get(run_id, RunState.FINISHED) if is_over else RunState.RUNNING
        return SimpleNamespace(
            state=state,
            spec=self.specs[run_id],
            reason="It broke.",
            id=run_id,
            folder=self.folders.get(run_id, Path("none")),
        )

    def resume(self, run_id: str, recipe: RecipeVersion) -> None:
        assert recipe is RecipeVersion.AS_IT_WAS
        self.resumed.append(run_id)
        self.looks[run_id] = 0
        self.ends.pop(run_id, None)

    def send(self, run_id: str, command: object) -> None:
        self.ends[run_id] = RunState.STOPPED
        self.looks[run_id] = 100

    def by_trial(self) -> dict[int, str]:
        return {int(tags[1].removeprefix("trial-")): run for run, tags in self.tags.items()}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def new(**changes: Any) -> Path:
    base = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    wanted: dict[str, Any] = {
        "base": base,
        "ranges": {"learning_rate": Interval(1e-3, 0.1, log=True), "seed": Choices((1, 2))},
        "trials": 5,
    }
    return sweeps.create(Sweep(**(wanted | changes)))


def drive(folder: Path) -> list[TrialResult]:
    sweep = sweeps.read(folder)
    Driver(folder, sweep, open_study(folder, sweep)).run()
    return results(read_study(folder))


def test_each_trial_is_a_run_with_its_value(runs: Runs) -> None:
    trials = drive(new())
    assert [each.number for each in trials] == list(range(5))
    assert {each.state for each in trials} == {"finished"}
    assert [each.value for each in trials] == [
        runs.specs[each.run].learning_rate for each in trials
    ]
    assert len({each.run for each in trials}) == 5
    assert runs.tags["1"] == ["sweep-1", "trial-0"]
    assert runs.most_at_once == 1


def test_parallel_runs_are_as_many_as_wanted(runs: Runs) -> None:
    drive(new(parallel=3, trials=7))
    assert runs.most_at_once == 3
    assert len(runs.specs) == 7


def test_a_grid_tries_all_combinations_once(runs: Runs) -> None:
    ranges = {"learning_rate": Choices((0.1, 0.2, 0.3)), "seed": Choices((1, 2))}
    drive(new(ranges=ranges, trials=6, sampler="grid"))
    tried = {(each.learning_rate, each.seed) for each in runs.specs.values()}
    assert len(tried) == len(runs.specs) == 6


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_equal_seeds_give_equal_trials(runs: Runs, sampler: str) -> None:
    first = [each.settings for each in drive(new(sampler=sampler, seed=3))]
    again = [each.settings for each in drive(new(sampler=sampler, seed=3))]
    other = [each.settings for each in drive(new(sampler=sampler, seed=4))]
    assert first == again != other


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_sweep_that_goes_on_tries_no_values_again(runs: Runs, sampler: str) -> None:
    folder = new(trials=8, sampler=sampler, ranges={"learning_rate": Interval(1e-3, 0.1)})
    runs.on_start = lambda run_id: (folder / STOP).touch() if run_id == "4" else None
    drive(folder)
    (folder / STOP).unlink()
    values = [each.settings["learning_rate"] for each in drive(folder)]
    assert len(set(values)) == len(values) == 8


def test_a_run_that_fails_is_a_failed_trial_with_its_reason(runs: Runs) -> None:
    runs.ends["2"] = RunState.FAILED
    trials = drive(new())
    assert [each.state for each in trials].count("failed") == 1
    assert trials[1].reason == "It broke."


def test_an_interrupted_run_is_resumed_and_counted_once(runs: Runs) -> None:
    runs.ends["2"] = RunState.INTERRUPTED
    trials = drive(new())
    assert runs.resumed == ["2"]
    assert [each.state for each in trials] == ["finished"] * 5
    assert len(runs.specs) == 5


@pytest.mark.parametrize(
    ("changes", "is_trial"),
    [
        ({"learning_rate": 7.0}, False),
        ({"settings": {"width": 7}}, False),
        ({"epochs": 70}, False),
        ({"devices": ("cpu:1",), "name": "mine", "accumulation": 2, "keep_checkpoints": 9}, True),
    ],
)
def test_a_run_that_was_resumed_with_other_settings_is_no_trial_any_more(
    runs: Runs, changes: dict[str, Any], is_trial: bool
) -> None:
    folder = new(trials=3)
    runs.on_start = lambda run_id: (folder / STOP).touch() if run_id == "2" else None
    drive(folder)
    (folder / STOP).unlink()
    runs.specs["2"] = msgspec.structs.replace(runs.specs["2"], **changes)
    trials = drive(folder)
    second = "finished" if is_trial else "failed"
    assert [each.state for each in trials] == ["finished", second, "finished"]
    assert (trials[1].reason == "") is is_trial
    assert all(name in trials[1].reason for name in changes) is not is_trial
    assert ("2" in runs.resumed) is is_trial


def test_a_run_that_was_resumed_with_another_recipe_is_no_trial_any_more(
    runs: Runs, tmp_path: Path
) -> None:
    runs.folders["2"] = tmp_path
    (tmp_path / "recipe.before-2.py").touch()
    trials = drive(new(trials=3))
    assert [each.state for each in trials] == ["finished", "failed", "finished"]
    assert "recipe" in trials[1].reason


def test_all_trials_train_the_recipe_as_it_was_when_the_sweep_began(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.py"
    (tmp_path / "net.py").write_text("WIDTH = 1\n")
    text = "from net import WIDTH\ndef model(): ...\ndef datasets(): ...\ndef loss(o, t): ...\n"
    recipe.write_text(text)
    base = RunSpec(recipe=str(recipe), strategy="torch/single", devices=("cpu:0",))
    folder = new(base=base)
    recipe.write_text("an edit")
    (tmp_path / "net.py").unlink()
    run = tmp_path / "run"
    run.mkdir()
    write_copy(run, recipe_of_run(folder, base))
    assert read_copy(run) == CopiedCode(text.encode(), {"net.py": b"WIDTH = 1\n"})


def reason(folder: Path) -> str:
    """Return why a sweep starts no more trials."""
    return SweepReader(folder).read().summary.reason


def test_a_sweep_whose_runs_cannot_start_ends_with_the_reason(runs: Runs) -> None:
    runs.refused = set(range(100))
    folder = new(trials=50)
    trials = drive(folder)
    assert [each.state for each in trials] == ["waiting"] * drivers.MOST_REFUSALS
    assert "There is no such device." in trials[0].reason
    assert reason(folder) == sentence("trials-could-not-be-started")


def test_a_sweep_that_goes_on_is_no_longer_said_to_start_no_more(runs: Runs) -> None:
    runs.refused = set(range(drivers.MOST_REFUSALS))
    folder = new(trials=5)
    drive(folder)
    assert reason(folder)
    runs.refused.clear()
    told: set[str] = set()
    runs.on_start = lambda run_id: told.add(reason(folder))
    drive(folder)
    assert told == {reason(folder)} == {""}


def test_what_keeps_all_trials_from_starting_costs_none_of_them(runs: Runs) -> None:
    """Such as a Python or a disk that is away, also over several resumes."""
    folder = new(trials=5)
    runs.refused = set(range(1, 100))
    drive(folder)
    drive(folder)
    assert [each.state for each in drive(folder)] == ["finished"] + ["waiting"] * 4
    runs.refused.clear()
    trials = drive(folder)
    assert [each.state for each in trials] == ["finished"] * 5
    assert {each.reason for each in trials} == {""}
    assert runs.most_at_once == 1


def test_settings_that_cannot_be_trained_end_no_sweep_and_fail(runs: Runs) -> None:
    folder = new(trials=8)
    runs.refused = {0, 1, 2, 5, 7}
    drive(folder)
    assert reason(folder), "the first three looked like a reason for all"
    trials = drive(folder)
    failed = [each.number for each in trials if each.state == "failed"]
    assert failed == [0, 1, 2, 5, 7]
    assert reason(folder) == ""


def test_a_driver_that_cannot_write_its_journal_says_why_it_has_ended(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new(trials=50)

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = optuna.storages.journal.JournalFileBackend
    runs.on_start = lambda run_id: monkeypatch.setattr(journal, "append_logs", is_full)
    assert drivers.main(folder) == 1
    assert sentence("process-has-ended-no-space-left") in reason(folder)
    assert reason(folder) in capsys.readouterr().err


def test_a_sweep_that_was_stopped_starts_no_more_for_no_other_reason(runs: Runs) -> None:
    folder = new()
    runs.on_start = lambda run_id: (folder / STOP).touch()
    drive(folder)
    assert reason(folder) == ""


def test_why_no_more_trials_start_is_said_while_others_still_train(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.refused = set(range(1, 100))
    folder = new(trials=50, parallel=2)
    seen: list[str] = []
    look = runs.get_run

    def get_run(run_id: str) -> Any:
        seen.append(reason(folder))
        return look(run_id)

    monkeypatch.setattr(client, "get_run", get_run)
    drive(folder)
    assert seen[-1] == reason(folder) != ""


def logged(folder: Path, value: float) -> SimpleNamespace:
    """Return a run that has one value of `train/loss`."""
    with closing(RunStore(folder)) as store:
        store.append(losses([value]), 1.0)
        store.commit()
    return SimpleNamespace(folder=folder)


def test_a_metric_that_no_run_logs_ends_the_sweep_and_says_what_there_is(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info, value = logged(tmp_path, 0.5), VALUE
    monkeypatch.setattr(Driver, "_value", lambda driver, _: value(driver, info))
    folder = new(trials=50, metric="acuracy")
    trials = drive(folder)
    assert [each.state for each in trials] == ["failed"] * drivers.MOST_REFUSALS
    assert trials[0].reason == sentence("run-has-logged-no-acuracy-there")
    assert reason(folder) == sentence("runs-in-turn-have-not-logged")


def test_a_metric_that_is_never_finite_is_said_and_ends_no_sweep(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info, value = logged(tmp_path, math.nan), VALUE
    monkeypatch.setattr(Driver, "_value", lambda driver, _: value(driver, info))
    trials = drive(new(trials=5))
    assert [each.reason for each in trials] == [sentence("was-never-finite-number")] * 5


def test_the_sampler_keeps_away_from_settings_that_diverge(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def value(driver: Driver, info: Any) -> float:
        if info.spec.learning_rate > 1.0:
            raise drivers.NeverFinite("train/loss was never a finite number.")
        return abs(math.log10(info.spec.learning_rate) + 2.0)

    monkeypatch.setattr(Driver, "_value", value)
    ranges = {"learning_rate": Interval(1e-4, 1e12, log=True)}
    trials = drive(new(trials=60, ranges=ranges))
    late = [each.state for each in trials[40:]]
    assert late.count("finished") > late.count("failed")
    assert {each.value for each in trials if each.state == "failed"} == {None}


class Killed(BaseException):
    """The driver is killed."""


@pytest.mark.parametrize("before_the_journal_knows", [True, False])
def test_after_the_drivers_death_nothing_is_started_or_counted_twice(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, before_the_journal_knows: bool
) -> None:
    folder = new(trials=4)

    def kill(run_id: str) -> None:
        if run_id == "2" and before_the_journal_knows:
            raise Killed

    def look(driver: Driver, number: int, **how: Any) -> None:
        if number == 1 and not before_the_journal_knows:
            raise Killed
        honest(driver, number, **how)

    honest = Driver._look
    runs.on_start = kill
    with monkeypatch.context() as patch:
        patch.setattr(Driver, "_look", look)
        with pytest.raises(Killed):
            drive(folder)
    runs.on_start = lambda run_id: None
    trials = drive(folder)
    assert [each.run for each in trials] == ["1", "2", "3", "4"]
    assert [each.state for each in trials] == ["finished"] * 4


def test_a_stop_ends_the_runs_and_a_resume_goes_on_with_them(runs: Runs) -> None:
    folder = new(trials=4, parallel=2)
    runs.on_start = lambda run_id: (folder / STOP).touch() if run_id == "3" else None
    trials = drive(folder)
    assert {each.state for each in trials} == {"finished", "stopped"}
    (folder / STOP).unlink()
    held = [each.run for each in trials if each.state == "stopped"]
    again = drive(folder)
    assert sorted(runs.resumed) == sorted(held) != []
    assert [each.state for each in again] == ["finished"] * 4
    assert len(runs.specs) == 4


def test_a_pruned_run_is_stopped_and_no_failure(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optuna.trial.Trial, "should_prune", lambda trial: trial.number == 2)
    trials = drive(new(pruner="median"))
    assert [each.state for each in trials].count("pruned") == 1
    assert trials[2].state == "pruned"
    assert trials[2].value == runs.specs["3"].learning_rate


@pytest.mark.usefixtures("processes", "own_templates")  # a template may be one of them
@pytest.mark.nightly
def test_a_sweep_whose_processes_are_all_killed_goes_on_and_counts_each_trial_once() -> None:
    words = ["sweep", "--recipe", "digits", "--epochs", "2", "--trials", "4", "--json"]
    words += ["--set", "learning_rate=1e-3..1e-1:log", "--parallel", "2"]
    assert call(*words, "--detach").returncode == 0
    folder = sweeps.folder_of("1")
    deadline = time.monotonic() + SECONDS
    while not any(each.state == "finished" for each in results(read_study(folder))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    kill_all(str(folder.parent.parent))
    done = call("sweep", "resume", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [each["state"] for each in found["trials"]] == ["finished"] * 4
    assert len({each["run"] for each in found["trials"]}) == 4
    assert found["best"]["value"] == min(each["value"] for each in found["trials"])


def kill_all(home: str) -> None:
    """Kill every process of a data folder at once, so that none notices the end of another."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        if home in " ".join(process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [process, *process.children(recursive=True)]
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                act(process)


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROJECT / "main.py"), *words],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
