"""Pipelines of two and of three ranks against the whole model; the ranks run once for all tests.

What the ranks do stands in `pipeline_rank`.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from engine.pytorch.parallelism.pipeline import MicroBatches
from engine.pytorch.parallelism.stage_signature import ONLY_FLOATS
from engine.pytorch.strategies.pipeline import strategy
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from tests.engine.pytorch.parallelism.pipeline_models import chain
from tests.engine.pytorch.parallelism.pipeline_rank import MICROBATCHES, POOLS, SIZES
from tests.support.programs import Program

GPUS = ("GPU-1", "GPU-2")

Found = dict[str, Any]


@pytest.fixture(scope="module")
def pools(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Found]]:
    """The results of each rank, by the size of its pool."""
    folder = tmp_path_factory.mktemp("ranks")
    program = Program(
        "torch",
        "tests.support.strict_program",
        "tests.engine.pytorch.parallelism.pipeline_rank",
        str(folder),
        log=folder / "log",
        variables={"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"},
    )
    try:
        program.output()
    finally:
        program.kill()  # also ends ranks that wait for ever
    return {
        size: [
            torch.load(folder / f"rank{number}of{size}.pt", weights_only=True)
            for number in range(size)
        ]
        for size in POOLS
    }


@pytest.fixture(params=POOLS)
def pool(request: pytest.FixtureRequest, pools: dict[int, list[Found]]) -> list[Found]:
    """The results of each rank of one pool."""
    return pools[request.param]


def merged(parts: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The tensors of all ranks together; each is on one rank only."""
    whole: dict[str, torch.Tensor] = {}
    for part in parts:
        assert not whole.keys() & part.keys()
        whole |= part
    return whole


def assert_close(found: Found, expected: Found, tolerance: float = 1e-6) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert torch.allclose(value, expected[name], rtol=0, atol=tolerance), name


WAYS = (
    *(f"{size} in {microbatches}" for microbatches in MICROBATCHES for size in SIZES),
    "many sizes",
    "after a pause",
)


@pytest.mark.parametrize("way", WAYS)
def test_loss_and_gradients_are_those_of_the_whole_model(pool: list[Found], way: str) -> None:
    runs = [rank["training"][way] for rank in pool]
    _, expected = runs[0]
    assert_close(merged([found["gradients"] for found, _ in runs]), expected["gradients"])
    assert all(found["loss"] == pytest.approx(float(expected["loss"])) for found, _ in runs)


def test_half_precision_is_that_of_the_whole_model(pool: list[Found]) -> None:
    runs = [rank["training"]["bf16"] for rank in pool]
    exact = pool[0]["training"]["12 in 0"][1]["gradients"]
    found, (_, expected) = merged([found["gradients"] for found, _ in runs]), runs[0]
    assert_close(found, expected["gradients"], 5e-3)
    assert any((found[name] - exact[name]).abs().max() > 1e-5 for name in exact)


@pytest.mark.skipif(ONLY_FLOATS, reason="this PyTorch exchanges floating-point tensors only")
def test_inputs_and_outputs_may_be_nested_and_stages_exchange_tuples(pool: list[Found]) -> None:
    parts = [rank["structures"] for rank in pool]
    expected = parts[0]["by hand"]
    found = merged([part["pipeline"]["gradients"] for part in parts])
    assert_close(found, expected["gradients"])
    assert parts[0]["pipeline"]["loss"] == pytest.approx(float(expected["loss"]))
    assert [bool(part["figures"]) for part in parts] == [False] * (len(pool) - 1) + [True]


@pytest.mark.parametrize("size", SIZES)
def test_the_last_rank_validates(pool: list[Found], size: int) -> None:
    *others, last = (rank["figures"] for rank in pool)
    assert all(rank[f"validation {size}"] == {} for rank in others)
    assert_close(last[f"validation {size}"], last[f"by hand {size}"])


def test_every_rank_knows_size_and_gradient_norm_of_the_whole_model(pool: list[Found]) -> None:
    for rank in pool:
        figures = rank["figures"]
        assert figures["parameters"] == sum(p.numel() for p in chain().parameters())
        assert figures["norm"] == pytest.approx(float(figures["norm by hand"]))


def test_a_rank_has_its_weights_under_their_names_in_the_whole_model(pool: list[Found]) -> None:
    names = [name for rank in pool for name in rank["figures"]["names"]]
    assert names == list(chain().state_dict())


def test_waiting_is_measured_in_training_only(pool: list[Found]) -> None:
    for rank in pool:
        assert rank["figures"]["waiting"] > 0.0
        assert rank["figures"]["waiting of nothing"] == 0.0
        assert rank["figures"]["waiting in validation"] == 0.0


def test_statistics_are_those_of_the_micro_batches(pool: list[Found]) -> None:
    found = merged([rank["statistics"][0] for rank in pool])
    assert_close(found, pool[0]["statistics"][1])


def test_a_checkpoint_is_that_of_one_process(pool: list[Found]) -> None:
    weights = merged([rank["checkpointed"][0] for rank in pool])
    for rank in pool:
        assert_close(rank["checkpointed"][1], weights, 0.0)


def test_an_error_of_a_stage_is_reported_and_the_other_ranks_lose_a_peer(
    pool: list[Found],
) -> None:
    *others, last = (rank["failure"] for rank in pool)
    assert last["message"] == "RuntimeError: the recipe's own error"
    assert last["line"].startswith("raise RuntimeError")
    assert not last["lost_peer"]
    assert all(rank["lost_peer"] for rank in others), others


@pytest.mark.parametrize(
    ("samples", "wanted", "count", "size"),
    [(128, 8, 8, 16), (97, 8, 8, 13), (9, 8, 5, 2), (3, 8, 3, 1), (1, 4, 1, 1), (7, 1, 1, 7)],
)
def test_no_micro_batch_is_empty(samples: int, wanted: int, count: int, size: int) -> None:
    parts = MicroBatches.of(samples, wanted)
    assert (parts.count, parts.size) == (count, size)
    rows = [row for number in range(count) for row in range(samples)[parts.rows(number)]]
    assert rows == list(range(samples))
    assert parts.rows(count - 1).start < samples


def refusal(field: str, devices: tuple[str, ...], **options: Any) -> str:
    spec = RunSpec(recipe="", strategy=strategy.name, devices=devices, **options)
    return strategy.refusal(field, spec)


def test_what_it_refuses() -> None:
    cpus = ("cpu:0", "cpu:1")
    assert "choose bf16" in refusal("precision", cpus, precision="fp16")
    assert not refusal("precision", cpus, precision="bf16")
    assert not refusal("microbatches", cpus, microbatches=4)
    assert "choose nccl" in refusal("backend", GPUS, backend="gloo")
    assert not refusal("backend", cpus, backend="gloo")
    assert "needs gloo" in refusal("workers_per_device", GPUS, workers_per_device=2)


def test_what_it_needs() -> None:
    assert "choose more" in strategy.problems(("cpu:0",))[0]
    assert not strategy.problems(("cpu:0", "cpu:1"))
    assert strategy.replicas(GPUS) == 1
    recipe = RecipeInfo(name="own", path="", builtin=False, framework="torch")
    assert "stages(model, count)" in strategy.recipe_problem(recipe)
