"""Keras models under DDP: one rank and two, in processes of their own, started once for all tests.

What the ranks do stands in `keras_ddp_rank`.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from engine.pytorch.strategies.keras_ddp import strategy
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.worker import environment
from tests.support.programs import Program

RANKS = ((0, 1), (0, 2), (1, 2))
"""Number and world size of each process; the first is alone in its pool."""

Found = dict[str, Any]


@pytest.fixture(scope="module")
def ranks(processes: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found, Found]:
    """The results of each rank: alone, as rank 0 of 2, as rank 1 of 2."""
    folder = tmp_path_factory.mktemp("ranks")
    files = [folder / f"rank{number}of{size}.pt" for number, size in RANKS]
    programs = [
        Program(
            "keras-torch",
            "tests.support.strict_program",
            "tests.engine.pytorch.parallelism.keras_ddp_rank",
            *(str(number), str(size), str(file)),
            log=file.with_suffix(".log"),
            variables={
                "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
                environment.RENDEZVOUS: str(folder / f"rendezvous{size}"),
            },
        )
        for (number, size), file in zip(RANKS, files, strict=True)
    ]
    try:
        for program in programs:
            program.output()
    finally:
        for program in programs:
            program.kill()  # a rank whose peer failed may still wait for it
    alone, first, second = (torch.load(file, weights_only=True) for file in files)
    return alone, first, second


@pytest.fixture
def alone(ranks: tuple[Found, Found, Found]) -> Found:
    return ranks[0]


@pytest.fixture
def pair(ranks: tuple[Found, Found, Found]) -> tuple[Found, Found]:
    return ranks[1:]


def test_an_uneven_batch_has_the_gradients_of_one_device(
    alone: Found, pair: tuple[Found, Found]
) -> None:
    """Also in parts, and with the model's own losses: weight decay and activity."""
    expected = alone["gradients"]["by hand"]
    assert len(expected) == 5
    for rank in (alone, *pair):
        for parts in ("[7]", "[4, 3]"):
            found = rank["gradients"][parts]
            assert found.keys() == expected.keys()
            for name, value in found.items():
                assert torch.allclose(value, expected[name], atol=1e-6), (parts, name)


def test_running_statistics_move_in_training_only_and_are_those_of_rank_0(
    pair: tuple[Found, Found],
) -> None:
    first, second = (rank["statistics"] for rank in pair)
    assert not torch.equal(first["begin"], first["trained"])
    assert not torch.equal(first["trained"], second["trained"])
    for rank in (first, second):
        assert torch.equal(rank["aligned"], first["trained"])
        assert torch.equal(rank["validated"], rank["aligned"])


def test_dropout_is_on_in_training_only_and_differs_between_ranks(
    pair: tuple[Found, Found],
) -> None:
    first, second = (rank["dropout"] for rank in pair)
    assert not torch.equal(first["trained"], second["trained"])
    assert not torch.equal(first["trained again"], second["trained"])
    assert torch.equal(first["validated"], second["validated"])
    for rank in (first, second):
        assert not torch.equal(rank["trained"], rank["trained again"])
        assert torch.equal(rank["validated"], rank["validated again"])


def test_each_rank_restores_its_own_seed_generators(pair: tuple[Found, Found]) -> None:
    for rank in pair:
        outputs = rank["dropout"]
        assert torch.equal(outputs["next"], outputs["next, restored"])
        assert not torch.equal(outputs["next"], outputs["after next"])
    assert not torch.equal(pair[0]["dropout"]["after next"], pair[1]["dropout"]["after next"])


def test_a_checkpoint_of_all_ranks_restores_every_tensor(
    alone: Found, pair: tuple[Found, Found]
) -> None:
    for rank in (alone, *pair):
        saved, restored = (rank["checkpointed"][when] for when in ("saved", "restored"))
        assert saved.keys() == restored.keys()
        assert [name for name in saved if not torch.equal(saved[name], restored[name])] == []
        assert "slot_0" in saved
        # Every rank has its own seeds, which are not in the common part of a checkpoint.
        assert [name for name in saved if "seed" in name] == []


def test_every_optimizer_is_restored_bit_for_bit(alone: Found) -> None:
    states = alone["optimizer_states"]
    assert len(states) == 8
    assert [
        (name, what) for name, all_of in states.items() for what in all_of if not all_of[what]
    ] == []


@pytest.mark.parametrize("rate", ["0.0", "0.25"])
def test_the_schedules_learning_rate_reaches_the_keras_optimizer(alone: Found, rate: str) -> None:
    weight, expected = alone["learning_rates"][rate]
    assert torch.allclose(weight, expected, atol=1e-7)


def test_steps_of_adam_without_waits_are_those_of_keras_bit_for_bit(alone: Found) -> None:
    assert alone["adam_steps"] == {"adamw": True, "adam": True}


def test_constraints_hold_with_optimizers_of_keras_and_of_pytorch(alone: Found) -> None:
    assert alone["constraints"] == {"sgd": 0.0, "torch": 0.0}


def test_bf16_computes_in_bf16(alone: Found) -> None:
    full, half = (alone["half_precision"][name] for name in ("fp32", "bf16"))
    assert not torch.equal(full, half)
    assert torch.allclose(full, half, atol=0.02)


def test_an_optimizer_that_cannot_work_is_refused_with_the_reason(alone: Found) -> None:
    said = alone["refused"]
    assert "choose precision fp16" in said["scaling"]
    assert "choose precision fp16" in said["scaler"]
    assert "gave a str" in said["no optimizer"]
    assert "schedule of its own" in said["two schedules"]
    assert said["own schedule"] == ""


def test_tensorflow_is_not_loaded(ranks: tuple[Found, Found, Found]) -> None:
    assert [rank["modules"] for rank in ranks] == [["keras", "torch"]] * 3


def test_it_trains_keras_recipes_and_does_not_compile_them() -> None:
    assert catalog.strategy("torch/keras_ddp") is strategy
    keras, plain = (catalog.recipe(name) for name in ("digits_keras", "digits"))
    assert strategy.recipe_problem(keras) == ""
    assert "is a torch recipe" in strategy.recipe_problem(plain)
    spec = RunSpec(recipe="digits_keras", strategy=strategy.name, devices=("cpu:0", "cpu:1"))
    assert "seed generators" in strategy.refusal("compile", spec)
    assert strategy.refusal("precision", spec) == ""
