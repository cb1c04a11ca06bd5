"""Options of the TensorFlow strategies: what each refuses, and how a device is divided."""

from __future__ import annotations

import pytest

from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from tests.support.contract import assert_alike, plain, probe
from tests.support.trained_runs import trained

GPU = "GPU-00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    ("name", "options", "field", "said"),
    [
        ("tf/mirrored", {"cross_device": "nccl"}, "cross_device", "NVIDIA GPUs"),
        ("tf/mirrored", {"cross_device": "hierarchical"}, "cross_device", ""),
        (
            "tf/mirrored",
            {"cross_device": "nccl", "workers_per_device": 2, "devices": (GPU,)},
            "cross_device",
            "one replica per GPU",
        ),
        ("tf/single", {"cross_device": "one_device"}, "cross_device", "tf/mirrored"),
        ("torch/ddp", {"cross_device": "nccl"}, "cross_device", "TensorFlow"),
        ("torch/keras_ddp", {"memory_limit_mib": 100}, "memory_limit_mib", "TensorFlow"),
        ("tf/mirrored", {"memory_limit_mib": 100}, "memory_limit_mib", "GPUs"),
        ("tf/mirrored", {"memory_limit_mib": 9, "devices": (GPU,)}, "memory_limit_mib", ""),
        ("tf/single", {"workers_per_device": 2}, "workers_per_device", "tf/mirrored"),
        ("tf/mirrored", {"workers_per_device": 2}, "workers_per_device", ""),
        (
            "tf/mirrored",
            {"workers_per_device": 2, "devices": (GPU,)},
            "workers_per_device",
            "memory limit",
        ),
        ("tf/mirrored", {"precision": "tf32"}, "precision", "NVIDIA GPUs"),
        ("tf/mirrored", {"precision": "fp16"}, "precision", ""),
        ("tf/mirrored", {"momentum": 0.9, "optimizer": "adam"}, "momentum", "SGD"),
        ("tf/mirrored", {"loader_workers": 2}, "loader_workers", "arrays"),
    ],
)
def test_only_impossible_options_are_refused(
    name: str, options: dict[str, object], field: str, said: str
) -> None:
    spec = probe(catalog.strategy(name), **options) if "devices" not in options else None
    if spec is None:
        spec = RunSpec(recipe="digits_keras", strategy=name, **options)  # type: ignore[arg-type]
    refusal = catalog.strategy(name).refusal(field, spec)
    assert said in refusal
    assert bool(refusal) == bool(said)


@pytest.mark.usefixtures("processes")
@pytest.mark.nightly
@pytest.mark.parametrize("way", ["hierarchical", "one_device"])
def test_one_device_can_be_divided(way: str) -> None:
    """Two replicas on one device, for each cross-device operation."""
    mirrored = catalog.strategy("tf/mirrored")
    info = trained(probe(mirrored, devices=1, workers_per_device=2, cross_device=way))
    assert info.status.replicas == 2
    assert_alike(info, plain(catalog.strategy("tf/single")))
