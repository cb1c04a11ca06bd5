"""What is said of the work of GPUs, from facts; and the probes' own lines, on the CPU."""

from __future__ import annotations

import math

import msgspec
import pytest

from engine.doctor.computation import (
    TOLERANCE,
    mirrored_check,
    ranks_check,
    tensorflow_checks,
    torch_gpu_check,
)
from engine.doctor.facts import ComputationFacts, GpuFacts, MirroredFacts, RanksFacts
from engine.doctor.probing import ask
from tests.support.sentences import sentence

GPU = GpuFacts(index=0, uuid="GPU-a", name="Card", capability=(9, 0))
GOOD = ComputationFacts(
    errors={f"{what} {name}": 1e-7 for what in ("matmul", "convolution") for name in TOLERANCE},
    count=1,
    uuid="a",
    free=1 << 30,
    total=2 << 30,
)


def test_a_card_that_computes_right() -> None:
    check = torch_gpu_check(GOOD, GPU, "GPU-a")
    assert check.level == "ok"
    assert "fp32, tf32, bf16, fp16 agree with the CPU" in check.text


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        (
            {"errors": GOOD.errors | {"matmul bf16": 0.4}},
            sentence("matmul-is-wrong-error", precision="bf16", error="0.4"),
        ),
        ({"errors": GOOD.errors | {"convolution fp32": 1e-3}}, "convolution fp32 is wrong"),
        (
            {"errors": GOOD.errors | {"matmul fp32": math.nan}},
            sentence("matmul-is-wrong-error", precision="fp32", error="nan"),
        ),
        ({"failures": {"matmul fp16": "RuntimeError: no kernel."}}, "matmul fp16 failed (Runtime"),
        ({"count": 2}, sentence("pytorch-sees-devices-where-only-gpu-a")),
        ({"uuid": "b"}, sentence("cuda-gives-card-b-where-nvml")),
    ],
    ids=str,
)
def test_a_card_that_does_not(changes: dict[str, object], phrase: str) -> None:
    check = torch_gpu_check(msgspec.structs.replace(GOOD, **changes), GPU, "GPU-a")
    assert check.level == "error"
    assert phrase in check.text
    assert check.advice


def test_a_full_card_is_not_called_faulty() -> None:
    full = msgspec.structs.replace(GOOD, errors={}, failures={"matmul fp32": "CUDA out of memory"})
    assert sentence("other-programs-use-memory") in torch_gpu_check(full, GPU, "GPU-a").advice


@pytest.mark.parametrize(
    ("facts", "level", "said", "remedy"),
    [
        (RanksFacts("ok"), "ok", sentence("sum-over-two-gpus-is-right"), ""),
        (
            RanksFacts("hung", "", "ok"),
            "error",
            sentence("did-not-end-within-without"),
            "NCCL_P2P_DIS",
        ),
        (RanksFacts("wrong", "", "ok"), "error", "is wrong; without copies", "NCCL_P2P_DISABLE=1"),
        (RanksFacts("failed", "no way", "hung"), "error", "failed: no way; without", "Xid"),
    ],
    ids=str,
)
def test_the_sum_over_ranks(facts: RanksFacts, level: str, said: str, remedy: str) -> None:
    check = ranks_check(facts, ["GPU 0", "GPU 1"], 30.0)
    assert check.level == level
    assert said in check.text
    assert remedy in check.advice


def test_tensorflow_that_lists_too_few_or_computes_wrong() -> None:
    few = tensorflow_checks(ComputationFacts(devices=0), ["GPU-a", "GPU-b"])
    assert [check.level for check in few] == ["error", "unknown", "unknown"]
    assert few[0].text == "TensorFlow lists 0 of 2 GPUs."
    errors = {"convolution 0": 1e-7, "convolution 1": 0.5, "XLA 0": 1e-7, "XLA 1": 1e-7}
    wrong = tensorflow_checks(ComputationFacts(devices=2, errors=errors), ["GPU-a", "GPU-b"])
    assert [check.level for check in wrong] == ["ok", "error", "ok"]


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        (MirroredFacts(devices=1), "unknown"),
        (MirroredFacts(devices=2, sum=((3, 3), (3, 3))), "ok"),
        (MirroredFacts(devices=2, sum=((3, 3), (1, 3))), "error"),
        (MirroredFacts(devices=2, failure="InternalError: NCCL"), "error"),
    ],
    ids=str,
)
def test_the_sum_over_replicas(facts: MirroredFacts, level: str) -> None:
    assert mirrored_check(facts).level == level


@pytest.mark.usefixtures("processes")
def test_the_probe_computes_within_the_tolerances_on_a_cpu() -> None:
    found = msgspec.convert(ask("torch_gpu", "cpu", seconds=120.0).facts, ComputationFacts)
    assert found.failures == {}
    assert len(found.errors) == 8
    for name, error in found.errors.items():
        assert 0 < error <= TOLERANCE[name.rpartition(" ")[2]], name


@pytest.mark.nightly
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("torch_ranks", "gloo", "2", "60"), RanksFacts),
        (("tensorflow_gpu", "CPU", "compute"), ComputationFacts),
        (("tensorflow_gpu", "CPU", "mirrored"), MirroredFacts),
    ],
    ids=str,
)
def test_the_other_probes_find_nothing_wrong_on_a_cpu(
    arguments: tuple[str, ...], kind: type[msgspec.Struct]
) -> None:
    found = msgspec.convert(ask(*arguments, seconds=120.0).facts, kind)
    match found:
        case RanksFacts():
            assert found == RanksFacts("ok")
        case ComputationFacts():
            assert all(check.level == "ok" for check in tensorflow_checks(found, ["", ""]))
        case MirroredFacts():
            assert mirrored_check(found).level == "ok"
