"""Which commands a strategy of scripts starts, and which settings it refuses by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo, read_script
from engine.spec.run_spec import RunSpec
from engine.spec.script_spec import resumes_by_calls
from engine.spec.strategy import Strategy
from engine.spec.validation import problems
from tests.support.sentences import sentence

SCRIPTS = [s for s in catalog.strategies() if s.name.startswith("script/")]


@pytest.fixture
def script(tmp_path: Path) -> RecipeInfo:
    (tmp_path / "train.py").write_text("print(1)")
    return read_script(tmp_path / "train.py")


def spec_for(script: RecipeInfo, strategy: str = "script/single", **fields: Any) -> RunSpec:
    devices = ("cpu:0", "cpu:1")
    command = ("train.py",)
    return RunSpec(
        recipe=script.path, strategy=strategy, devices=devices, command=command, **fields
    )


def test_there_are_three() -> None:
    names = {"single", "torchrun", "tf_config"}
    assert {strategy.short_name for strategy in SCRIPTS} == names
    assert not set(SCRIPTS) & set(catalog.recipe_strategies())


@pytest.mark.parametrize("strategy", SCRIPTS, ids=lambda each: each.name)
def test_a_recipe_is_none_of_theirs(strategy: Strategy) -> None:
    assert "is a torch recipe" in strategy.recipe_problem(catalog.recipe("digits"))


def test_a_script_is_no_recipe_and_says_how_it_is_run(script: RecipeInfo) -> None:
    text = catalog.strategy("torch/ddp").recipe_problem(script)
    assert "run -- " in text
    assert script.path in text


def test_a_short_name_means_the_strategy_of_the_kind(script: RecipeInfo) -> None:
    assert catalog.strategy("single", script).name == "script/single"
    assert catalog.strategy("ddp").name == "torch/ddp"


@pytest.mark.parametrize("name", ["script/ddp", "script/fsdp", "script/mirrored"])
def test_a_strategy_of_an_earlier_version_says_what_to_choose(
    script: RecipeInfo, name: str
) -> None:
    for found in (lambda: catalog.strategy(name), lambda: catalog.strategy(name[7:], script)):
        with pytest.raises(catalog.UnknownName, match=f"{name} is no longer there.*torchrun"):
            found()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("epochs", 7, "The script decides this"),
        ("precision", "bf16", "The script decides this"),
        ("workers_per_device", 2, "one process per device"),
        ("on_nan", "skip", "choose continue or stop"),
        ("seed", 3, "The script decides this"),
        ("checkpoint_steps", 3, sentence("only-with-calls-of-module-traindeck")),
    ],
)
def test_what_a_script_cannot_follow_is_refused_by_name(
    script: RecipeInfo, field: str, value: object, words: str
) -> None:
    spec = spec_for(script, **{field: value})
    [problem] = problems(spec, script, catalog.strategy(spec.strategy), ())
    assert problem.field == field
    assert words in problem.text


def test_what_it_can_follow_is_accepted(script: RecipeInfo) -> None:
    spec = spec_for(script, max_restarts=2, on_nan="stop", checkpoint_minutes=1.0)
    assert problems(spec, script, catalog.strategy(spec.strategy), ()) == []
    calls = replace(script, uses_calls=True)
    spec = spec_for(script, checkpoint_steps=5)
    assert problems(spec, calls, catalog.strategy(spec.strategy), ()) == []


def test_what_calls_follow_in_one_process_is_refused_in_several(script: RecipeInfo) -> None:
    calls = replace(script, uses_calls=True)
    spec = spec_for(script, "script/torchrun", checkpoint_steps=5)
    [problem] = problems(spec, calls, catalog.strategy(spec.strategy), ())
    assert problem.field == "checkpoint_steps"
    assert "only in one process" in problem.text
    alone = replace(spec, devices=("cpu:0",))
    assert problems(alone, calls, catalog.strategy(spec.strategy), ()) == []


@pytest.mark.parametrize(
    ("strategy", "devices", "resumes"),
    [("single", 2, True), ("torchrun", 1, True), ("torchrun", 2, False), ("tf_config", 2, False)],
)
def test_the_calls_resume_one_process(
    script: RecipeInfo, strategy: str, devices: int, resumes: bool
) -> None:
    spec = replace(spec_for(script, f"script/{strategy}"), devices=("cpu:0", "cpu:1")[:devices])
    assert resumes_by_calls(spec, replace(script, uses_calls=True)) == resumes
    assert not resumes_by_calls(spec, script)


def test_the_processes() -> None:
    devices = ("cpu:0", "cpu:1")
    pools = {strategy.short_name: len(strategy.pool(devices)) for strategy in SCRIPTS}
    assert pools == {"single": 1, "torchrun": 2, "tf_config": 2}
