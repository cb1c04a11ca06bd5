"""Tests `engine.planning.kept`: results are kept, found, and copied to a run."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import client
from engine.doctor.finding import Finding
from engine.facts.run_facts import read_facts, write_planning
from engine.planning import kept
from engine.planning.results import BatchSearch, Entry, Preflight, Race
from engine.spec.run_spec import RunSpec
from engine.system import paths
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"), batch_size=64)


def entry(spec: RunSpec = SPEC, rate: float | None = 100.0, *, is_tied: bool = False) -> Entry:
    return Entry(
        strategy=spec.strategy,
        devices=spec.devices,
        batch_size=spec.batch_size,
        precision=spec.precision,
        samples_per_second=rate,
        is_tied=is_tied,
        spec=spec,
    )


def test_a_result_is_read_as_it_was_kept_and_is_private() -> None:
    race = Race(entries=(entry(), entry(rate=None)), steps=60)

    number = kept.keep(race)

    assert number == 1
    assert kept.read(1) == race
    file = paths.home() / kept.FOLDER / "1.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_result_whose_settings_name_the_weights_of_a_twin_run_is_read() -> None:
    results = Race(entries=(entry(), entry(rate=None))), Preflight(spec=SPEC)
    for number, result in enumerate(results, 1):
        kept.keep(result)
        file = paths.home() / kept.FOLDER / f"{number}.json"
        old = file.read_text().replace('"recipe":', '"initial_weights":"","recipe":')
        file.write_text(old)
        assert old.count("initial_weights") == 2 // number
        assert kept.read(number) == result


def test_the_newest_are_kept_and_no_number_is_given_twice() -> None:
    for _ in range(kept.MOST + 2):
        last = kept.keep(Race())

    assert kept.numbers() == list(range(last, 2, -1))
    assert len(kept.numbers()) == kept.MOST


def test_what_is_not_there_or_damaged_is_named() -> None:
    kept.keep(Race())
    file = paths.home() / kept.FOLDER / "1.json"
    with pytest.raises(kept.NoSuchResult, match=sentence("no-measurement-of-that-number").pattern):
        kept.read(2)

    file.write_text("noise")
    with pytest.raises(kept.NoSuchResult, match="cannot be read"):
        kept.read(1)
    assert kept.newest_for(SPEC) is None


def test_the_newest_result_about_a_run_is_found() -> None:
    kept.keep(Race(entries=(entry(), entry(replace(SPEC, strategy="torch/fsdp")))))
    kept.keep(Preflight(spec=replace(SPEC, batch_size=128)))

    found = kept.newest_for(replace(SPEC, name="other", epochs=40))

    assert found is not None
    assert found[0] == 1
    assert kept.newest_for(replace(SPEC, precision="bf16")) is None


def test_a_run_keeps_a_copy(tmp_path: Path) -> None:
    race = Race(entries=(entry(),))
    planning = kept.planned(kept.keep(race))

    write_planning(tmp_path, planning)

    copy = read_facts(tmp_path).planning
    assert copy == planning
    assert kept.result_of(copy) == race


def test_a_run_that_is_started_with_it_has_it_in_its_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_start_supervisor", lambda *_, **__: None)
    planning = kept.planned(kept.keep(Race(entries=(entry(),))))

    run_id = client.start(SPEC, ["paper"], planning)

    assert read_facts(paths.run_folder(run_id)).planning == planning


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Race(), sentence("raced-and-none-could-run")),
        (
            Race(entries=(entry(rate=11840.4), entry(rate=None))),
            sentence("raced-entries-on-devices-was-fastest"),
        ),
        (
            Race(entries=(entry(), entry(replace(SPEC, strategy="torch/fsdp"), 99, is_tied=True))),
            sentence("raced-entries-on-devices-was-fastest-with-tie"),
        ),
        (Preflight(spec=SPEC), sentence("preflight-nothing-stands-out")),
        (
            Preflight(spec=SPEC, findings=(Finding(name="loader", level="warning", text="Slow."),)),
            "Preflight: loader: Slow.",
        ),
        (BatchSearch(text="96 is the fastest."), "96 is the fastest."),
    ],
)
def test_one_sentence_says_what_came_out(result: kept.Result, text: str) -> None:
    assert kept.summary(result) == text
