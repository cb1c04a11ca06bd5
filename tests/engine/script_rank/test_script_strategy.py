"""Which commands a strategy of scripts starts, and which settings it refuses by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.spec import catalog
from engine.spec.recipe_file import RecipeInfo, read_script
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from engine.spec.validation import problems
from tests.support.sentences import sentence

SCRIPTS = [s for s in catalog.strategies() if s.name.startswith("script/")]
PLACING = {"script/ddp", "script/fsdp", "script/mirrored"}


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


def test_there_are_six() -> None:
    names = {"single", "torchrun", "tf_config", "ddp", "fsdp", "mirrored"}
    assert {strategy.short_name for strategy in SCRIPTS} == names
    assert not set(SCRIPTS) & set(catalog.recipe_strategies())


@pytest.mark.parametrize("strategy", SCRIPTS, ids=lambda each: each.name)
def test_only_scripts_with_calls_are_placed(strategy: Strategy, script: RecipeInfo) -> None:
    found = strategy.recipe_problem(script)
    assert bool(found) == (strategy.name in PLACING)
    assert not found or ("does not import traindeck" in found and "script/torchrun" in found)
    assert strategy.recipe_problem(replace(script, uses_calls=True)) == ""


@pytest.mark.parametrize("strategy", SCRIPTS, ids=lambda each: each.name)
def test_a_recipe_is_none_of_theirs(strategy: Strategy) -> None:
    assert "is a torch recipe" in strategy.recipe_problem(catalog.recipe("digits"))


def test_a_script_is_no_recipe_and_says_how_it_is_run(script: RecipeInfo) -> None:
    text = catalog.strategy("torch/ddp").recipe_problem(script)
    assert "run -- " in text
    assert script.path in text


def test_a_short_name_means_the_strategy_of_the_kind(script: RecipeInfo) -> None:
    assert catalog.strategy("ddp", script).name == "script/ddp"
    assert catalog.strategy("ddp").name == "torch/ddp"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("epochs", 7, "The script decides this"),
        ("precision", "bf16", "The script decides this"),
        ("workers_per_device", 2, "one process per device"),
        ("on_nan", "skip", "choose continue or stop"),
        ("seed", 3, sentence("only-with-calls-of-module-traindeck")),
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
    spec = spec_for(script, "script/fsdp", seed=4, checkpoint_steps=5)
    assert problems(spec, calls, catalog.strategy(spec.strategy), ()) == []


def test_the_processes() -> None:
    devices = ("cpu:0", "cpu:1")
    pools = {strategy.short_name: len(strategy.pool(devices)) for strategy in SCRIPTS}
    assert pools == {"single": 1, "mirrored": 1, "torchrun": 2, "tf_config": 2, "ddp": 2, "fsdp": 2}
