"""Tests `engine.planning.race`: who runs, in which order, and what follows from the figures."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.planning import race as racing
from engine.planning.race import CannotRace, entrants, race
from engine.planning.results import Doing, Entry, News, Raced
from engine.planning.short_run import ShortRun
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.system.cancelled import Cancelled
from tests.support.sentences import sentence

TWO = ("cpu:0", "cpu:1")
SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=TWO, batch_size=64)


def _entrants(*names: str, spec: RunSpec = SPEC, **choices: tuple[object, ...]) -> list[RunSpec]:
    recipe = catalog.recipe(spec.recipe)
    strategies = [catalog.strategy(name, recipe) for name in names]
    return list(entrants(spec, recipe, strategies, **choices))  # type: ignore[arg-type]


def test_a_strategy_for_one_device_gets_the_first_and_is_what_others_are_compared_with() -> None:
    found = [(each.strategy, each.devices) for each in _entrants("single", "ddp")]

    assert found == [("torch/single", ("cpu:0",)), ("torch/ddp", TWO)]


def test_the_run_on_one_device_is_added_for_each_framework_and_variant() -> None:
    found = _entrants("ddp", "fsdp", batch_sizes=(32, 64))

    assert [(each.strategy, each.batch_size) for each in found] == [
        ("torch/ddp", 32),
        ("torch/ddp", 64),
        ("torch/fsdp", 32),
        ("torch/fsdp", 64),
        ("torch/single", 32),
        ("torch/single", 64),
    ]


def test_keras_on_pytorch_is_compared_with_itself_on_one_device() -> None:
    spec = replace(SPEC, recipe="digits_keras", strategy="tf/single")
    found = _entrants("torch/keras_ddp", "tf/mirrored", spec=spec)

    assert [(each.strategy, len(each.devices)) for each in found] == [
        ("torch/keras_ddp", 2),
        ("tf/mirrored", 2),
        ("torch/keras_ddp", 1),
        ("tf/single", 1),
    ]


def test_each_framework_has_its_default_python_of_the_machine_that_races() -> None:
    pythons = {"torch": "/t/python", "tensorflow": "/f/python"}.__getitem__
    recipe = catalog.recipe("digits_keras")
    strategies = [catalog.strategy(name, recipe) for name in ("torch/keras_ddp", "tf/mirrored")]
    spec = replace(SPEC, recipe="digits_keras", strategy="tf/mirrored", interpreter="/f/python")

    for chosen, expected in (("/f/python", "/t/python"), ("/other", "/other")):
        mine = replace(spec, interpreter=chosen)
        found = entrants(mine, recipe, strategies, default_python=pythons)
        assert {each.strategy: each.interpreter for each in found} == {
            "torch/keras_ddp": expected,
            "tf/mirrored": chosen,
            "tf/single": chosen,
        }


def test_each_combination_is_there_once_also_what_cannot_run() -> None:
    found = _entrants("ddp", "torch/ddp", "single", counts=(1, 2, 2), precisions=("bf16",))

    assert [(each.strategy, len(each.devices)) for each in found] == [
        ("torch/ddp", 1),
        ("torch/ddp", 2),
        ("torch/single", 1),
        ("torch/single", 2),  # asked for by its number: the race says why it cannot
    ]
    assert {each.precision for each in found} == {"bf16"}


def test_more_devices_than_there_are_is_refused() -> None:
    with pytest.raises(CannotRace, match="3 devices"):
        _entrants("ddp", counts=(3,))


@pytest.mark.parametrize("steps", [-1, 0, 1, 4])
def test_too_few_steps_are_refused_before_anything_runs(steps: int) -> None:
    with pytest.raises(CannotRace, match="at least 5"):
        race(_entrants("single"), steps=steps)


class _Runs:
    """Takes the place of short runs: rates by strategy, and what was run in which order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **rates: tuple[float, ...] | str) -> None:
        self.rates = rates
        self.done: list[tuple[str, int, tuple[str, ...]]] = []
        self.cancels_after = 1000
        monkeypatch.setattr(racing, "short_run", self.run)

    def run(self, spec: RunSpec, *, steps: int, is_cancelled: object) -> ShortRun:
        if len(self.done) >= self.cancels_after:
            raise Cancelled
        name = spec.strategy.partition("/")[2]
        self.done.append((name, steps, spec.devices))
        found = self.rates[name]
        if isinstance(found, str):
            return ShortRun(spec=spec, problem=found, where="recipe.py:5")
        rate = sorted(found)[len(found) // 2]
        return ShortRun(
            spec=spec, steps=steps, rates=found, measured_steps=50, samples_per_second=rate
        )


def _by_name(entries: tuple[Entry, ...]) -> dict[str, Entry]:
    return {each.strategy.partition("/")[2]: each for each in entries}


def test_the_fastest_comes_first_with_its_efficiency(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs(monkeypatch, single=(99.0, 100.0, 101.0), ddp=(179.0, 180.0, 181.0), fsdp="Broke.")
    told: list[News] = []

    found = race(_entrants("single", "fsdp", "ddp"), steps=60, tell=told.append)

    assert [each.strategy for each in found.entries] == ["torch/ddp", "torch/single", "torch/fsdp"]
    entries = _by_name(found.entries)
    assert entries["ddp"].efficiency == pytest.approx(0.9)
    assert entries["single"].efficiency == pytest.approx(1)
    assert entries["fsdp"].problem == "Broke. (recipe.py:5)"
    assert entries["fsdp"].samples_per_second is None
    assert not any(each.is_tied for each in found.entries)
    assert runs.done[0] == ("single", 1, ("cpu:0",))  # loads the framework
    assert [each[:2] for each in runs.done[1:]] == [("single", 60), ("fsdp", 60), ("ddp", 60)]
    assert sum(isinstance(each, Raced) for each in told) == 3
    assert [each.done for each in told if isinstance(each, Doing)] == [0, 0, 1, 2]
    named = [each.strategy for each in told if isinstance(each, Doing)]
    assert named == ["", "torch/single", "torch/fsdp", "torch/ddp"]


def test_what_cannot_run_is_an_entry_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    _Runs(monkeypatch, ddp=(1.0, 1.0, 1.0), single=(1.0, 1.0, 1.0))

    found = race(_entrants("single", "ddp", counts=(2,)), steps=60)

    refused = [each for each in found.entries if each.problem]
    assert [each.strategy for each in refused] == ["torch/single"]
    assert sentence("trains-on-device-and-are-chosen") in refused[0].problem


def test_the_two_fastest_run_again_if_they_are_close(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs(
        monkeypatch,
        single=(50.0, 50.0, 50.0),
        ddp=(99.0, 100.0, 101.0),
        fsdp=(97.0, 99.0, 102.0),
    )

    found = race(_entrants("single", "ddp", "fsdp"), steps=60)

    assert [each[0] for each in runs.done[1:]] == ["single", "ddp", "fsdp", "fsdp", "ddp"]
    entries = _by_name(found.entries)
    assert entries["fsdp"].is_tied
    assert not entries["ddp"].is_tied
    assert entries["ddp"].steps == 100


def test_a_figure_that_varies_a_lot_is_no_basis_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    _Runs(monkeypatch, single=(200.0, 800.0, 1900.0), ddp=(99.0, 100.0, 101.0))
    found = race(_entrants("single", "ddp"), steps=60)
    assert {each.efficiency for each in found.entries} == {None}
    assert found.notices[-1] == sentence("speed-of-one-entry-varied-lot")


def test_side_by_side_takes_devices_that_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs(monkeypatch, single=(50.0, 50.0, 50.0), ddp=(99.0, 100.0, 101.0))
    on_one = [each for each in _entrants("single", "ddp", counts=(1, 2)) if len(each.devices) == 1]

    found = race(on_one * 2, steps=60, together=True, devices=TWO)

    waves = sorted(each[2] for each in runs.done[1:5])
    assert waves == [("cpu:0",), ("cpu:0",), ("cpu:1",), ("cpu:1",)]
    assert any("share one processor" in text for text in found.notices)


def test_a_stopped_race_returns_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _Runs(monkeypatch, single=(50.0, 50.0, 50.0), ddp=(99.0, 100.0, 101.0))
    runs.cancels_after = 2

    found = race(_entrants("single", "ddp"), steps=60)

    assert found.is_stopped
    assert [each.strategy for each in found.entries] == ["torch/single"]


def test_what_disturbs_a_race_on_cpus_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _Runs(monkeypatch, single=(50.0, 50.0, 50.0))
    monkeypatch.setattr(racing.os, "getloadavg", lambda: (7.0, 1.0, 1.0))
    monkeypatch.setattr(racing.os, "cpu_count", lambda: 2)
    [notice] = race(_entrants("single"), steps=60).notices
    assert sentence("was-busy-when-race-began-load") in notice

    monkeypatch.setattr(racing, "runs_on", lambda devices: ["7", "8"])
    [notice] = race(_entrants("single"), steps=60).notices
    assert notice.startswith(sentence("runs-train-on-same-cpu-devices"))


def test_a_run_that_fails_while_its_framework_is_loaded_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = _Runs(monkeypatch, single="Broke.", ddp=(9.0, 9.0, 9.0))

    found = race(_entrants("single", "ddp"), steps=60)

    assert [each[:2] for each in runs.done] == [("single", 1), ("ddp", 60)]
    assert [each.problem for each in found.entries] == ["", "Broke. (recipe.py:5)"]


def test_an_asynchronous_strategy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _Runs(monkeypatch, parameter_server=(50.0, 50.0, 50.0), single=(9.0, 9.0, 9.0))
    spec = replace(SPEC, recipe="digits_keras", strategy="tf/single")

    found = race(_entrants("parameter_server", spec=spec), steps=60)

    assert any("tf/parameter_server is asynchronous" in text for text in found.notices)
