"""The search for the largest and the fastest batch, over short runs that are made up."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from engine.planning.memory import batch_search
from engine.planning.memory.batch_search import search
from engine.planning.memory.memory_model import MemoryModel
from engine.planning.results import News, Sized
from engine.planning.short_run import ShortRun
from engine.spec.run_spec import RunSpec
from engine.system.cancelled import Cancelled
from engine.training.probes.memory_record import CPU, ROOM, DeviceRecord, RankRecord
from tests.support.sentences import sentence

MIB = 2**20
SPEC = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"), batch_size=64)
Trial = Callable[[RunSpec], ShortRun]


def held(batch: int) -> int:
    return 200 * MIB + batch * MIB


def short(spec: RunSpec, **changes: object) -> ShortRun:
    """A short run that needs 1 MiB for each sample, and is the fastest with batch 150."""
    part = held(spec.batch_size) // 2
    record = RankRecord(devices={CPU: DeviceRecord(peak=part, at_start=50 * MIB)})
    figures: dict[str, object] = {
        "spec": spec,
        "steps": 4,
        "samples_per_second": 1000.0 - abs(spec.batch_size // spec.accumulation - 150),
        "memory": {CPU: float(held(spec.batch_size // spec.accumulation))},
        "ranks": {0: record, 1: record},
        "steps_per_epoch": 10_000 // spec.batch_size,
    }
    return ShortRun(**(figures | changes))  # type: ignore[arg-type]


class Machine:
    """What the search tries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[RunSpec] = []
        self.news: list[News] = []
        self.variables: dict[str, str] = {}
        self.trial: Trial = short
        self.cancel_after = 1000
        monkeypatch.setattr(batch_search, "measure", self._measure)
        monkeypatch.setattr(batch_search, "short_run", self._short_run)
        monkeypatch.setattr(batch_search, "own_data_folder", self._own_data_folder)

    def search(self, spec: RunSpec = SPEC, limit_mib: int = 500) -> batch_search.BatchSearch:
        return search(spec, limit_mib, self.news.append, lambda: False)

    def _measure(self, spec: RunSpec, *_: object) -> tuple[MemoryModel, ShortRun]:
        runs = [
            short(
                RunSpec(
                    recipe="digits", strategy=spec.strategy, devices=spec.devices, batch_size=size
                )
            )
            for size in (16, 32)
        ]
        return MemoryModel(runs), runs[-1]

    def _own_data_folder(self, purpose: str, **variables: str) -> AbstractContextManager[None]:
        self.variables |= variables
        return nullcontext()

    def _short_run(self, spec: RunSpec, **_: object) -> ShortRun:
        if len(self.asked) >= self.cancel_after:
            raise Cancelled
        self.asked.append(spec)
        return self.trial(spec)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_the_largest_batch_is_found_with_all_ranks_at_once(machine: Machine) -> None:
    found = machine.search()
    assert found.largest == 288  # 18 x 8 x 2 replicas: 488 of 500 MiB; the next one needs 504
    assert not found.problem
    assert all(spec.devices == SPEC.devices for spec in machine.asked)
    assert all(spec.batch_size % 16 == 0 for spec in machine.asked if spec.batch_size > 16)


def test_each_worker_on_a_cpu_can_allocate_its_share_of_the_limit(machine: Machine) -> None:
    machine.search()
    assert machine.variables == {ROOM: str((500 - 2 * 50) // 2 * MIB)}


def test_the_fastest_batch_is_that_with_the_most_samples_per_second(machine: Machine) -> None:
    found = machine.search()
    rates = {each.batch_size: each.samples_per_second for each in found.tried if each.fits}
    assert found.fastest == max(rates, key=lambda batch: rates[batch])
    assert found.change is not None
    assert found.change.fields == {"batch_size": found.fastest}


def test_each_trial_is_told(machine: Machine) -> None:
    found = machine.search()
    told = [news.tried for news in machine.news if isinstance(news, Sized)]
    assert sorted(told, key=lambda each: each.batch_size) == list(found.tried)


def test_a_wrong_prediction_is_put_right(machine: Machine) -> None:
    def trial(spec: RunSpec) -> ShortRun:
        if spec.batch_size > 100:
            return short(spec, problem="cpu:0 is out of memory", is_out_of_memory=True, memory={})
        return short(spec)

    machine.trial = trial
    found = machine.search()
    assert found.largest == 96
    assert not any(each.is_failure for each in found.tried)


def test_a_prediction_that_is_too_high_for_memory_only_costs_trials(machine: Machine) -> None:
    machine.trial = lambda spec: short(spec, memory={CPU: 10.0 * MIB})
    found = machine.search(limit_mib=300)
    assert found.largest > 200  # more than was predicted, as far as the trials went
    assert len(found.tried) <= batch_search.MOST_TRIALS


def test_the_data_bound_the_batch(machine: Machine) -> None:
    found = machine.search(limit_mib=100_000)
    assert found.largest == 32 * (10_000 // 32) // 16 * 16
    assert sentence("all-training-data-are-one-batch") in found.text


def test_a_batch_that_does_not_fit_is_kept_by_accumulation(machine: Machine) -> None:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=SPEC.devices, batch_size=1000)
    found = machine.search(spec)
    assert found.largest == 288
    assert found.accumulation == 4  # 1000 = 250 x 4, and 3 parts of 334 do not fit
    assert found.change is not None
    assert found.change.fields == {"accumulation": 4}
    assert {"batch_size": 288} in [change.fields for change in found.changes]
    assert machine.asked[-1].batch_size == 1000
    assert machine.asked[-1].accumulation == 4


def test_a_recipe_that_fails_is_no_lack_of_memory(machine: Machine) -> None:
    machine.trial = lambda spec: short(spec, problem="rank 0 failed: KeyError: 'x'", where="r.py:3")
    found = machine.search()
    assert found.largest == 0
    assert found.problem == "rank 0 failed: KeyError: 'x' r.py:3"
    assert len(machine.asked) == 1


def test_a_trial_that_was_killed_from_outside_ends_the_search(machine: Machine) -> None:
    problem = "rank 0 was ended by SIGKILL (killed from outside)"

    def trial(spec: RunSpec) -> ShortRun:
        if spec.batch_size > 100:
            return short(spec, problem=problem, was_killed=True)
        return short(spec)

    machine.trial = trial
    found = machine.search()
    assert found.problem == problem
    assert found.text.startswith(sentence("largest-of-those-that-were-tried"))
    *fitting, last = found.tried
    assert all(each.fits for each in fitting)
    assert (last.fits, last.is_failure, last.problem) == (False, True, problem)
    assert last.memory == 0  # what it held when it was killed is not what the batch needs


def test_a_size_that_fails_for_another_reason_is_a_bound_and_says_so(machine: Machine) -> None:
    def trial(spec: RunSpec) -> ShortRun:
        return short(spec, problem="ValueError: odd" if spec.batch_size > 100 else "")

    machine.trial = trial
    found = machine.search()
    assert (found.largest, found.problem) == (96, "")
    assert {each.is_failure for each in found.tried if not each.fits} == {True}


def test_a_search_that_is_stopped_says_what_it_has_found(machine: Machine) -> None:
    machine.cancel_after = 2
    found = machine.search()
    assert found.problem == "It was stopped."
    assert found.text.startswith(sentence("largest-of-those-that-were-tried"))
    assert found.largest == found.tried[-1].batch_size
    assert len(found.tried) == 2


def test_scripts_and_other_machines_are_refused(machine: Machine) -> None:
    script = RunSpec(
        recipe="/a/train.py", strategy="script/one", devices=("cpu:0",), command=("a",)
    )
    assert "recipes" in machine.search(script).problem
    away = RunSpec(recipe="digits", strategy="torch/ddp", devices=("lab/cpu:0",))
    assert "this machine only" in machine.search(away).problem
