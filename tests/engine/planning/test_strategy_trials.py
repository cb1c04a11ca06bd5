"""What `doctor --full` starts for each strategy; the runs are doubles."""

from __future__ import annotations

from typing import Any

import pytest

from engine.client import CannotStart
from engine.doctor.examination import Pythons
from engine.doctor.finding import Finding
from engine.planning import own_data_folder, strategy_trials
from engine.planning.results import StrategyTrial
from engine.planning.strategy_trials import try_strategies
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from tests.support.sentences import sentence

PYTHONS = Pythons("/torch/bin/python", "/tf/bin/python")


@pytest.fixture(autouse=True)
def no_ender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs that would have to be ended."""
    monkeypatch.setattr(own_data_folder, "_start_ender", lambda home: None)


@pytest.fixture
def specs(monkeypatch: pytest.MonkeyPatch) -> list[RunSpec]:
    """The settings of the runs that would be started."""
    tried: list[RunSpec] = []

    def attempt(spec: RunSpec, _: object, *, resumes: bool) -> StrategyTrial:
        assert resumes is (spec.precision == "fp32")
        tried.append(spec)
        return StrategyTrial(Finding(spec.strategy, "ok", "It trains."))

    monkeypatch.setattr(strategy_trials, "_try", attempt)
    return tried


@pytest.mark.parametrize(
    ("gpus", "devices"),
    [((), ("cpu:0", "cpu:1")), (("GPU-a",), ("GPU-a",)), (("GPU-a", "GPU-b", "GPU-c"), None)],
)
def test_each_strategy_is_tried_on_two_devices_where_it_takes_them(
    specs: list[RunSpec], gpus: tuple[str, ...], devices: tuple[str, ...] | None
) -> None:
    found = try_strategies(gpus, PYTHONS, lambda news: None).trials
    by_name = {spec.strategy: spec for spec in specs}
    assert by_name["torch/single"].devices == (devices or gpus)[:1]
    assert {spec.precision for spec in specs} == {"fp32", "bf16"}
    for spec in specs:
        assert spec.interpreter == PYTHONS[spec.strategy.startswith("tf/")]
        assert set(spec.devices) <= set(devices or gpus[:2])
    if gpus != ("GPU-a",):
        assert by_name["torch/ddp"].devices == (devices or gpus[:2])
    names = {trial.finding.name.removeprefix("strategy ") for trial in found}
    assert {"torch/pipeline", "tf/mirrored"} <= names


def test_a_run_that_cannot_start_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(spec: Any) -> str:
        raise CannotStart([Problem("devices", "There is no such GPU.")])

    monkeypatch.setattr(strategy_trials.client, "start", refuse)
    check = try_strategies(("GPU-a",), PYTHONS, lambda news: None).trials[0].finding
    assert check.level == "error"
    assert check.text == sentence("it-cannot-start-without-gpu")
