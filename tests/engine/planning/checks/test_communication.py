"""What is said of the exchange between ranks, and of copies."""

from __future__ import annotations

import pytest

from engine.planning.checks.communication import (
    all_reduce_finding,
    bus_bandwidth,
    copies_findings,
    time_of,
)
from tests.engine.planning.checks.conftest import Make
from tests.support.sentences import sentence

MIB = 2**20
TABLE = {1024: 0.001, 4 * MIB: 0.01, 64 * MIB: 0.1}
FIGURES = {f"all_reduce/{size}/seconds": seconds for size, seconds in TABLE.items()}
GPUS = {"strategy": "torch/ddp", "devices": ("GPU-a", "GPU-b")}


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_the_bus_bandwidth_is_that_of_nccl_tests(ranks: int, factor: float) -> None:
    assert bus_bandwidth(10.0, ranks) == pytest.approx(10 * factor)


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        (8, 0.001),
        (4 * MIB, 0.01),
        (34 * MIB, 0.055),
        (128 * MIB, 0.2),
    ],
)
def test_times_between_and_beyond_the_sizes(size: int, seconds: float) -> None:
    assert time_of(TABLE, size) == pytest.approx(seconds, rel=0.01)


def test_the_gradients_of_a_step_are_compared_with_what_was_measured(made: Make) -> None:
    found = all_reduce_finding(made(measured=FIGURES))
    assert found.level == "ok"
    assert found.text == sentence("ranks-sum-kib-in-ms")


def test_an_exchange_that_takes_most_of_a_step_proposes_a_larger_batch(made: Make) -> None:
    found = all_reduce_finding(made(measured=FIGURES, parameters=20_000_000))
    assert found.level == "hint"
    assert found.change is not None
    assert found.change.fields == {"batch_size": 128}


def test_other_strategies_send_other_messages(made: Make) -> None:
    run = made({"strategy": "torch/fsdp"}, measured=FIGURES, parameters=20_000_000)
    assert "gradients of a step" not in all_reduce_finding(run).text


@pytest.mark.parametrize(
    ("spec", "ranks", "phrase"),
    [
        ({"strategy": "torch/single", "devices": ("cpu:0",)}, 1, "One process trains"),
        ({"strategy": "tf/parameter_server"}, 0, "part of its step time"),
        ({}, 2, "no time"),
    ],
)
def test_why_there_is_no_figure(
    made: Make, spec: dict[str, object], ranks: int, phrase: str
) -> None:
    run = made(spec, rank_shares={rank: {} for rank in range(ranks)})
    assert phrase in all_reduce_finding(run).text


def test_a_cpu_has_no_copies(made: Make) -> None:
    (found,) = copies_findings(made())
    assert (found.level, "no GPU" in found.text) == ("ok", True)


def copied(pinned: float) -> dict[str, float]:
    size = 64 * MIB
    return {
        "rank/0/to_gpu/pinned/seconds": size / 25e9,
        "rank/0/to_gpu/pageable/seconds": size / 6e9,
        "rank/1/to_gpu/pinned/seconds": size / pinned,
        "rank/1/to_gpu/pageable/seconds": size / 5e9,
    }


def test_copies_to_gpus_are_told(made: Make) -> None:
    (found,) = copies_findings(made(GPUS, measured=copied(20e9)))
    assert found.level == "ok"
    assert sentence("at-least-from-pinned-memory") in found.text


def test_a_card_in_a_slow_slot_is_named(made: Make) -> None:
    (found,) = copies_findings(made(GPUS, measured=copied(1.5e9)))
    assert found.level == "warning"
    assert sentence("card-of-rank-gpu-b") in found.advice


def test_copies_through_the_host_are_named(made: Make) -> None:
    between = {
        "between_gpus/0/1/seconds": 64 * MIB / 20e9,
        "between_gpus/0/1/direct": 1.0,
        "between_gpus/1/0/seconds": 64 * MIB / 5e9,
        "between_gpus/1/0/direct": 0.0,
    }
    _, found = copies_findings(made(GPUS, measured=copied(20e9) | between))
    assert found.level == "hint"
    assert found.text == sentence("copies-between-gpus-are-slow")
