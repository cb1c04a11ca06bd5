"""Tests the command `race`: what it asks for, prints, keeps and returns."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from engine import client
from engine.cli.commands.planning import race as command
from engine.facts.run_facts import Planning
from engine.planning import kept
from engine.planning.requests import Answer, AskRace, Request
from engine.planning.results import Entry, Race
from engine.spec.run_spec import RunSpec
from engine.system import paths
from main import main
from tests.support.measuring_double import answer_requests
from tests.support.sentences import sentence

DEVICES = ["--devices", "cpu:0,cpu:1"]


def _entry(spec: RunSpec, rate: float | None, **values: Any) -> Entry:
    return Entry(
        strategy=spec.strategy,
        devices=spec.devices,
        batch_size=spec.batch_size,
        precision=spec.precision,
        samples_per_second=rate,
        problem="" if rate else "It ran out of memory.",
        memory={"cpu": 2.0**20},
        spec=spec,
        **values,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Races nothing: the first entrant has 200 samples/s, the second 100, the others none."""
    asked: dict[str, Any] = {"stops": False, "rates": [200.0, 100.0]}

    def answers(request: Request) -> list[Answer]:
        assert isinstance(request, AskRace)
        entrants = request.entrants
        asked.update(structs.asdict(request))
        rates = [*asked["rates"], *[None] * len(entrants)]
        entries = [_entry(spec, rate) for spec, rate in zip(entrants, rates, strict=False)]
        return [Race(entries=tuple(entries), steps=request.steps, is_stopped=asked["stops"])]

    answer_requests(monkeypatch, answers)
    return asked


def test_it_prints_a_list_of_entries(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--strategies", "ddp,single,torch/ddp", "--batch-sizes", "32,64", "--steps", "9"]
    assert main(["race", *DEVICES, *options, "--json"]) == 0

    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(each["strategy"], each["batch_size"]) for each in found] == [
        ("torch/ddp", 32),
        ("torch/ddp", 64),
        ("torch/single", 32),
        ("torch/single", 64),
    ]
    assert found[0]["samples_per_second"] == 200
    assert found[2]["problem"] == "It ran out of memory."
    assert (asked["steps"], asked["together"]) == (9, False)
    assert kept.numbers() == [1]


def test_the_winner_is_trained_with_what_was_measured(
    asked: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["race", *DEVICES, "--strategies", "ddp"]) == 0
    said = capsys.readouterr().out
    assert sentence("on-devices-was-fastest") in said
    assert asked["steps"] == 60, "where no flag says how many"
    [line] = [line for line in said.splitlines() if line.startswith("Train with it: ")]
    started: list[Planning | None] = []

    def start(spec: RunSpec, tags: object, planning: Planning | None) -> str:
        assert spec == asked["entrants"][0]
        started.append(planning)
        raise client.CannotStart([])

    monkeypatch.setattr(client, "start", start)
    words = shlex.split(line.removeprefix("Train with it: "))
    assert main(words[words.index("train") :]) == 2
    [planning] = started
    assert planning is not None
    assert planning.number == 1


def test_a_measurement_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--devices", "cpu:0", "--planned", "4"]) == 2
    assert "no measurement 4" in capsys.readouterr().err
    assert paths.run_ids() == []


def test_nothing_that_could_run_is_a_failure_and_is_not_kept(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    asked["rates"] = []
    assert main(["race", *DEVICES, "--strategies", "ddp", "--json"]) == 1
    assert [each["samples_per_second"] for each in json.loads(capsys.readouterr().out)] == [
        None,
        None,
    ]
    assert kept.numbers() == []


def test_what_was_measured_is_printed_also_where_it_cannot_be_kept(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "keep", full)
    assert main(["race", *DEVICES, "--strategies", "ddp"]) == 0
    said = capsys.readouterr()
    assert "200 samples/s" in said.out
    assert "--planned" not in said.out
    assert sentence("this-could-not-be-kept-no-space-left-on-device") in said.err


def test_a_stopped_race_prints_what_is_known(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    asked["stops"] = True
    assert main(["race", *DEVICES, "--strategies", "ddp", "--json"]) == 3
    said = capsys.readouterr()
    assert len(json.loads(said.out)) == 2
    assert sentence("was-stopped-of-were-measured") in said.err


def test_all_strategies_of_the_recipe_race_by_default(asked: dict[str, Any]) -> None:
    assert main(["race", *DEVICES, "--recipe", "digits_keras"]) == 0
    names = {spec.strategy for spec in asked["entrants"]}
    assert {"torch/keras_ddp", "tf/single", "tf/mirrored", "tf/parameter_server"} <= names


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--strategies", "nope"], sentence("there-is-no-strategy", strategy="nope")),
        (["--strategies", "ddp,,fsdp"], "empty entry"),
        (["--strategies", ""], "empty entry"),
        (["--batch-sizes", "64,-1"], "not '-1'"),
        (["--batch-sizes", "1.5"], "not '1.5'"),
        (["--precisions", "fp7"], "not 'fp7'"),
        (["--device-counts", "3"], "A race on 3 devices"),
        (["--device-counts", "0"], "A race on 0 devices"),
        (["--recipe", "gone.py"], "There is no recipe file"),
    ],
)
def test_what_is_no_race_is_refused(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    assert main(["race", *DEVICES, *options]) == 2
    assert text in capsys.readouterr().err
    assert "entrants" not in asked


@pytest.mark.usefixtures("processes")
def test_too_few_steps_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["race", *DEVICES, "--steps", "4", "--json"]) == 2
    assert "at least 5" in json.loads(capsys.readouterr().out)["problems"][0]["text"]


def test_a_bar_is_as_long_as_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    bar: Callable[[float], str] = command._bar
    assert len(bar(1)) == 24
    assert bar(0.5) == 12 * "█"
    assert bar(0) == ""


def test_columns_that_say_nothing_are_left_out() -> None:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0",))
    entries = [_entry(spec, 2.0), _entry(replace(spec, batch_size=9), 1.0, is_tied=True)]
    titles = [column.header for column in command._table(entries).columns]
    assert "batch" in titles
    assert "remark" in titles
    assert "precision" not in titles
    assert "J/sample" not in titles
