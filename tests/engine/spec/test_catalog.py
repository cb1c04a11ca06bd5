"""Which strategies and recipes there are, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import one_process, one_process_per_device
from tests.support.sentences import sentence


def test_every_strategy_file_is_found() -> None:
    rooms = Path(catalog.__file__).parents[1]
    files = [*rooms.glob("*/strategies/[!_]*.py")]
    names = [strategy.name for strategy in catalog.strategies()]
    assert len(set(names)) == len(files)
    assert names == sorted(names)
    assert {"torch/single", "torch/ddp"} <= set(names)


def test_a_strategy_by_its_full_name() -> None:
    assert catalog.strategy("torch/ddp").name == "torch/ddp"


def test_a_short_name_is_enough_with_a_recipe_that_only_one_fits() -> None:
    assert catalog.strategy("single", catalog.recipe("digits")).name == "torch/single"


def test_an_unknown_strategy_is_answered_with_those_that_would_do() -> None:
    with pytest.raises(catalog.UnknownName) as caught:
        catalog.strategy("sinlge", catalog.recipe("digits"))
    text = str(caught.value)
    assert sentence("there-is-no-strategy-sinlge") in text
    assert "torch/single" in text
    assert "tf/" not in text


def test_a_built_in_recipe_by_its_name() -> None:
    digits = catalog.recipe("digits")
    assert digits.builtin
    assert digits.reference == "digits"


@pytest.mark.parametrize("info", catalog.builtin_recipes(), ids=lambda info: info.name)
def test_every_built_in_recipe_is_usable(info: catalog.RecipeInfo) -> None:
    assert info.problem == ""
    assert info.doc
    assert catalog.strategies_for(info)


def test_a_relative_path_is_a_recipe_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("import torch\ndef model(): ...\ndef datasets(): ...")
    monkeypatch.chdir(tmp_path)
    info = catalog.recipe("mine.py")
    assert info.problem == ""
    assert info.reference == str(tmp_path / "mine.py")


def test_an_unknown_recipe_is_answered_with_those_there_are() -> None:
    with pytest.raises(catalog.UnknownName, match=r"no built-in recipe 'digit'.*digits"):
        catalog.recipe("digit")


def test_a_path_of_an_unknown_user_is_a_missing_recipe() -> None:
    assert "no recipe file" in catalog.recipe("~nobody-of-this-name/mine.py").problem


def test_one_process_per_device_gives_rank_k_device_k() -> None:
    plans = one_process_per_device(("a", "b"))
    assert [(plan.rank, plan.devices) for plan in plans] == [(0, ("a",)), (1, ("b",))]


def test_one_process_has_every_device() -> None:
    [plan] = one_process(("a", "b"))
    assert (plan.rank, plan.devices) == (0, ("a", "b"))


@pytest.mark.parametrize(
    ("recipe", "devices", "usual"),
    [
        ("digits", 1, "torch/single"),
        ("digits", 3, "torch/ddp"),
        ("digits_keras", 1, "tf/single"),
        ("digits_keras", 2, "tf/mirrored"),
    ],
)
def test_the_usual_strategy_is_not_the_first_by_alphabet(
    recipe: str, devices: int, usual: str
) -> None:
    offered = catalog.strategies_for(catalog.recipe(recipe))
    assert catalog.usual_strategy(offered, devices).name == usual
    assert catalog.usual_strategy(offered[-1:], devices) is offered[-1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tf/mirrored_fit", sentence("smaller-parts-need-gradient-accumulation-under")),
        ("tf/parameter_server", sentence("many-steps-of-workers-are-under")),
        ("torch/fsdp", ""),
        ("torch/pipeline", ""),
        ("tf/mirrored", ""),
    ],
)
def test_smaller_parts_are_refused_where_batches_have_none(name: str, reason: str) -> None:
    spec = RunSpec(recipe="digits", strategy=name, devices=("cpu:0", "cpu:1"), on_oom="shrink")
    found = catalog.strategy(name).refusal("on_oom", spec)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)
